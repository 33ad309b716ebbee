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
  /** What was found in the definition. Of an accepted one these are marks. */
  readonly signs: readonly Sign[];
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
    .map(pinning ? pinnedTool : unpinnedTool)
    .filter((tool) => tool !== undefined)
    .map((tool) => {
      const same = before?.byName.get(tool.definition.name);
      return same !== undefined && isSame(same, tool) ? same : { ...tool, signs: scan(tool.definition) };
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

type Unscanned = Omit<KnownTool, "signs">;

function pinnedTool({ accepted, pending: [pending] }: Reviewed): Unscanned | undefined {
  if (accepted === undefined) return undefined;
  return pending === undefined
    ? { definition: accepted, state: "usable" }
    : { definition: accepted, state: "withheld", pending };
}

function unpinnedTool({ pending: [first] }: Reviewed): Unscanned | undefined {
  return first === undefined ? undefined : { definition: first.definition, state: "usable" };
}

function withheldTools({ name, accepted, pending }: Reviewed, scan: Scan) {
  return pending.map((tool): WithheldTool => {
    const before = accepted === undefined ? {} : { accepted };
    return { ...tool, tool: name, ...before, signs: scan(tool.definition) };
  });
}

function isSame({ signs: _signs, ...known }: KnownTool, tool: Unscanned): boolean {
  return canonicalJson(known) === canonicalJson(tool);
}
