import { AsyncLocalStorage } from "node:async_hooks";
import type { Action } from "../core/action.ts";
import { createLimiter, type Limiter } from "./limiter.ts";

/** Where a call runs. */
interface Place {
  /** Runs work so that calls made in it know where they are. */
  inside<T>(work: () => T): T;
  leave(): void;
}

/** Places to run in: so many in all, and so many for each action that says so. */
export interface Places {
  enter(action: Action, signal: AbortSignal): Promise<Place>;
}

export function createPlaces({ concurrency, queue }: { readonly concurrency: number; readonly queue: number }): Places {
  const all = createLimiter(concurrency, queue);
  const perAction = new Map<string, { readonly limit: number; readonly limiter: Limiter }>();
  // What the call that is running now already holds: one that waits inside it for the same would wait for ever.
  const held = new AsyncLocalStorage<ReadonlySet<string>>();

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
    async enter(action, signal) {
      const outer = held.getStore();
      // A resource runs its operation, so it is that operation's places that it takes.
      const key = action.canonical?.target ?? action.name;
      const leaveAction = outer?.has(key) ? undefined : await limiterOf(key, action.concurrency)?.enter(signal);
      try {
        const leaveAll = outer === undefined ? await all.enter(signal) : undefined;
        return {
          inside: (work) => held.run(new Set([...(outer ?? []), key]), work),
          leave() {
            leaveAll?.();
            leaveAction?.();
          },
        };
      } catch (thrown) {
        leaveAction?.();
        throw thrown;
      }
    },
  };
}
