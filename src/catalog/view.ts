import type { Action, ApprovalRequirement } from "../core/action.ts";
import type { World } from "../core/world.ts";
import type { PendingSource } from "./define-action.ts";
import type { CatalogSnapshot } from "./snapshot.ts";

/** The actions that one caller may see now. Surfaces, errors and suggestions read only this. */
export interface View {
  readonly snapshot: CatalogSnapshot;
  /** The caller's world. Every other visible action is a core action. */
  readonly world?: World;
  get(name: string): Action | undefined;
  sees(action: Action): boolean;
  approval(action: Action): ApprovalRequirement;
  /** Sorted by name. The first call decides on every action of the catalog. */
  actions(): readonly Action[];
  /** Those with a visible action, sorted. */
  categories(): readonly string[];
  inCategory(category: string): readonly Action[];
  /** The sources with unknown actions that the caller may know of, in some categories or in all. */
  pending(categories?: readonly string[]): readonly PendingSource[];
}

/** `getAccess` asks the policy about an action and, for a resource, the operation it runs. */
export function createView(
  snapshot: CatalogSnapshot,
  getAccess: (action: Action) => { readonly visible: boolean; readonly approval: ApprovalRequirement },
  world?: World,
): View {
  const served = new Map<Action["serves"], boolean>();
  const sees = (action: Action): boolean =>
    getAccess(action).visible && (action.serves === undefined || isServing(action.serves));
  const groups = new Map<string, readonly Action[]>();
  let all: readonly Action[] | undefined;
  const inCategory = (category: string): readonly Action[] => {
    let group = groups.get(category);
    if (group === undefined) {
      group = (snapshot.byCategory.get(category) ?? []).filter(sees);
      groups.set(category, group);
    }
    return group;
  };

  /** Stops at the first visible action: tool lists ask for all categories. */
  function hasVisible(category: string, all: readonly Action[]): boolean {
    const group = groups.get(category);
    return group === undefined ? all.some(sees) : group.length > 0;
  }

  function isServing(serves: NonNullable<Action["serves"]>): boolean {
    let answer = served.get(serves);
    if (answer === undefined) {
      answer = snapshot.actions.some((other) => {
        if (other.serves !== undefined) return false;
        const { visible, approval } = getAccess(other);
        return visible && serves(other, approval);
      });
      served.set(serves, answer);
    }
    return answer;
  }

  return {
    snapshot,
    ...(world && { world }),
    sees,
    approval: (action) => getAccess(action).approval,
    get(name) {
      const action = snapshot.get(name);
      return action !== undefined && sees(action) ? action : undefined;
    },
    actions() {
      all ??= snapshot.actions.filter(sees);
      return all;
    },
    categories: () => [...snapshot.byCategory].flatMap(([name, all]) => (hasVisible(name, all) ? [name] : [])).sort(),
    inCategory,
    pending: (categories = []) =>
      snapshot.pending.filter(({ prefix }) => {
        const seen = snapshot.actions.find((action) => action.name.startsWith(prefix) && sees(action));
        return seen !== undefined && (categories.length === 0 || categories.includes(seen.category));
      }),
  };
}

export const findTarget = (snapshot: CatalogSnapshot, action: Action): Action | undefined =>
  action.canonical === undefined ? undefined : snapshot.get(action.canonical.target);
