import type { Action, CallContext } from "../core/action.ts";
import type { AskedQuestions, Dialogue } from "../core/dialogue.ts";
import { messageOf, QmError } from "../core/errors.ts";
import type { JsonObject } from "../core/json.ts";
import type { Outcome } from "../core/outcome.ts";
import { Streamed } from "../core/streamed.ts";
import { startDeadline } from "./deadline.ts";
import { createPlaces, type Held } from "./places.ts";

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

/** What a handler is told of its call, and who wants to know that it was entered. */
export interface RunContext
  extends Pick<CallContext, "caller" | "callId" | "dialogue" | "sees" | "approvalDecision" | "trace"> {
  /** The actions whose places the calls around this one hold. */
  readonly held?: Held | undefined;
  /** Resolves when it is written down that the handler is about to be entered, where that matters. */
  begin?(): Promise<void>;
  /** How the handler calls others, until the signal aborts. What they ask counts as little for this call as for them. */
  inside(signal: AbortSignal, dialogue: Dialogue | undefined): CallContext["invoke"];
  settled(outcome: Outcome, signal: AbortSignal): Promise<Outcome>;
  /** What becomes of a result that comes bit by bit. That takes its time as the rest does. */
  taken(streamed: Streamed, signal: AbortSignal): Promise<unknown>;
}

/** Runs handlers within limits. */
export interface Runner {
  /**
   * Throws `timed_out`, `cancelled`, `overloaded`, or `action_failed` with what the handler threw. A handler that ignores
   * its signal is answered for, but keeps its place until it ends: what hangs must not pile up.
   */
  run(action: Action, args: JsonObject, context: RunContext, wish: CallerWish): Promise<unknown>;
  /** Aborts everything that runs, and whatever is still to come. */
  close(): void;
}

/** A timer cannot hold more; asked to, it fires at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

export function createRunner(limits: RunLimits): Runner {
  const places = createPlaces(limits);
  const running = new Set<AbortController>();
  let closed = false;

  return {
    async run(
      action,
      args,
      { held, begin, inside, settled, taken, dialogue: raw, ...context },
      { signal: outer, timeoutMs: wished },
    ) {
      const controller = new AbortController();
      const { signal } = controller;
      const timeoutMs = Math.min(action.timeoutMs ?? limits.timeoutMs, wished ?? LONGEST_TIMER_MS, LONGEST_TIMER_MS);
      let begun = false;
      const { untimed, clear } = startDeadline(timeoutMs, () => controller.abort(timedOut(action, timeoutMs, begun)));
      // Nobody can say how long a person takes.
      const dialogue = raw && { ...raw, ask: (questions: AskedQuestions) => untimed(() => raw.ask(questions)) };
      const cancel = (): void => controller.abort(new QmError("cancelled", `${action.name} was cancelled`));
      outer?.addEventListener("abort", cancel, { once: true });
      if (outer?.aborted || closed) cancel();
      running.add(controller);
      let leave: (() => void) | undefined;
      let work: Promise<unknown> | undefined;
      try {
        signal.throwIfAborted();
        leave = await places.enter(action, held, signal);
        begun = true;
        await begin?.();
        signal.throwIfAborted();
        const told = {
          ...context,
          ...(dialogue === undefined ? {} : { dialogue }),
          signal,
          untimed,
          invoke: inside(signal, dialogue),
          settled: (outcome: Outcome) => untimed(() => settled(outcome, signal)),
        };
        work = start(action, args, told, taken);
        return await untilAborted(work, signal);
      } catch (thrown) {
        throw asError(action, thrown);
      } finally {
        clear();
        outer?.removeEventListener("abort", cancel);
        running.delete(controller);
        if (work === undefined) leave?.();
        else void work.then(leave, leave);
      }
    },
    close() {
      closed = true;
      for (const controller of running) controller.abort(new QmError("cancelled", "the system is closing"));
    },
  };
}

/** A handler may be synchronous and may throw before its first await. */
async function start(
  action: Action,
  args: JsonObject,
  context: CallContext,
  taken: RunContext["taken"],
): Promise<unknown> {
  const answered = await action.run(args, context);
  return answered instanceof Streamed ? taken(answered, context.signal) : answered;
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

function timedOut(action: Action, ms: number, begun: boolean): QmError {
  const again = action.idempotent || !begun;
  return new QmError("timed_out", `${action.name} did not ${begun ? "end" : "get a place to run"} within ${ms} ms`, {
    hint: again ? "Try again, or ask for less." : "It may still have had an effect: look before trying again.",
  });
}
