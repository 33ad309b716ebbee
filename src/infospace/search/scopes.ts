import type { PassageIndex } from "./passage-index.ts";

/** The indexes that were used last. */
export interface Scopes<Index> {
  /** That of a key, made where it is not there; where `rights` is another value than before, nothing of it is taken over. */
  of(key: string, rights: unknown, make: () => Index): Promise<Index>;
  all(): readonly Index[];
}

const KEPT = 8;

/** A few, and so that together they hold no more than so much text, but for the one that is wanted. */
export function createScopes<Index extends Pick<PassageIndex, "renew" | "characters">>(limits: {
  readonly characters: number;
}): Scopes<Index> {
  const kept = new Map<string, { readonly index: Index; readonly rights: unknown }>();

  /** Not closed: whoever is at it gets to the end. */
  function evict(): void {
    let characters = [...kept.values()].reduce((sum, { index }) => sum + index.characters(), 0);
    for (const [key, { index }] of kept) {
      if (kept.size <= 1 || (kept.size <= KEPT && characters <= limits.characters)) return;
      kept.delete(key);
      characters -= index.characters();
    }
  }

  return {
    async of(key, rights, make) {
      const known = kept.get(key);
      const index = known?.index ?? make();
      kept.delete(key);
      kept.set(key, { index, rights });
      evict();
      if (known !== undefined && !Object.is(known.rights, rights)) await index.renew(true);
      return index;
    },
    all: () => [...kept.values()].map(({ index }) => index),
  };
}
