import type { Action, CallContext } from "../core/action.ts";
import { messageOf, QmError } from "../core/errors.ts";
import type { JsonObject } from "../core/json.ts";
import { createLimiter, type Limiter } from "./limiter.ts";

export interface RunLimits {
  /** For actions that state none of their own. */
  readonly timeoutMs: number;
  /** Calls running at the same time in this process. */
  readonly concurrency: number;
  /** Calls waiting for a place, beyond which `overloaded` is answered. */
  readonly queue: number;
}

/** How long the caller is willing to wait. */
export interface CallerWish {
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs?: number | undefined;
}

/** Runs handlers within limits. */
export interface Runner {
  /**
   * Throws `timed_out`, `cancelled`, `overloaded`, or `action_failed` with what the handler threw. A handler that ignores
   * its signal is answered for, but keeps its place until it ends: what hangs must not pile up.
   */
  run(action: Action, args: JsonObject, context: Omit<CallContext, "signal">, wish: CallerWish): Promise<unknown>;
  /** Aborts everything that runs. */
  close(): void;
}

export function createRunner(limits: RunLimits): Runner {
  const all = createLimiter(limits.concurrency, limits.queue);
  const perAction = new Map<string, Limiter>();
  const running = new Set<AbortController>();

  const limiterOf = ({ name, concurrency }: Action): Limiter | undefined => {
    if (concurrency === undefined) return undefined;
    let limiter = perAction.get(name);
    if (limiter === undefined) {
      limiter = createLimiter(concurrency, limits.queue);
      perAction.set(name, limiter);
    }
    return limiter;
  };

  return {
    async run(action, args, context, { signal: outer, timeoutMs: wished }) {
      const controller = new AbortController();
      const { signal } = controller;
      const timeoutMs = Math.min(action.timeoutMs ?? limits.timeoutMs, wished ?? Number.POSITIVE_INFINITY);
      const timer = setTimeout(() => controller.abort(timedOut(action, timeoutMs)), timeoutMs);
      const cancel = (): void => controller.abort(new QmError("cancelled", `${action.name} was cancelled`));
      outer?.addEventListener("abort", cancel, { once: true });
      if (outer?.aborted) cancel();
      running.add(controller);
      let leaveAction: (() => void) | undefined;
      let leave: (() => void) | undefined;
      let work: Promise<unknown> | undefined;
      try {
        signal.throwIfAborted();
        leaveAction = await limiterOf(action)?.enter(signal);
        leave = await all.enter(signal);
        work = start(action, args, { ...context, signal });
        return await untilAborted(work, signal);
      } catch (thrown) {
        throw asError(action, thrown);
      } finally {
        clearTimeout(timer);
        outer?.removeEventListener("abort", cancel);
        running.delete(controller);
        const release = (): void => {
          leave?.();
          leaveAction?.();
        };
        if (work === undefined) release();
        else void work.then(release, release);
      }
    },
    close() {
      for (const controller of running) controller.abort(new QmError("cancelled", "the system is closing"));
    },
  };
}

/** A handler may be synchronous and may throw before its first await. */
async function start(action: Action, args: JsonObject, context: CallContext): Promise<unknown> {
  return action.run(args, context);
}

function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = (): void => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}

function asError(action: Action, thrown: unknown): QmError {
  if (thrown instanceof QmError) return thrown;
  return new QmError("action_failed", `${action.name} failed: ${messageOf(thrown)}`, { cause: thrown });
}

function timedOut(action: Action, ms: number): QmError {
  return new QmError("timed_out", `${action.name} did not end within ${ms} ms`, {
    hint: action.idempotent
      ? "Try again, or ask for less."
      : "It may still have had an effect: look before trying again.",
  });
}
