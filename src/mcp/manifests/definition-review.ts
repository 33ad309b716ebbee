import { QmError } from "../../core/errors.ts";
import { canonicalJson } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import type { WithheldTool } from "./known-tools.ts";
import type { DefinitionPin, ManifestChange, ManifestRecord } from "./manifest-store.ts";
import type { OfferedTool, ServerOffer } from "./offer.ts";
import { hashDefinition } from "./offer.ts";
import type { ScanFinding } from "./scan/finding.ts";

/** The reason of a definition that is not alone under its name. */
const DUPLICATE = "duplicate";

/** One definition of an offer. Exact repetitions count once. */
interface OfferedDefinition {
  readonly hash: string;
  readonly definition: OfferedTool;
  /** Whether the offer has another definition of the same name: nobody can tell which of them would be called. */
  readonly twin: boolean;
}

interface OfferObservation {
  readonly fingerprint: string;
  readonly offer: ServerOffer;
  readonly tools: readonly OfferedDefinition[];
  /** `false`: everything is taken as it comes. */
  readonly pinning: boolean;
  readonly at: Date;
  /** Asked only about definitions that were not seen before. */
  signs(tool: OfferedTool): readonly ScanFinding[];
}

/**
 * What becomes of an offer. The first that has tools is accepted as it is, but for definitions with serious signs; later
 * every definition that is not there yet waits for a person. Undefined: nothing is to be written.
 */
export function evaluateOffer(
  record: ManifestRecord | undefined,
  sighting: OfferObservation,
): ManifestChange | undefined {
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
  const manifest = isStored(record, fingerprint, offer) ? undefined : { fingerprint, offer, learnedAt: at };
  if (manifest === undefined && put.length === 0 && drop.length === 0) return undefined;
  return { ...(manifest === undefined ? {} : { manifest }), put, drop };
}

function newPins(
  record: ManifestRecord | undefined,
  { tools, pinning, at, signs }: OfferObservation,
): readonly DefinitionPin[] {
  const known = new Set(record?.pins.map(({ hash }) => hash));
  const accepted = new Set(
    record?.pins.filter(({ state }) => state === "accepted").map(({ definition }) => definition.name),
  );
  const lenient = !pinning || isFirstOffer(record);
  return tools
    .filter(({ hash }) => !known.has(hash))
    .map(({ hash, definition, twin }) => {
      const found = signs(definition);
      const reasons = [
        ...(twin ? [DUPLICATE] : []),
        ...(lenient ? [] : [accepted.has(definition.name) ? "changed" : "new"]),
        ...listKinds(found.filter(({ severity }) => severity === "serious")),
      ];
      const state = reasons.length === 0 ? "accepted" : "withheld";
      return { hash, definition, state, reasons, marks: listKinds(found), seenAt: at };
    });
}

function listKinds(signs: readonly ScanFinding[]): readonly string[] {
  return [...new Set(signs.map(({ kind }) => kind))];
}

/** A server that has offered no tool yet has not been seen: some offer nothing until somebody has logged in. */
function isFirstOffer(record: ManifestRecord | undefined): boolean {
  return record === undefined || record.pins.length === 0;
}

function isStored(record: ManifestRecord | undefined, fingerprint: string, offer: ServerOffer): boolean {
  return (
    record !== undefined &&
    record.manifest.fingerprint === fingerprint &&
    canonicalJson(record.manifest.offer) === canonicalJson(offer)
  );
}

/** Stands for every tool of a server of which a definition waits. */
const ALL_TOOLS = "*";

/** A person's word, and what it is about. */
export interface DefinitionDecision {
  readonly server: string;
  /** A name, or `*`. */
  readonly tool: string;
  /** Of the definition that was looked at. Absent: the one that was shown last. */
  readonly hash?: string | undefined;
  readonly state: "accepted" | "rejected";
  readonly by: string;
  readonly at: Date;
}

/** Finds what a person meant among what waits and what was rejected. Throws `not_found`, `conflict`. */
export function selectDefinitions(
  { server, tool, hash, state }: DefinitionDecision,
  { withheld, rejected }: { readonly withheld: readonly WithheldTool[]; readonly rejected: readonly WithheldTool[] },
): readonly WithheldTool[] {
  const canBe = (pending: WithheldTool): boolean => state === "rejected" || !pending.reasons.includes(DUPLICATE);
  if (tool === ALL_TOOLS) return withheld.filter(canBe);
  const named = [...withheld, ...(state === "accepted" ? rejected : [])].filter((pending) => pending.tool === tool);
  if (named.length === 0) {
    throw new QmError("not_found", `no definition of ${quoteName(tool)} of ${server} is withheld`, {
      hint: "Look at what is withheld now, and name a tool of it.",
    });
  }
  const shown = named.filter((pending) => hash === undefined || pending.hash === hash);
  if (shown.length === 0) {
    throw new QmError("conflict", `${server} offers another definition of ${quoteName(tool)} than the one meant`, {
      hint: "Nothing was decided. Look at the definition that is withheld now.",
    });
  }
  if (!shown.every(canBe)) {
    throw new QmError("conflict", `${server} offers several tools named ${quoteName(tool)}`, {
      hint: "Nobody can tell which of them a call would reach. Only the author of the server can change that.",
    });
  }
  return shown;
}

/** What a decision makes of a record. Throws `conflict` where somebody else has decided otherwise meanwhile. */
export function applyDecision(
  record: ManifestRecord | undefined,
  { server, state, by, at }: DefinitionDecision,
  tools: readonly WithheldTool[],
): ManifestChange {
  const before = new Map(record?.pins.map((pin) => [pin.hash, pin]));
  for (const tool of tools) {
    const now = record === undefined ? "forgotten" : (before.get(tool.hash)?.state ?? tool.state);
    if (now === tool.state) continue;
    throw new QmError("conflict", `${quoteName(tool.tool)} of ${server} was ${now} meanwhile`, {
      hint: "Nothing was decided. Look at what is withheld now.",
    });
  }
  const put = tools.map(({ hash, definition, reasons, signs }): DefinitionPin => {
    const marks = [...new Set(signs.map(({ kind }) => kind))];
    return { hash, definition, reasons, marks, state, seenAt: before.get(hash)?.seenAt ?? at, by };
  });
  const names = new Set(tools.map(({ tool }) => tool));
  const replaced = (record?.pins ?? []).filter((pin) => pin.state === "accepted" && names.has(pin.definition.name));
  return { put, drop: state === "accepted" ? replaced.map(({ hash }) => hash) : [] };
}

/** A definition that a server offers and that may not be used. */
export interface PendingDefinition {
  readonly definition: OfferedTool;
  readonly hash: string;
  /** `changed`, `new`, `duplicate`, or the kinds of serious signs. */
  readonly reasons: readonly string[];
  /** Whether it waits for a person, or one has said no. */
  readonly state: "withheld" | "rejected";
}

/** One tool of an offer beside what was accepted of it. There is an accepted definition, a pending one, or both. */
export interface ReviewedTool {
  readonly name: string;
  readonly accepted: OfferedTool | undefined;
  /** Of the accepted one. */
  readonly marks: readonly string[];
  /** More than one: definitions of the same name. */
  readonly pending: readonly PendingDefinition[];
}

/** The distinct definitions of an offer, in its order. */
export function listOfferedDefinitions(tools: readonly OfferedTool[]): readonly OfferedDefinition[] {
  const byHash = new Map(tools.map((definition) => [hashDefinition(definition), definition]));
  const counts = new Map<string, number>();
  for (const { name } of byHash.values()) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...byHash].map(([hash, definition]) => {
    return { hash, definition, twin: (counts.get(definition.name) ?? 0) > 1 };
  });
}

/** Compares what is offered with what was decided, tool by tool in the order of the offer. */
export function reviewDefinitions(
  tools: readonly OfferedDefinition[],
  pins: readonly DefinitionPin[],
): readonly ReviewedTool[] {
  const byHash = new Map(pins.map((pin) => [pin.hash, pin]));
  const accepted = new Map(
    pins.filter(({ state }) => state === "accepted").map((pin) => [pin.definition.name, pin] as const),
  );
  const byName = new Map<string, OfferedDefinition[]>();
  for (const tool of tools) {
    const same = byName.get(tool.definition.name);
    if (same === undefined) byName.set(tool.definition.name, [tool]);
    else same.push(tool);
  }
  return Array.from(byName, ([name, offered]) => {
    const pin = accepted.get(name);
    const known = offered.find(({ hash }) => hash === pin?.hash);
    const others = offered.filter((tool) => tool !== known);
    return {
      name,
      // The hash says that they are the same; what is not pinned, like icons, is taken as it is now.
      accepted: known?.definition ?? pin?.definition,
      marks: pin?.marks ?? [],
      pending: others.map(({ hash, definition, twin }) => {
        const own = byHash.get(hash);
        // Whether there are two of them is a matter of this offer, whatever was when it was first seen.
        const rest = own?.reasons.filter((reason) => reason !== DUPLICATE) ?? [];
        const reasons = rest.length > 0 ? rest : [pin === undefined ? "new" : "changed"];
        return {
          definition,
          hash,
          reasons: twin ? [DUPLICATE, ...reasons] : reasons,
          state: own?.state === "rejected" ? "rejected" : "withheld",
        };
      }),
    };
  });
}

/** Names of tools, by what is different about them between two offers. */
interface OfferDifference {
  readonly added: readonly string[];
  readonly removed: readonly string[];
  readonly changed: readonly string[];
}

export function compareOffers(
  before: readonly OfferedDefinition[],
  after: readonly OfferedDefinition[],
): OfferDifference {
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
