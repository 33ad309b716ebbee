import type { Caller } from "../core/caller.ts";
import { getErrorMessage } from "../core/errors.ts";

/** How much an action is used: every use counts one and halves with each half-life, as it all stood at a moment. */
export interface ActionUse {
  readonly action: string;
  readonly weight: number;
  readonly at: Date;
}

/** Where it outlives the process how much of each action was used, for one owner at a time. */
export interface ActionUseStore {
  /** Everything that was used for an owner, in no order. */
  read(owner: string): Promise<readonly ActionUse[]>;
  /** Adds to what is there. Loses nothing however many processes add at the same time. */
  add(owner: string, uses: readonly ActionUse[]): Promise<void>;
}

export const HALF_LIFE_MS = 7 * 24 * 60 * 60 * 1000;

/** What is left of it at another moment. A clock that went back makes nothing heavier. */
export function decayWeight({ weight, at }: Pick<ActionUse, "weight" | "at">, moment: Date): number {
  return weight * 2 ** (-Math.max(0, moment.getTime() - at.getTime()) / HALF_LIFE_MS);
}

/** Two uses of the same action as one, as of the later of the two. */
export function mergeUses(one: ActionUse, other: ActionUse): ActionUse {
  const at = one.at > other.at ? one.at : other.at;
  return { action: one.action, weight: decayWeight(one, at) + decayWeight(other, at), at };
}

/** Keeps count of what actors use. What was not written yet when the process dies is lost, and no great loss. */
export interface UsageTracker {
  /** Returns at once; it is written a moment later. */
  recordUse(caller: Caller, action: string): void;
  /** What the caller's actor has used for the caller's tenant, in no order. Rejects when it cannot be read. */
  readUses(caller: Caller): Promise<readonly ActionUse[]>;
  /** Writes what is left. */
  close(): Promise<void>;
}

interface UsageTrackerOptions {
  readonly store: ActionUseStore;
  readonly now: () => Date;
  readonly onProblem: (problem: string) => void;
}

const WRITE_AFTER_MS = 1000;

export function createUsageTracker({ store, now, onProblem }: UsageTrackerOptions): UsageTracker {
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
          onProblem(`what was used could not be counted: ${getErrorMessage(thrown)}`);
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

/** Whose habits they are: an actor's, within a tenant. */
function toOwnerKey({ tenant, actor }: Caller): string {
  return JSON.stringify([tenant ?? null, actor]);
}
