import { definitionHash } from "./definition-hash.ts";
import { DUPLICATE, type SeenTool } from "./judge.ts";
import type { Pin } from "./manifest-store.ts";
import type { OfferedTool } from "./offer.ts";

/** A definition that a server offers and that may not be used. */
export interface Pending {
  readonly definition: OfferedTool;
  readonly hash: string;
  /** `changed`, `new`, `duplicate`, or the kinds of serious signs. */
  readonly reasons: readonly string[];
  /** Whether it waits for a person, or one has said no. */
  readonly state: "withheld" | "rejected";
}

/** One tool of an offer beside what was accepted of it. There is an accepted definition, a pending one, or both. */
export interface Reviewed {
  readonly name: string;
  readonly accepted: OfferedTool | undefined;
  /** Of the accepted one. */
  readonly marks: readonly string[];
  /** More than one: definitions of the same name. */
  readonly pending: readonly Pending[];
}

/** The distinct definitions of an offer, in its order. */
export function seenTools(tools: readonly OfferedTool[]): readonly SeenTool[] {
  const byHash = new Map(tools.map((definition) => [definitionHash(definition), definition]));
  const counts = new Map<string, number>();
  for (const { name } of byHash.values()) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...byHash].map(([hash, definition]) => {
    return { hash, definition, twin: (counts.get(definition.name) ?? 0) > 1 };
  });
}

/** Compares what is offered with what was decided, tool by tool in the order of the offer. */
export function review(tools: readonly SeenTool[], pins: readonly Pin[]): readonly Reviewed[] {
  const byHash = new Map(pins.map((pin) => [pin.hash, pin]));
  const accepted = new Map(
    pins.filter(({ state }) => state === "accepted").map((pin) => [pin.definition.name, pin] as const),
  );
  const byName = new Map<string, SeenTool[]>();
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
export interface OfferDifference {
  readonly added: readonly string[];
  readonly removed: readonly string[];
  readonly changed: readonly string[];
}

export function differenceOf(before: readonly SeenTool[], after: readonly SeenTool[]): OfferDifference {
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
