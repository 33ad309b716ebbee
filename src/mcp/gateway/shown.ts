import type { JsonObject } from "../../core/json.ts";
import type { PassedTool, Upstream } from "./gateway.ts";

type OfferedPrompt = ReturnType<Upstream["prompts"]>[number];

/**
 * The tools of servers by their own names. Where two servers use the same one, the first server by name keeps it, and
 * the others' carry their server's name in front; a name of our own is never given away.
 */
export function shownTools(passed: readonly PassedTool[], ours: ReadonlySet<string>): ReadonlyMap<string, PassedTool> {
  return named(passed, ours, ({ name }) => name);
}

export function shownPrompts(prompts: readonly OfferedPrompt[]): ReadonlyMap<string, OfferedPrompt> {
  return named(prompts, new Set(), ({ prompt }) => String(prompt.name));
}

/** Sorted by the names they are shown by. */
export function definitions<T>(
  shown: ReadonlyMap<string, T>,
  definitionOf: (thing: T) => JsonObject,
): readonly JsonObject[] {
  return [...shown]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, thing]) => {
      const definition = definitionOf(thing);
      return definition.name === name ? definition : { ...definition, name };
    });
}

function named<T extends { readonly server: string }>(
  things: readonly T[],
  taken: ReadonlySet<string>,
  nameOf: (thing: T) => string,
): ReadonlyMap<string, T> {
  const byName = new Map<string, T>();
  const free = (name: string) => !taken.has(name) && !byName.has(name);
  const inOrder = [...things].sort((a, b) => (a.server === b.server ? 0 : a.server < b.server ? -1 : 1));
  const later = inOrder.filter((thing) => {
    const name = nameOf(thing);
    if (!free(name)) return true;
    byName.set(name, thing);
    return false;
  });
  for (const thing of later) {
    const name = `${thing.server}_${nameOf(thing)}`;
    // What a server itself offers twice is the same thing twice.
    if (free(name)) byName.set(name, thing);
  }
  return byName;
}
