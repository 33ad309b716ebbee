import { canonicalJson } from "../../core/json.ts";
import {
  listOfferedDefinitions,
  type PendingDefinition,
  type ReviewedTool,
  reviewDefinitions,
} from "./definition-review.ts";
import type { DefinitionPin } from "./manifest-store.ts";
import type { OfferedTool, ServerOffer } from "./offer.ts";
import type { ScanFinding } from "./scan/finding.ts";

/** A tool of which there is a definition that may be shown. */
export interface KnownTool {
  /** The accepted one, whatever the server offers now. */
  readonly definition: OfferedTool;
  /** `withheld`: it may not be called, because the server offers something else under its name. */
  readonly state: "usable" | "withheld";
  /** The kinds of signs that were found in the definition, and that did not keep it from being accepted. */
  readonly marks: readonly string[];
  /** What the server offers in its place. */
  readonly pending?: PendingDefinition;
}

/** A definition that waits for a person, or that one has rejected. */
export interface WithheldTool extends PendingDefinition {
  readonly tool: string;
  /** What was accepted under that name before. Absent: nothing was. */
  readonly accepted?: OfferedTool;
  readonly signs: readonly ScanFinding[];
}

/** What a server's tools are made of. */
export interface ToolsSource {
  readonly offer: ServerOffer;
  readonly pins: readonly DefinitionPin[];
  readonly pinning: boolean;
}

/** One server's tools, as they may be used now. */
export interface ServerTools {
  readonly from: ToolsSource;
  readonly tools: readonly KnownTool[];
  readonly byName: ReadonlyMap<string, KnownTool>;
  readonly withheld: readonly WithheldTool[];
  readonly rejected: readonly WithheldTool[];
}

type ScanFunction = (tool: OfferedTool) => readonly ScanFinding[];

/** A tool that is the same as before stays the same object. */
export function buildServerTools(from: ToolsSource, scan: ScanFunction, before: ServerTools | undefined): ServerTools {
  const { offer, pins, pinning } = from;
  const reviewed = reviewDefinitions(listOfferedDefinitions(offer.tools), pinning ? pins : []);
  const tools = reviewed
    .map(pinning ? toPinnedTool : createUnpinnedMapper(pins))
    .filter((tool) => tool !== undefined)
    .map((tool) => {
      const same = before?.byName.get(tool.definition.name);
      return same !== undefined && canonicalJson(same) === canonicalJson(tool) ? same : tool;
    });
  const pending = pinning ? reviewed.flatMap((tool) => listWithheldTools(tool, scan)) : [];
  return {
    from,
    tools,
    byName: new Map(tools.map((tool) => [tool.definition.name, tool])),
    withheld: pending.filter(({ state }) => state === "withheld"),
    rejected: pending.filter(({ state }) => state === "rejected"),
  };
}

function toPinnedTool({ accepted, marks, pending: [pending] }: ReviewedTool): KnownTool | undefined {
  if (accepted === undefined) return undefined;
  return pending === undefined
    ? { definition: accepted, marks, state: "usable" }
    : { definition: accepted, marks, state: "withheld", pending };
}

function createUnpinnedMapper(pins: readonly DefinitionPin[]): (tool: ReviewedTool) => KnownTool | undefined {
  const marks = new Map(pins.map((pin) => [pin.hash, pin.marks]));
  return ({ pending: [first] }) =>
    first && { definition: first.definition, marks: marks.get(first.hash) ?? [], state: "usable" };
}

function listWithheldTools({ name, accepted, pending }: ReviewedTool, scan: ScanFunction) {
  return pending.map((tool): WithheldTool => {
    const before = accepted === undefined ? {} : { accepted };
    return {
      ...tool,
      tool: name,
      ...before,
      // Read when somebody reviews it: a listing must not wait for the scan of a long definition.
      get signs() {
        return scan(tool.definition);
      },
    };
  });
}
