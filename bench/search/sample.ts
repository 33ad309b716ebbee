/** Pseudo-random numbers from 0 to 1, the same in every run. */
export function chance(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** A sample of at most `count` items, the same in every run. */
export function sample<T>(items: readonly T[], count: number): readonly T[] {
  if (items.length <= count) return items;
  const next = chance(7);
  return items
    .map((item) => ({ item, key: next() }))
    .sort((a, b) => a.key - b.key)
    .slice(0, count)
    .map(({ item }) => item);
}
