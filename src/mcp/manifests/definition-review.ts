import { QmError } from "../../core/errors.ts";
import { canonicalJson } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import type { WithheldTool } from "./known-tools.ts";
import type { DefinitionPin, ManifestChange, ManifestRecord } from "./manifest-store.ts";
import { hashDefinition, type OfferedTool, type ServerOffer } from "./offer.ts";
import type { ScanFinding } from "./scan/finding.ts";

const DUPLICATE = "duplicate";
/** The reason of a skill that no person has approved yet. It is offered, and its first use is asked about. */
const UNAPPROVED = "unapproved";

interface OfferedDefinition {
  readonly hash: string;
  readonly definition: OfferedTool;
  /** Whether the offer has another definition of this name. It is unknown which of them a call would reach. */
  readonly isDuplicate: boolean;
}

interface OfferObservation {
  readonly fingerprint: string;
  readonly offer: ServerOffer;
  readonly tools: readonly OfferedDefinition[];
  /** `false`: all definitions are accepted as they come. */
  readonly pinning: boolean;
  readonly at: Date;
  /** Called only for definitions that were not seen before. */
  scan(tool: OfferedTool): readonly ScanFinding[];
}

/** Accepts a first offer without serious findings. Later definitions wait for a person. Undefined: nothing to write. */
export function evaluateOffer(record: ManifestRecord | undefined, observation: OfferObservation) {
  const { fingerprint, offer, tools, at } = observation;
  const put = createPins(record, observation);
  const offered = new Set(tools.map(({ hash }) => hash));
  const replaced = new Set(put.filter(isAccepted).map(({ definition }) => definition.name));
  // Withheld pins that are not offered are dropped: a server that never repeats itself must not fill the store.
  const drop = (record?.pins ?? [])
    .filter(({ hash, state, definition }) =>
      state === "accepted" ? replaced.has(definition.name) : state === "withheld" && !offered.has(hash),
    )
    .map(({ hash }) => hash);
  const isStored =
    record?.manifest.fingerprint === fingerprint && canonicalJson(record.manifest.offer) === canonicalJson(offer);
  if (isStored && put.length === 0 && drop.length === 0) return undefined;
  return { ...(isStored ? {} : { manifest: { fingerprint, offer, learnedAt: at } }), put, drop };
}

function createPins(record: ManifestRecord | undefined, { tools, pinning, at, scan }: OfferObservation) {
  const pins = record?.pins ?? [];
  const known = new Set(pins.map(({ hash }) => hash));
  const accepted = new Set(pins.filter(isAccepted).map(({ definition }) => definition.name));
  // A server without tools so far has not been seen: some list their tools only after a login.
  const isLenient = !pinning || pins.every(({ definition }) => definition.skill !== undefined);
  return tools
    .filter(({ hash }) => !known.has(hash))
    .map(({ hash, definition, isDuplicate }): DefinitionPin => {
      const findings = scan(definition);
      const reasons = [
        ...(isDuplicate ? [DUPLICATE] : []),
        ...(isLenient && definition.skill === undefined ? [] : [getNovelty(definition, accepted.has(definition.name))]),
        ...listKinds(findings.filter(({ severity }) => severity === "serious")),
      ];
      const state = reasons.length === 0 ? "accepted" : "withheld";
      return { hash, definition, state, reasons, marks: listKinds(findings), seenAt: at };
    });
}

/** Whether nothing is wrong with a skill but that no person has approved it yet. */
export const isUnapproved = (reasons: readonly string[]): boolean => reasons.every((reason) => reason === UNAPPROVED);
const getNovelty = ({ skill }: OfferedTool, wasAccepted: boolean): string =>
  wasAccepted ? "changed" : skill === undefined ? "new" : UNAPPROVED;
const listKinds = (findings: readonly ScanFinding[]) => [...new Set<string>(findings.map(({ kind }) => kind))];
const isAccepted = ({ state }: DefinitionPin): boolean => state === "accepted";

export interface DefinitionDecision {
  readonly server: string;
  /** A tool's name, or `*` for all tools with a withheld definition. */
  readonly tool: string;
  /** The definition that the person looked at. Absent: the current one. */
  readonly hash?: string | undefined;
  readonly state: "accepted" | "rejected";
  readonly by: string;
  readonly at: Date;
}

/** Finds the definitions that a decision is about. Throws `not_found`, `conflict`. */
export function selectDefinitions(
  { server, tool, hash, state }: DefinitionDecision,
  { withheld, rejected }: { readonly withheld: readonly WithheldTool[]; readonly rejected: readonly WithheldTool[] },
): readonly WithheldTool[] {
  const canDecide = ({ reasons }: WithheldTool): boolean => state === "rejected" || !reasons.includes(DUPLICATE);
  if (tool === "*") return withheld.filter(canDecide);
  const named = [...withheld, ...(state === "accepted" ? rejected : [])].filter((pending) => pending.tool === tool);
  if (named.length === 0) {
    const hint = "List the withheld definitions, and name one of their tools.";
    throw new QmError("not_found", `no definition of ${quoteName(tool)} of ${server} is withheld`, { hint });
  }
  const selected = named.filter((pending) => hash === undefined || pending.hash === hash);
  if (selected.length === 0) {
    const hint = "Nothing was decided. Look at the definition that is withheld now.";
    throw new QmError("conflict", `${server} now offers another definition of ${quoteName(tool)}`, { hint });
  }
  if (selected.every(canDecide)) return selected;
  const hint = "It is unknown which of them a call would reach. Only the author of the server can fix that.";
  throw new QmError("conflict", `${server} offers several tools named ${quoteName(tool)}`, { hint });
}

/** Applies a decision to a record. Throws `conflict` if a definition was decided otherwise meanwhile. */
export function applyDecision(
  record: ManifestRecord | undefined,
  { server, state, by, at }: DefinitionDecision,
  tools: readonly WithheldTool[],
): ManifestChange {
  const before = new Map(record?.pins.map((pin) => [pin.hash, pin]));
  for (const tool of tools) {
    const now = record === undefined ? "forgotten" : (before.get(tool.hash)?.state ?? tool.state);
    if (now === (tool.state === "unapproved" ? "withheld" : tool.state)) continue;
    throw new QmError("conflict", `${quoteName(tool.tool)} of ${server} was ${now} meanwhile`, {
      hint: "Nothing was decided. Look at the definitions that are withheld now.",
    });
  }
  const put = tools.map(({ hash, definition, reasons, signs }): DefinitionPin => {
    const seenAt = before.get(hash)?.seenAt ?? at;
    return { hash, definition, reasons, marks: listKinds(signs), state, seenAt, by };
  });
  const names = new Set(tools.map(({ tool }) => tool));
  const replaced = (record?.pins ?? []).filter((pin) => isAccepted(pin) && names.has(pin.definition.name));
  return { put, drop: state === "accepted" ? replaced.map(({ hash }) => hash) : [] };
}

export interface PendingDefinition {
  readonly definition: OfferedTool;
  readonly hash: string;
  /** `changed`, `new`, `duplicate`, or the kinds of serious findings. */
  readonly reasons: readonly string[];
  /** Whether it waits for a person, was rejected by one, or is a skill whose first use is asked about. */
  readonly state: "withheld" | "rejected" | "unapproved";
}

/** An offered tool with its accepted definition, its pending ones, or both. */
export interface ReviewedTool {
  readonly name: string;
  readonly accepted: OfferedTool | undefined;
  readonly marks: readonly string[];
  /** More than one if several definitions have this name. */
  readonly pending: readonly PendingDefinition[];
}

/** The distinct definitions of an offer, in its order. */
export function listOfferedDefinitions(tools: readonly OfferedTool[]): readonly OfferedDefinition[] {
  const byHash = new Map(tools.map((definition) => [hashDefinition(definition), definition]));
  const counts = new Map<string, number>();
  for (const { name } of byHash.values()) counts.set(name, (counts.get(name) ?? 0) + 1);
  return Array.from(byHash, ([hash, definition]) => {
    return { hash, definition, isDuplicate: (counts.get(definition.name) ?? 0) > 1 };
  });
}

/** Compares the offered definitions with the pins, per tool in the order of the offer. */
export function reviewDefinitions(tools: readonly OfferedDefinition[], pins: readonly DefinitionPin[]) {
  const byHash = new Map(pins.map((pin) => [pin.hash, pin]));
  const accepted = new Map(pins.filter(isAccepted).map((pin) => [pin.definition.name, pin]));
  const byName = new Map<string, OfferedDefinition[]>();
  for (const tool of tools) {
    const { name } = tool.definition;
    byName.set(name, [...(byName.get(name) ?? []), tool]);
  }
  return Array.from(byName, ([name, offered]): ReviewedTool => {
    const pin = accepted.get(name);
    const known = offered.find(({ hash }) => hash === pin?.hash);
    const pending = offered.filter((tool) => tool !== known);
    return {
      name,
      // The hashes are equal. Fields that are not pinned, such as icons, are taken from the offer.
      accepted: known?.definition ?? pin?.definition,
      marks: pin?.marks ?? [],
      pending: pending.map(({ hash, definition, isDuplicate }) => {
        const own = byHash.get(hash);
        // Whether it is a duplicate depends on this offer, not on the one that was pinned.
        const known = own?.reasons.filter((reason) => reason !== DUPLICATE) ?? [];
        const novelty = known.length > 0 ? known : [getNovelty(definition, pin !== undefined)];
        const reasons = isDuplicate ? [DUPLICATE, ...novelty] : novelty;
        const state = own?.state === "rejected" ? "rejected" : isUnapproved(reasons) ? "unapproved" : "withheld";
        return { definition, hash, reasons, state };
      }),
    };
  });
}

/** The names of the tools that were added, removed and changed between two offers. */
export function compareOffers(before: readonly OfferedDefinition[], after: readonly OfferedDefinition[]) {
  const had = new Set(before.map(({ definition }) => definition.name));
  const has = new Set(after.map(({ definition }) => definition.name));
  const hashes = new Set(before.map(({ hash }) => hash));
  const different = after.filter(({ hash, definition }) => had.has(definition.name) && !hashes.has(hash));
  return {
    added: [...has].filter((name) => !had.has(name)),
    removed: [...had].filter((name) => !has.has(name)),
    changed: [...new Set(different.map(({ definition }) => definition.name))],
  };
}
