import type { Action } from "../core/action.ts";
import type { ActionName } from "../core/names.ts";
import { linkResource } from "./resource.ts";
import { type SpellingIndex, spellingIndex } from "./spelling.ts";

/** The catalog at one moment: never changes, so that everything read from it fits together. */
export interface Snapshot {
  readonly version: number;
  /** Sorted by name. */
  readonly actions: readonly Action[];
  readonly byCategory: ReadonlyMap<string, readonly Action[]>;
  readonly spellings: SpellingIndex;
  get(name: string): Action | undefined;
}

/** Takes what each provider listed. A resource whose operation is not there is left out and named in `unlinked`. */
export function takeSnapshot(
  version: number,
  lists: Iterable<readonly Action[]>,
): { readonly snapshot: Snapshot; readonly unlinked: readonly Action[] } {
  const listed = new Map<ActionName, Action>();
  for (const list of lists) for (const action of list) listed.set(action.name, action);
  const unlinked: Action[] = [];
  const linked = [...listed.values()].flatMap((action) => {
    if (action.canonical === undefined) return [action];
    const target = listed.get(action.canonical.target);
    if (target !== undefined && target.canonical === undefined) return [linkResource(action, target)];
    unlinked.push(action);
    return [];
  });
  const actions = Object.freeze(linked.sort((a, b) => (a.name < b.name ? -1 : 1)));
  const byName = new Map<string, Action>(actions.map((action) => [action.name, action]));
  const byCategory = grouped(actions);
  let spellings: SpellingIndex | undefined;

  return {
    unlinked,
    snapshot: {
      version,
      actions,
      byCategory,
      // Only a misspelt name needs it, and it costs more than the rest of the snapshot.
      get spellings() {
        spellings ??= spellingIndex(actions);
        return spellings;
      },
      get: (name) => byName.get(name),
    },
  };
}

export function grouped(actions: readonly Action[]): ReadonlyMap<string, readonly Action[]> {
  const groups = new Map<string, Action[]>();
  for (const action of actions) {
    const group = groups.get(action.category);
    if (group === undefined) groups.set(action.category, [action]);
    else group.push(action);
  }
  return groups;
}
