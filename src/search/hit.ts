import type { Action } from "../core/action.ts";
import { effectRank } from "../core/effect.ts";
import { namespaceOf, SEPARATOR } from "../core/names.ts";

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
export function hitOrder(preferredNamespaces: readonly string[] = []): HitOrder {
  const rank = ({ action }: Hit): number => {
    const namespace = namespaceOf(action.name);
    const at = preferredNamespaces.findIndex((each) => namespace === each || namespace.startsWith(each + SEPARATOR));
    return at < 0 ? preferredNamespaces.length : at;
  };
  return (a, b) =>
    b.score - a.score ||
    rank(a) - rank(b) ||
    effectRank(a.action.effect) - effectRank(b.action.effect) ||
    a.action.name.length - b.action.name.length ||
    (a.action.name < b.action.name ? -1 : a.action.name > b.action.name ? 1 : 0);
}
