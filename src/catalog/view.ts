import type { Action, ApprovalRequirement } from "../core/action.ts";
import type { CatalogSnapshot } from "./snapshot.ts";

/** What one caller may see right now. Every surface, error text and suggestion reads only this. */
export interface View {
  readonly snapshot: CatalogSnapshot;
  get(name: string): Action | undefined;
  sees(action: Action): boolean;
  /** Whether a person must agree to its calls: to none, to all, or as their arguments are. */
  approval(action: Action): ApprovalRequirement;
  /** All of them, sorted by name. The first call looks at every action there is; later ones do not. */
  actions(): readonly Action[];
  /** The categories with something visible in them, sorted. */
  categories(): readonly string[];
  inCategory(category: string): readonly Action[];
}

/** What the policy says of an action, before anything is called. */
export interface ViewAccess {
  readonly visible: boolean;
  readonly approval: ApprovalRequirement;
}

/** `standingOf` is the policy's answer for one action and, for a resource, the operation it runs. */
export function createView(
  snapshot: CatalogSnapshot,
  standingOf: (action: Action, target: Action | undefined) => ViewAccess,
): View {
  const getAccess = (action: Action): ViewAccess => standingOf(action, findTarget(snapshot, action));
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
    categories: () => [...snapshot.byCategory.keys()].filter((category) => inCategory(category).length > 0).sort(),
    inCategory,
  };
}

/** The operation that invoking a resource runs; undefined for an action that is its own. */
export function findTarget(snapshot: CatalogSnapshot, action: Action): Action | undefined {
  return action.canonical === undefined ? undefined : snapshot.get(action.canonical.target);
}
