import type { Action } from "../core/action.ts";
import { QmError } from "../core/errors.ts";

/** Lets so many in at a time and keeps the rest waiting in turn. */
interface ConcurrencyLimiter {
  /**
   * Resolves with the function that gives the place back. Rejects with `overloaded` when too many wait already, and
   * with the signal's reason when it is aborted while waiting.
   */
  acquire(signal: AbortSignal): Promise<() => void> | (() => void);
}

export function createConcurrencyLimiter(limit: number, queue: number): ConcurrencyLimiter {
  let running = 0;
  const waiting = new Set<() => void>();

  const releaseSlot = (): void => {
    const [next] = waiting;
    if (next === undefined) running--;
    else {
      waiting.delete(next);
      next();
    }
  };
  const createRelease = (): (() => void) => {
    let given = false;
    return () => {
      if (!given) releaseSlot();
      given = true;
    };
  };

  return {
    acquire(signal) {
      if (running < limit) {
        running++;
        return createRelease();
      }
      if (waiting.size >= queue) {
        throw new QmError("overloaded", `${limit} calls are running and ${queue} are waiting`, {
          hint: "Try again when some have ended.",
        });
      }
      return new Promise((resolve, reject) => {
        const enter = (): void => {
          signal.removeEventListener("abort", giveUp);
          resolve(createRelease());
        };
        const giveUp = (): void => {
          waiting.delete(enter);
          reject(signal.reason);
        };
        if (signal.aborted) return giveUp();
        waiting.add(enter);
        signal.addEventListener("abort", giveUp, { once: true });
      });
    },
  };
}

/** The actions whose places the calls around this one hold. Absent: nothing is around it. */
export type HeldSlots = ReadonlySet<string>;

/** Places to run in: so many in all, and so many for each action that says so. */
interface ActionSlots {
  /**
   * Resolves with the function that gives the places back. A call inside another takes none but its own action's, and
   * not that either where a call around it has one: it would wait for itself.
   */
  acquire(action: Action, held: HeldSlots | undefined, signal: AbortSignal): Promise<() => void>;
}

/** Whose places a call takes: a resource runs its operation, so it is that operation's. */
export function getSlotKey({ canonical, name }: Action): string {
  return canonical?.target ?? name;
}

export function createActionSlots({
  concurrency,
  queue,
}: {
  readonly concurrency: number;
  readonly queue: number;
}): ActionSlots {
  const all = createConcurrencyLimiter(concurrency, queue);
  const perAction = new Map<string, { readonly limit: number; readonly limiter: ConcurrencyLimiter }>();

  const getLimiter = (key: string, limit: number | undefined): ConcurrencyLimiter | undefined => {
    if (limit === undefined) return undefined;
    let known = perAction.get(key);
    if (known?.limit !== limit) {
      known = { limit, limiter: createConcurrencyLimiter(limit, queue) };
      perAction.set(key, known);
    }
    return known.limiter;
  };

  return {
    async acquire(action, held, signal) {
      const key = getSlotKey(action);
      const leaveAction = held?.has(key) ? undefined : await getLimiter(key, action.concurrency)?.acquire(signal);
      try {
        const leaveAll = held === undefined ? await all.acquire(signal) : undefined;
        return () => {
          leaveAll?.();
          leaveAction?.();
        };
      } catch (thrown) {
        leaveAction?.();
        throw thrown;
      }
    },
  };
}
