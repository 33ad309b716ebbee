import type { Action } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { linkResource } from "./resource.ts";
import { grouped, type Snapshot } from "./snapshot.ts";

/** Resources that are too many, and too much somebody's own, to be in the catalog: they are there when they are named. */
export interface LiveResources {
  /** The resource of that name, whoever asks. Undefined: there is none. */
  find(name: string): Promise<Action | undefined> | undefined;
  /** Those of these categories that may be the caller's, the newest of them where there are very many. */
  list(caller: Caller, categories: readonly string[]): Promise<readonly Action[]>;
}

/** The catalog with some of them in it. One whose operation is not there is left out. */
export function withLive(snapshot: Snapshot, live: readonly Action[]): Snapshot {
  const linked = live.flatMap((resource) => {
    const target = resource.canonical && snapshot.get(resource.canonical.target);
    return target === undefined ? [] : [linkResource(resource, target)];
  });
  const byName = new Map<string, Action>(linked.map((action) => [action.name, action]));
  let actions: readonly Action[] | undefined;
  let byCategory: Snapshot["byCategory"] | undefined;
  return {
    version: snapshot.version,
    // Most who ask want one by its name, and the catalog may be long.
    get actions() {
      actions ??= Object.freeze([...snapshot.actions, ...linked].sort((a, b) => (a.name < b.name ? -1 : 1)));
      return actions;
    },
    get byCategory() {
      byCategory ??= new Map([...snapshot.byCategory, ...grouped(linked)]);
      return byCategory;
    },
    get spellings() {
      return snapshot.spellings;
    },
    get: (name) => byName.get(name) ?? snapshot.get(name),
  };
}
