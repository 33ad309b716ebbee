import { getErrorMessage } from "../core/errors.ts";
import { LruMap } from "../core/lru-map.ts";

/** Stores lists of names durably. A list only grows. */
export interface ActivationStore {
  /** In the order in which the names were first added. */
  read(key: string): Promise<readonly string[]>;
  /** Appends and answers the new names. Of several processes that add the same name, exactly one is answered it. */
  put(key: string, names: readonly string[]): Promise<readonly string[]>;
}

/** A list of names that only grows. The process shares one per key. */
export interface ActivationList {
  /** In the order in which they were first added. A new array after each addition. */
  names(): readonly string[];
  has(name: string): boolean;
  /** The `count` names that were added last, again or for the first time, in the order of `names()`. */
  latest(count: number): readonly string[];
  /**
   * Appends names at once, and answers the new ones when they are written. Never rejects: names that cannot be written are
   * reported and stay in memory.
   */
  put(names: readonly string[]): Promise<readonly string[]>;
}

export interface ActivationLists {
  /** Includes what other processes wrote. Takes at most `limit` names. Rejects when the store cannot be read. */
  open(key: string, limit: number): Promise<ActivationList>;
}

const LIST_CACHE_LIMIT = 512;

export function createActivationLists(store: ActivationStore, onProblem: (problem: string) => void): ActivationLists {
  const cache = new LruMap<string, ReturnType<typeof createGrowingList>>(LIST_CACHE_LIMIT);
  const write = async (key: string, names: readonly string[]): Promise<readonly string[]> => {
    try {
      return await store.put(key, names);
    } catch (thrown) {
      onProblem(`${names.join(", ")} will be forgotten by ${key} with this process: ${getErrorMessage(thrown)}`);
      return names;
    }
  };
  return {
    async open(key, limit) {
      const stored = await store.read(key);
      const list = cache.get(key) ?? createGrowingList(limit, (names) => write(key, names));
      cache.set(key, list);
      list.append(stored.filter((name) => !list.has(name)));
      return list;
    },
  };
}

/** A list in memory that is not shared. */
export function createLocalActivationList(limit: number): ActivationList {
  return createGrowingList(limit, async (names) => names);
}

function createGrowingList(limit: number, write: (names: readonly string[]) => Promise<readonly string[]>) {
  let names: readonly string[] = [];
  /** Ordered by the last use. */
  const lastPut = new Set<string>();
  const append = (given: readonly string[]): readonly string[] => {
    const added: string[] = [];
    for (const name of given) {
      const isKnown = lastPut.delete(name);
      if (!isKnown && lastPut.size >= limit) continue;
      lastPut.add(name);
      if (!isKnown) added.push(name);
    }
    if (added.length > 0) names = Object.freeze([...names, ...added]);
    return added;
  };
  return {
    names: () => names,
    has: (name: string) => lastPut.has(name),
    latest(count: number) {
      if (names.length <= count) return names;
      const wanted = new Set([...lastPut].slice(-count));
      return names.filter((name) => wanted.has(name));
    },
    append,
    async put(given: readonly string[]) {
      const added = append(given);
      return added.length === 0 ? added : write(added);
    },
  };
}
