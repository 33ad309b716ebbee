import type { Caller } from "../core/caller.ts";
import { getErrorMessage } from "../core/errors.ts";

/** How much an action is used: each use weighs one and halves with each half-life. `weight` is as of `at`. */
export interface ActionUse {
  readonly action: string;
  readonly weight: number;
  readonly at: Date;
}

export interface ActionUseStore {
  /** In no order. */
  read(owner: string): Promise<readonly ActionUse[]>;
  /** Merges with the stored uses. Safe with several processes. */
  add(owner: string, uses: readonly ActionUse[]): Promise<void>;
}

export const HALF_LIFE_MS = 7 * 24 * 60 * 60 * 1000;

/** The weight at another moment. A clock that went back does not raise it. */
export function decayWeight({ weight, at }: Pick<ActionUse, "weight" | "at">, moment: Date): number {
  return weight * 2 ** (-Math.max(0, moment.getTime() - at.getTime()) / HALF_LIFE_MS);
}

/** Adds two uses of the same action, as of the later one. */
export function mergeUses(one: ActionUse, other: ActionUse): ActionUse {
  const at = one.at > other.at ? one.at : other.at;
  return { action: one.action, weight: decayWeight(one, at) + decayWeight(other, at), at };
}

/** Counts the actions that actors use. The last second of uses is lost when the process dies. */
export interface UsageTracker {
  /** Written a moment later. */
  recordUse(caller: Caller, action: string): void;
  /** The uses of the caller's actor in the caller's tenant, in no order. Rejects when the store cannot be read. */
  readUses(caller: Caller): Promise<readonly ActionUse[]>;
  close(): Promise<void>;
}

const WRITE_AFTER_MS = 1000;

export function createUsageTracker(
  store: ActionUseStore,
  now: () => Date,
  onProblem: (problem: string) => void,
): UsageTracker {
  let waiting = new Map<string, Map<string, ActionUse>>();
  let timer: NodeJS.Timeout | undefined;
  let writing: Promise<void> = Promise.resolve();

  const write = (): Promise<void> => {
    clearTimeout(timer);
    timer = undefined;
    const batch = waiting;
    waiting = new Map();
    writing = writing.then(async () => {
      for (const [owner, uses] of batch) {
        try {
          await store.add(owner, [...uses.values()]);
        } catch (thrown) {
          onProblem(`uses could not be counted: ${getErrorMessage(thrown)}`);
        }
      }
    });
    return writing;
  };

  return {
    recordUse(caller, action) {
      const owner = toOwnerKey(caller);
      const use = { action, weight: 1, at: now() };
      const uses = waiting.get(owner) ?? new Map<string, ActionUse>();
      const before = uses.get(action);
      uses.set(action, before === undefined ? use : mergeUses(before, use));
      waiting.set(owner, uses);
      timer ??= setTimeout(write, WRITE_AFTER_MS).unref();
    },
    async readUses(caller) {
      await write();
      return store.read(toOwnerKey(caller));
    },
    close: write,
  };
}

function toOwnerKey({ tenant, actor }: Caller): string {
  return JSON.stringify([tenant ?? null, actor]);
}
