import { canonicalJson } from "../../core/json.ts";
import type { Pin } from "./manifest-store.ts";
import type { Offer, OfferedTool } from "./offer.ts";
import { type Pending, type Reviewed, review, seenTools } from "./review.ts";
import type { Sign } from "./scan/sign.ts";

/** A tool of which there is a definition that may be shown. */
export interface KnownTool {
  /** The accepted one, whatever the server offers now. */
  readonly definition: OfferedTool;
  /** `withheld`: it may not be called, because the server offers something else under its name. */
  readonly state: "usable" | "withheld";
  /** The kinds of signs that were found in the definition, and that did not keep it from being accepted. */
  readonly marks: readonly string[];
  /** What the server offers in its place. */
  readonly pending?: Pending;
}

/** A definition that waits for a person, or that one has rejected. */
export interface WithheldTool extends Pending {
  readonly tool: string;
  /** What was accepted under that name before. Absent: nothing was. */
  readonly accepted?: OfferedTool;
  readonly signs: readonly Sign[];
}

/** What a server's tools are made of. */
export interface ToolsSource {
  readonly offer: Offer;
  readonly pins: readonly Pin[];
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

type Scan = (tool: OfferedTool) => readonly Sign[];

/** A tool that is the same as before stays the same object. */
export function serverTools(from: ToolsSource, scan: Scan, before: ServerTools | undefined): ServerTools {
  const { offer, pins, pinning } = from;
  const reviewed = review(seenTools(offer.tools), pinning ? pins : []);
  const tools = reviewed
    .map(pinning ? pinnedTool : unpinnedTool(pins))
    .filter((tool) => tool !== undefined)
    .map((tool) => {
      const same = before?.byName.get(tool.definition.name);
      return same !== undefined && canonicalJson(same) === canonicalJson(tool) ? same : tool;
    });
  const pending = pinning ? reviewed.flatMap((tool) => withheldTools(tool, scan)) : [];
  return {
    from,
    tools,
    byName: new Map(tools.map((tool) => [tool.definition.name, tool])),
    withheld: pending.filter(({ state }) => state === "withheld"),
    rejected: pending.filter(({ state }) => state === "rejected"),
  };
}

function pinnedTool({ accepted, marks, pending: [pending] }: Reviewed): KnownTool | undefined {
  if (accepted === undefined) return undefined;
  return pending === undefined
    ? { definition: accepted, marks, state: "usable" }
    : { definition: accepted, marks, state: "withheld", pending };
}

function unpinnedTool(pins: readonly Pin[]): (tool: Reviewed) => KnownTool | undefined {
  const marks = new Map(pins.map((pin) => [pin.hash, pin.marks]));
  return ({ pending: [first] }) =>
    first && { definition: first.definition, marks: marks.get(first.hash) ?? [], state: "usable" };
}

function withheldTools({ name, accepted, pending }: Reviewed, scan: Scan) {
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
