import type { Action } from "../core/action.ts";
import { createLimiter, type Limiter } from "./limiter.ts";

/** The actions whose places the calls around this one hold. Absent: nothing is around it. */
export type Held = ReadonlySet<string>;

/** Places to run in: so many in all, and so many for each action that says so. */
export interface Places {
  /**
   * Resolves with the function that gives the places back. A call inside another takes none but its own action's, and
   * not that either where a call around it has one: it would wait for itself.
   */
  enter(action: Action, held: Held | undefined, signal: AbortSignal): Promise<() => void>;
}

/** Whose places a call takes: a resource runs its operation, so it is that operation's. */
export function placeOf({ canonical, name }: Action): string {
  return canonical?.target ?? name;
}

export function createPlaces({ concurrency, queue }: { readonly concurrency: number; readonly queue: number }): Places {
  const all = createLimiter(concurrency, queue);
  const perAction = new Map<string, { readonly limit: number; readonly limiter: Limiter }>();

  const limiterOf = (key: string, limit: number | undefined): Limiter | undefined => {
    if (limit === undefined) return undefined;
    let known = perAction.get(key);
    if (known?.limit !== limit) {
      known = { limit, limiter: createLimiter(limit, queue) };
      perAction.set(key, known);
    }
    return known.limiter;
  };

  return {
    async enter(action, held, signal) {
      const key = placeOf(action);
      const leaveAction = held?.has(key) ? undefined : await limiterOf(key, action.concurrency)?.enter(signal);
      try {
        const leaveAll = held === undefined ? await all.enter(signal) : undefined;
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
