import { type Action, getEffectRank } from "../core/action.ts";
import { getNamespace, SEPARATOR } from "../core/names.ts";

/** The part of a view that a search needs. Hidden actions must not influence the result. */
export interface Searchable {
  readonly snapshot: { readonly actions: readonly Action[] };
  sees(action: Action): boolean;
  /** The visible actions, sorted by name. */
  actions(): readonly Action[];
}

export type Hit = { readonly action: Action; readonly score: number };
export type HitOrder = (a: Hit, b: Hit) => number;

export interface HitOptions {
  readonly limit: number;
  readonly order: HitOrder;
  /** Which actions to return. The others still count in the statistics of the index. */
  readonly accepts?: ((action: Action) => boolean) | undefined;
}

/** Best first, then by preferred namespace, less dangerous effect, shorter name and name: always the same order. */
export function createHitOrder(preferredNamespaces: readonly string[] = []): HitOrder {
  const rank = ({ action }: Hit): number => {
    const namespace = getNamespace(action.name);
    const at = preferredNamespaces.findIndex((each) => namespace === each || namespace.startsWith(each + SEPARATOR));
    return at < 0 ? preferredNamespaces.length : at;
  };
  return (a, b) =>
    b.score - a.score ||
    rank(a) - rank(b) ||
    getEffectRank(a.action.effect) - getEffectRank(b.action.effect) ||
    a.action.name.length - b.action.name.length ||
    (a.action.name < b.action.name ? -1 : a.action.name > b.action.name ? 1 : 0);
}

/** The score of an exact name. */
const EXACT = 1;
const BELOW_EXACT = 0.99;
/** Scores are not scaled up where the best hit of a list is worse than this. */
const GOOD = 0.5;

/**
 * Fuses lists of hits. Each score is divided by the best of its list, so that measures with different ranges count the
 * same, and the weighted mean is scaled to the best score of all. Unlike fusion by rank, this keeps a clear winner apart
 * from near misses. A score of 1 in the first list, the one by words, is an exact name: it stays 1 and comes first.
 */
export function fuseHits(
  lists: readonly (readonly Hit[])[],
  { limit, order, weights = [] }: HitOptions & { readonly weights?: readonly number[] },
): readonly Hit[] {
  const [byWords = []] = lists;
  const exact = new Set(byWords.filter(({ score }) => score >= EXACT).map(({ action }) => action));
  const weighted = lists
    .map((hits, at) => {
      const open = hits.filter(({ action }) => !exact.has(action));
      return { hits: open, weight: weights[at] ?? 1, best: Math.max(GOOD, ...open.map(({ score }) => score)) };
    })
    .filter(({ hits, weight }) => hits.length > 0 && weight > 0);
  const all = weighted.reduce((sum, { weight }) => sum + weight, 0);
  const best = Math.max(0, ...weighted.map((list) => list.best));
  const shares = new Map<Hit["action"], number>();
  for (const list of weighted) {
    for (const { action, score } of list.hits) {
      shares.set(action, (shares.get(action) ?? 0) + (list.weight / all) * (score / list.best));
    }
  }
  const fused = [...shares].map(([action, share]) => ({ action, score: Math.min(share * best, BELOW_EXACT) }));
  return [...[...exact].map((action) => ({ action, score: EXACT })), ...fused].sort(order).slice(0, limit);
}
