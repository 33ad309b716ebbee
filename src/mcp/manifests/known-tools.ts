import { canonicalJson, omitUndefined } from "../../core/json.ts";
import {
  listOfferedDefinitions,
  type PendingDefinition,
  type ReviewedTool,
  reviewDefinitions,
} from "./definition-review.ts";
import type { DefinitionPin } from "./manifest-store.ts";
import type { OfferedTool, ServerOffer } from "./offer.ts";
import type { ScanFinding } from "./scan/finding.ts";

/** A tool with a definition that may be shown. */
export interface KnownTool {
  /** The accepted definition, which may not be the offered one. */
  readonly definition: OfferedTool;
  /**
   * - `withheld`: it may not be called, because the server offers another definition under its name
   * - `unapproved`: it is a skill, and its first use needs approval
   */
  readonly state: "usable" | "withheld" | "unapproved";
  /** The kinds of findings in the accepted definition. */
  readonly marks: readonly string[];
  readonly pending?: PendingDefinition;
}

/** A definition that waits for a person or was rejected by one. */
export interface WithheldTool extends PendingDefinition {
  readonly tool: string;
  readonly accepted?: OfferedTool;
  readonly signs: readonly ScanFinding[];
}

type ToolsSource = { readonly offer: ServerOffer; readonly pins: readonly DefinitionPin[]; readonly pinning: boolean };

export interface ServerTools {
  readonly from: ToolsSource;
  readonly tools: readonly KnownTool[];
  readonly byName: ReadonlyMap<string, KnownTool>;
  readonly withheld: readonly WithheldTool[];
  readonly rejected: readonly WithheldTool[];
  readonly unapproved: readonly WithheldTool[];
}

type Marks = ReadonlyMap<string, readonly string[]>;
type ScanFunction = (tool: OfferedTool) => readonly ScanFinding[];

/** A tool that did not change stays the same object as in `before`. */
export function buildServerTools(from: ToolsSource, scan: ScanFunction, before: ServerTools | undefined): ServerTools {
  const { offer, pins, pinning } = from;
  const reviewed = reviewDefinitions(listOfferedDefinitions(offer.tools), pinning ? pins : []);
  const marks = new Map(pins.map((pin) => [pin.hash, pin.marks]));
  const tools = reviewed.flatMap((each) => {
    const tool = pinning ? toPinnedTool(each, marks) : toUnpinnedTool(each, marks);
    if (tool === undefined) return [];
    const same = before?.byName.get(tool.definition.name);
    return [same !== undefined && canonicalJson(same) === canonicalJson(tool) ? same : tool];
  });
  const pending = pinning ? reviewed.flatMap((tool) => listWithheldTools(tool, scan)) : [];
  return {
    from,
    tools,
    byName: new Map(tools.map((tool) => [tool.definition.name, tool])),
    withheld: pending.filter(({ state }) => state === "withheld"),
    rejected: pending.filter(({ state }) => state === "rejected"),
    unapproved: pending.filter(({ state }) => state === "unapproved"),
  };
}

function toPinnedTool(reviewed: ReviewedTool, pinMarks: Marks): KnownTool | undefined {
  const {
    accepted,
    marks,
    pending: [pending],
  } = reviewed;
  if (accepted === undefined) return pending?.state === "unapproved" ? toUnpinnedTool(reviewed, pinMarks) : undefined;
  const state = pending === undefined ? "usable" : "withheld";
  return { definition: accepted, marks, state, ...omitUndefined({ pending }) };
}

function toUnpinnedTool({ pending: [first] }: ReviewedTool, marks: Marks): KnownTool | undefined {
  // Without pins there is nothing to bind an approval of a skill to, so each use is asked about.
  const state = first?.definition.skill === undefined ? "usable" : "unapproved";
  return first && { definition: first.definition, marks: marks.get(first.hash) ?? [], state };
}

function listWithheldTools({ name, accepted, pending }: ReviewedTool, scan: ScanFunction): readonly WithheldTool[] {
  return pending.map((tool) => ({
    ...tool,
    tool: name,
    ...omitUndefined({ accepted }),
    // Computed when a person reviews it: a listing must not wait for the scan of a long definition.
    get signs() {
      return scan(tool.definition);
    },
  }));
}
