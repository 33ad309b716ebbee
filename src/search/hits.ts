import type { Action } from "../core/action.ts";
import { getEffectRank } from "../core/action.ts";
import { getNamespace, SEPARATOR } from "../core/names.ts";

/** What a search may look at: of a view, the part it needs. Nothing else may leave a trace in what is found. */
export interface Searchable {
  readonly snapshot: { readonly actions: readonly Action[] };
  sees(action: Action): boolean;
  /** All it may see, sorted by name. */
  actions(): readonly Action[];
}

/** One action that was found. */
export interface Hit {
  readonly action: Action;
  /** How well it fits, from 0 to 1. */
  readonly score: number;
}

export type HitOrder = (a: Hit, b: Hit) => number;

/**
 * Best first. Equal scores: a preferred namespace before others, in the order given; then the less dangerous, the
 * shorter name, the name. So the same catalog and the same query always give the same list.
 */
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

interface FusionOptions {
  readonly limit: number;
  readonly order: HitOrder;
  /** How much each list counts, in the order of the lists. Absent: all the same. */
  readonly weights?: readonly number[];
}

/** What only an exact name may have. */
const CERTAIN = 1;
const NEARLY_CERTAIN = 0.99;
/** A list whose best is worse than this has found nothing good, and is not made to look as if it had. */
const GOOD = 0.5;

/**
 * Makes one list of several. Each score is taken in proportion to the best of its own list, so that a measure that
 * seldom gives more than 0.6 counts as much as one that often gives 0.9, and the weighted mean is scaled back to the
 * best of all: what is found with little confidence stays so. Unlike fusion by rank, that keeps a clear winner apart
 * from a row of near misses, and a score still says how well something fits.
 *
 * The first list is the one by words: a score of 1 there is an exact name, stays 1, and comes first.
 */
export function fuseHits(
  lists: readonly (readonly Hit[])[],
  { limit, order, weights = [] }: FusionOptions,
): readonly Hit[] {
  const [byWords = []] = lists;
  const exact = new Set(byWords.filter(({ score }) => score >= CERTAIN).map(({ action }) => action));
  const speaking = lists
    .map((hits, at) => {
      const open = hits.filter(({ action }) => !exact.has(action));
      return { hits: open, weight: weights[at] ?? 1, best: Math.max(GOOD, ...open.map(({ score }) => score)) };
    })
    .filter(({ hits, weight }) => hits.length > 0 && weight > 0);
  const all = speaking.reduce((sum, { weight }) => sum + weight, 0);
  const best = Math.max(0, ...speaking.map((list) => list.best));
  const shares = new Map<Hit["action"], number>();
  for (const list of speaking) {
    for (const { action, score } of list.hits) {
      shares.set(action, (shares.get(action) ?? 0) + (list.weight / all) * (score / list.best));
    }
  }
  const fused = [...shares].map(([action, share]) => ({ action, score: Math.min(share * best, NEARLY_CERTAIN) }));
  return [...[...exact].map((action) => ({ action, score: CERTAIN })), ...fused].sort(order).slice(0, limit);
}
