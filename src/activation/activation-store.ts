import { getErrorMessage } from "../core/errors.ts";
import { LruMap } from "../core/lru-map.ts";

/** Where the names that were put aside for a run or a session outlive the process. A shelf only ever grows. */
export interface ActivationStore {
  /** The names on a shelf, in the order in which they were first put there. */
  read(shelf: string): Promise<readonly string[]>;
  /**
   * Puts names behind those that are there; one that is there already keeps its place. Answers the new ones: of several
   * processes that put the same name, exactly one is answered it.
   */
  put(shelf: string, names: readonly string[]): Promise<readonly string[]>;
}

/** A list of names that only grows, the same one for everybody in this process who opens it. */
export interface ActivationList {
  /** In the order in which they were first put there. A new array whenever there is something new. */
  names(): readonly string[];
  has(name: string): boolean;
  /** The `count` names that were put there last, again or for the first time, in the order of `names()`. */
  latest(count: number): readonly string[];
  /**
   * Puts names behind those that are there and answers the new ones, once they are written. They are on the shelf at
   * once. Never rejects: what cannot be written is reported, and is there until this process forgets the shelf.
   */
  put(names: readonly string[]): Promise<readonly string[]>;
}

export interface ActivationLists {
  /** Reads what other processes have put there. Rejects when the store cannot be read. `limit`: names it takes. */
  open(key: string, limit: number): Promise<ActivationList>;
}

/** Shelves that are kept in memory; one beyond these is read again when it is opened again. */
const LIST_CACHE_LIMIT = 512;

export function createActivationLists(store: ActivationStore, onProblem: (problem: string) => void): ActivationLists {
  const kept = new LruMap<string, GrowingActivationList>(LIST_CACHE_LIMIT);
  return {
    async open(key, limit) {
      const stored = await store.read(key);
      const shelf = kept.get(key) ?? createGrowingList(limit, (names) => writeNames(store, key, names, onProblem));
      kept.set(key, shelf);
      shelf.take(stored.filter((name) => !shelf.has(name)));
      return shelf;
    },
  };
}

/** A shelf that nobody else knows and that is gone with whoever holds it. */
export function createLocalActivationList(limit: number): ActivationList {
  return createGrowingList(limit, async (names) => names);
}

interface GrowingActivationList extends ActivationList {
  /** What is written already. */
  take(names: readonly string[]): readonly string[];
}

function createGrowingList(
  limit: number,
  write: (names: readonly string[]) => Promise<readonly string[]>,
): GrowingActivationList {
  let names: readonly string[] = [];
  const lastPut = new Set<string>();
  const take = (given: readonly string[]): readonly string[] => {
    const added: string[] = [];
    for (const name of given) {
      if (lastPut.delete(name)) {
        lastPut.add(name);
      } else if (lastPut.size < limit) {
        lastPut.add(name);
        added.push(name);
      }
    }
    if (added.length > 0) names = Object.freeze([...names, ...added]);
    return added;
  };
  return {
    names: () => names,
    has: (name) => lastPut.has(name),
    latest(count) {
      if (names.length <= count) return names;
      const wanted = new Set([...lastPut].slice(-count));
      return names.filter((name) => wanted.has(name));
    },
    take,
    async put(given) {
      const added = take(given);
      return added.length === 0 ? added : write(added);
    },
  };
}

async function writeNames(
  store: ActivationStore,
  key: string,
  names: readonly string[],
  onProblem: (problem: string) => void,
): Promise<readonly string[]> {
  try {
    return await store.put(key, names);
  } catch (thrown) {
    onProblem(`${names.join(", ")} will be forgotten by ${key} with this process: ${getErrorMessage(thrown)}`);
    return names;
  }
}
