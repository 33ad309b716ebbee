import type { Abortable } from "../core/abortable.ts";
import type { Action } from "../core/action.ts";
import { onAbort } from "../core/async.ts";
import { QmError } from "../core/errors.ts";

type ConcurrencyLimiter = ReturnType<typeof createConcurrencyLimiter>;

export function createConcurrencyLimiter(limit: number, queue: number) {
  let running = 0;
  const waiting = new Set<() => void>();
  const createRelease = (): (() => void) => {
    let released = false;
    return () => {
      if (released) return;
      released = true;
      const [next] = waiting;
      if (next === undefined) running--;
      else next();
    };
  };

  return {
    /** Answers the function that releases the slot. Throws `overloaded` when the queue is full. Rejects on abort. */
    acquire(signal: Abortable): Promise<() => void> | (() => void) {
      if (running < limit) {
        running++;
        return createRelease();
      }
      if (waiting.size >= queue) {
        const hint = "Try again when some have ended.";
        throw new QmError("overloaded", `${limit} calls are running and ${queue} are waiting`, { hint });
      }
      return new Promise((resolve, reject) => {
        const enter = (): void => {
          waiting.delete(enter);
          stopListening();
          resolve(createRelease());
        };
        waiting.add(enter);
        const stopListening = onAbort(signal, (reason) => {
          waiting.delete(enter);
          reject(reason);
        });
      });
    },
  };
}

async function acquireBoth(
  own: ConcurrencyLimiter,
  all: ConcurrencyLimiter | undefined,
  signal: Abortable,
): Promise<() => void> {
  const leaveOwn = await own.acquire(signal);
  try {
    const leaveAll = await all?.acquire(signal);
    return () => {
      leaveAll?.();
      leaveOwn();
    };
  } catch (thrown) {
    leaveOwn();
    throw thrown;
  }
}

/** The keys of the slots that the calls around this one hold. Undefined: a call of its own. */
export type HeldSlots = ReadonlySet<string>;

/** A resource runs its operation, so it takes a slot of that operation. */
export const getSlotKey = ({ canonical, name }: Action): string => canonical?.target ?? name;

/** Slots to run in: `concurrency` for all calls, and fewer for an action that sets its own limit. */
export function createActionSlots({ concurrency, queue }: { readonly concurrency: number; readonly queue: number }) {
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
    /** An inner call needs only its own action's slot, and none that a call around it holds: it would wait for itself. */
    acquire(action: Action, held: HeldSlots | undefined, signal: Abortable): Promise<() => void> | (() => void) {
      const key = getSlotKey(action);
      const own = held?.has(key) ? undefined : getLimiter(key, action.concurrency);
      if (own === undefined) return held === undefined ? all.acquire(signal) : () => {};
      return acquireBoth(own, held === undefined ? all : undefined, signal);
    },
  };
}
