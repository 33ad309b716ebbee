import type { Provider } from "../../catalog/define-action.ts";
import type { LiveResources } from "../../catalog/snapshot.ts";
import { SEPARATOR } from "../../core/names.ts";
import type { MemoryParts } from "./memory-action.ts";
import {
  getMemoryScope,
  MEMORY_ENTRY,
  MEMORY_OPERATION,
  parseMemoryEntry,
  READ_MEMORY,
  toMemoryAction,
} from "./memory-entry.ts";
import { memoryLayers } from "./memory-text.ts";
import { listMemoryAction, memoryHistoryAction, readMemoryAction } from "./recall.ts";
import { forgetAction, rememberAction, restoreAction } from "./remember.ts";

/** The operations on memory, and a category without listed actions that reserves the names of entries. */
export function createMemoryProviders(parts: MemoryParts): readonly Provider[] {
  const actions = [
    ...memoryLayers.map((layer) => rememberAction(parts, layer)),
    ...[forgetAction, restoreAction, readMemoryAction, listMemoryAction, memoryHistoryAction].map((create) =>
      create(parts),
    ),
  ];
  return [
    {
      category: MEMORY_OPERATION,
      capability: "Remember facts across sessions, for everyone or for yourself, and find or forget them.",
      list: () => actions,
    },
    { category: MEMORY_ENTRY, capability: "Read what was remembered in earlier sessions.", list: () => [] },
  ];
}

const PREFIX = MEMORY_ENTRY + SEPARATOR;

/**
 * Entries are resolved for each caller and never in the catalog: two actors may have entries of the same name, and all
 * processes see a change at once.
 */
export const createMemoryResources = ({ store, access }: MemoryParts): LiveResources => ({
  find(name, caller) {
    const parsed = name.startsWith(PREFIX) ? parseMemoryEntry(name.slice(PREFIX.length)) : undefined;
    if (parsed === undefined) return undefined;
    return store.get(getMemoryScope(caller, parsed.layer), parsed.slug).then((entry) => entry && toMemoryAction(entry));
  },
  async list(caller, categories) {
    if (!categories.includes(MEMORY_ENTRY)) return [];
    const lists = await Promise.all(memoryLayers.map((layer) => store.list(getMemoryScope(caller, layer))));
    return lists.flat().map(toMemoryAction);
  },
  categories(caller) {
    // An entry that does not exist, to ask whether the caller may use any.
    const example = toMemoryAction({ scope: getMemoryScope(caller, "agent"), slug: "any" });
    return access(example, caller) === "hidden" ? [] : [{ name: MEMORY_ENTRY, target: READ_MEMORY }];
  },
});
