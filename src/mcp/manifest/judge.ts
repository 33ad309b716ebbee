import { canonicalJson } from "../../core/json.ts";
import type { Pin, RecordChange, ServerRecord } from "./manifest-store.ts";
import type { Offer, OfferedTool } from "./offer.ts";
import type { Sign } from "./scan/sign.ts";

/** The reason of a definition that is not alone under its name. */
export const DUPLICATE = "duplicate";

/** One definition of an offer. Exact repetitions count once. */
export interface SeenTool {
  readonly hash: string;
  readonly definition: OfferedTool;
  /** Whether the offer has another definition of the same name: nobody can tell which of them would be called. */
  readonly twin: boolean;
}

export interface Sighting {
  readonly fingerprint: string;
  readonly offer: Offer;
  readonly tools: readonly SeenTool[];
  /** `false`: everything is taken as it comes. */
  readonly pinning: boolean;
  readonly at: Date;
  /** Asked only about definitions that were not seen before. */
  signs(tool: OfferedTool): readonly Sign[];
}

/**
 * What becomes of an offer. The first that has tools is accepted as it is, but for definitions with serious signs; later
 * every definition that is not there yet waits for a person. Undefined: nothing is to be written.
 */
export function judge(record: ServerRecord | undefined, sighting: Sighting): RecordChange | undefined {
  const { fingerprint, offer, tools, at } = sighting;
  const put = newPins(record, sighting);
  // Only what is offered can be accepted: a server that never repeats itself must not fill the store.
  const offered = new Set(tools.map(({ hash }) => hash));
  const replaced = new Set(put.filter(({ state }) => state === "accepted").map(({ definition }) => definition.name));
  const drop = (record?.pins ?? [])
    .filter(({ hash, state, definition }) =>
      state === "accepted" ? replaced.has(definition.name) : state === "withheld" && !offered.has(hash),
    )
    .map(({ hash }) => hash);
  const manifest = isKept(record, fingerprint, offer) ? undefined : { fingerprint, offer, learnedAt: at };
  if (manifest === undefined && put.length === 0 && drop.length === 0) return undefined;
  return { ...(manifest === undefined ? {} : { manifest }), put, drop };
}

function newPins(record: ServerRecord | undefined, { tools, pinning, at, signs }: Sighting): readonly Pin[] {
  const known = new Set(record?.pins.map(({ hash }) => hash));
  const accepted = new Set(
    record?.pins.filter(({ state }) => state === "accepted").map(({ definition }) => definition.name),
  );
  const lenient = !pinning || isFirst(record);
  return tools
    .filter(({ hash }) => !known.has(hash))
    .map(({ hash, definition, twin }) => {
      const found = signs(definition);
      const reasons = [
        ...(twin ? [DUPLICATE] : []),
        ...(lenient ? [] : [accepted.has(definition.name) ? "changed" : "new"]),
        ...kindsOf(found.filter(({ severity }) => severity === "serious")),
      ];
      const state = reasons.length === 0 ? "accepted" : "withheld";
      return { hash, definition, state, reasons, marks: kindsOf(found), seenAt: at };
    });
}

function kindsOf(signs: readonly Sign[]): readonly string[] {
  return [...new Set(signs.map(({ kind }) => kind))];
}

/** A server that has offered no tool yet has not been seen: some offer nothing until somebody has logged in. */
function isFirst(record: ServerRecord | undefined): boolean {
  return record === undefined || record.pins.length === 0;
}

function isKept(record: ServerRecord | undefined, fingerprint: string, offer: Offer): boolean {
  return (
    record !== undefined &&
    record.manifest.fingerprint === fingerprint &&
    canonicalJson(record.manifest.offer) === canonicalJson(offer)
  );
}
