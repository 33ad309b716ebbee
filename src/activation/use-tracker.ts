import type { Caller } from "../core/caller.ts";
import { messageOf } from "../core/errors.ts";
import { type ActionUse, type ActionUseStore, together } from "./action-use.ts";

/** Keeps count of what actors use. What was not written yet when the process dies is lost, and no great loss. */
export interface UseTracker {
  /** Returns at once; it is written a moment later. */
  used(caller: Caller, action: string): void;
  /** What the caller's actor has used for the caller's tenant, in no order. Rejects when it cannot be read. */
  usesOf(caller: Caller): Promise<readonly ActionUse[]>;
  /** Writes what is left. */
  close(): Promise<void>;
}

interface UseTrackerParts {
  readonly store: ActionUseStore;
  readonly now: () => Date;
  readonly onProblem: (problem: string) => void;
}

const WRITE_AFTER_MS = 1000;

export function createUseTracker({ store, now, onProblem }: UseTrackerParts): UseTracker {
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
          onProblem(`what was used could not be counted: ${messageOf(thrown)}`);
        }
      }
    });
    return writing;
  };

  return {
    used(caller, action) {
      const owner = ownerOf(caller);
      const use = { action, weight: 1, at: now() };
      const uses = waiting.get(owner) ?? new Map<string, ActionUse>();
      const before = uses.get(action);
      uses.set(action, before === undefined ? use : together(before, use));
      waiting.set(owner, uses);
      timer ??= setTimeout(write, WRITE_AFTER_MS).unref();
    },
    async usesOf(caller) {
      await write();
      return store.read(ownerOf(caller));
    },
    close: write,
  };
}

/** Whose habits they are: an actor's, within a tenant. */
function ownerOf({ tenant, actor }: Caller): string {
  return JSON.stringify([tenant ?? null, actor]);
}
