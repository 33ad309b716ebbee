import { type ActionUse, weightAt } from "../../activation/action-use.ts";
import type { View } from "../../catalog/view.ts";
import type { ActionName } from "../../core/names.ts";

export interface HotListChoice {
  readonly size: number;
  /** What fills the places that nothing used fills, in this order; a registered tool also by its bare name. */
  readonly seed: readonly string[];
}

/** The visible actions that are used most as of `now`, and then the seed. What cannot be seen has no part in it. */
export function hotList(
  view: View,
  uses: readonly ActionUse[],
  { size, seed }: HotListChoice,
  now: Date,
): readonly ActionName[] {
  const used = uses
    .flatMap((use) => {
      const name = view.get(use.action)?.name;
      return name === undefined ? [] : [{ name, weight: weightAt(use, now) }];
    })
    .sort((a, b) => b.weight - a.weight || (a.name < b.name ? -1 : 1))
    .map(({ name }) => name);
  const seeds = seed.flatMap((name) => (view.get(name) ?? view.get(`tool__${name}`))?.name ?? []);
  return [...new Set([...used, ...seeds])].slice(0, size);
}
