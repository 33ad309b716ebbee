import { type Abortable, createWithSignal, LazyAbortController, toAbortSignal } from "../core/abortable.ts";
import type { Action, CallContext, Preview } from "../core/action.ts";
import { onAbort, raceAbort } from "../core/async.ts";
import { Bag } from "../core/bag.ts";
import { type AskedQuestions, createLeftOpenError, type Dialogue } from "../core/caller.ts";
import { getErrorMessage, QmError } from "../core/errors.ts";
import { Streamed } from "../core/handler-result.ts";
import type { JsonObject } from "../core/json.ts";
import { createActionSlots, createConcurrencyLimiter, type HeldSlots } from "./concurrency.ts";
import { noteWaiting, trackWaiting } from "./waiting-inside.ts";

export interface RunLimits {
  /** For actions that state none of their own. */
  readonly timeoutMs: number;
  /** Calls running at the same time in this process. */
  readonly concurrency: number;
  /** Calls waiting for a slot. One more is refused with `overloaded`. */
  readonly queue: number;
}

export interface RunContext {
  /** What the handler's context has beside the runner's own parts. */
  readonly handlerContext: Omit<CallContext, "dialogue" | "invoke" | "model" | "signal" | "untimed" | "waitFor">;
  readonly dialogue?: Dialogue | undefined;
  /** Creates the handler's `model`. */
  createModel?(getSignal: () => AbortSignal): CallContext["model"];
  /** The slots that the calls around this one hold. */
  readonly held?: HeldSlots | undefined;
  begin?(): Promise<void> | undefined;
  /** Creates the handler's `invoke`. Questions of inner calls go through `dialogue`, so their time does not count. */
  createInvoke(getSignal: () => AbortSignal, dialogue: Dialogue | undefined): CallContext["invoke"];
  /** Stores a streamed result. Its time counts as the handler's. */
  storeStream(streamed: Streamed, signal: AbortSignal): Promise<unknown>;
}

export interface Runner {
  /**
   * Answers what the handler returned, or `WaitingInside`. Throws `timed_out`, `cancelled`, `overloaded` or
   * `action_failed`. A hanging handler keeps its slot.
   */
  run(
    action: Action,
    args: JsonObject,
    context: RunContext,
    limits: { readonly signal?: Abortable | undefined; readonly timeoutMs?: number | undefined },
  ): Promise<unknown>;
  close(): void;
}

/** `setTimeout` fires at once with a longer delay. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

export function createRunner(limits: RunLimits): Runner {
  const slots = createActionSlots(limits);
  const running = new Bag<LazyAbortController>();
  let closed = false;
  return {
    async run(action, args, context, wanted) {
      const controller = new LazyAbortController();
      const getSignal = () => controller.signal;
      const longest = wanted.timeoutMs ?? LONGEST_TIMER_MS;
      const timeoutMs = Math.min(action.timeoutMs ?? limits.timeoutMs, longest, LONGEST_TIMER_MS);
      let begun = false;
      const abortLate = (): void => controller.abort(timedOutError(action, timeoutMs, begun));
      const { untimed, clear } = startDeadline(timeoutMs, abortLate);
      const raw = context.dialogue;
      // The time a person takes to answer does not count.
      const dialogue = raw && { ...raw, ask: (questions: AskedQuestions) => untimed(() => raw.ask(questions)) };
      // An error of ours is passed on: the handler can tell a cancelled call from one that may be continued.
      const cancel = (reason?: unknown): void =>
        controller.abort(reason instanceof QmError ? reason : new QmError("cancelled", `${action.name} was cancelled`));
      const stopListening = onAbort(wanted.signal, cancel);
      if (closed) cancel();
      running.add(controller);
      let leave: (() => void) | undefined;
      let work: Promise<unknown> | undefined;
      try {
        controller.throwIfAborted();
        const slot = slots.acquire(action, context.held, controller);
        leave = slot instanceof Promise ? await slot : slot;
        begun = true;
        const beginning = context.begin?.();
        if (beginning !== undefined) await beginning;
        controller.throwIfAborted();
        const { invoke, waitFor, listWaiting } = trackWaiting(context.createInvoke(getSignal, dialogue));
        const model = context.createModel?.(getSignal);
        const own = { untimed, invoke, waitFor, ...(dialogue && { dialogue }), ...(model && { model }) };
        const handlerContext = createWithSignal<CallContext>(controller, context.handlerContext, own);
        work = runHandler(action, args, handlerContext, context.storeStream);
        return await raceAbort(noteWaiting(work, listWaiting), controller);
      } catch (thrown) {
        if (thrown instanceof QmError) throw thrown;
        throw new QmError("action_failed", `${action.name} failed: ${getErrorMessage(thrown)}`, { cause: thrown });
      } finally {
        clear();
        stopListening();
        running.delete(controller);
        if (work === undefined) leave?.();
        else void work.then(leave, leave);
      }
    },
    close() {
      closed = true;
      for (const controller of running) controller.abort(createLeftOpenError("the system is closing"));
    },
  };
}

/** Async, because a handler may throw before its first await. */
async function runHandler(
  action: Action,
  args: JsonObject,
  context: CallContext,
  storeStream: RunContext["storeStream"],
): Promise<unknown> {
  const answered = await action.run(args, context);
  return answered instanceof Streamed ? storeStream(answered, context.signal) : answered;
}

function timedOutError({ name, idempotent }: Action, ms: number, begun: boolean): QmError {
  return new QmError("timed_out", `${name} did not ${begun ? "end" : "get a slot to run in"} within ${ms} ms`, {
    hint:
      idempotent || !begun
        ? "Try again, or ask for less."
        : "It may still have had an effect: look before trying again.",
  });
}

/** A time limit that pauses during `untimed` work, which may be nested. */
export function startDeadline(ms: number, onLate: () => void) {
  let left = ms;
  let since = performance.now();
  let timer: NodeJS.Timeout | undefined = setTimeout(onLate, left);
  let waiting = 0;
  let cleared = false;
  return {
    async untimed<T>(work: () => Promise<T>): Promise<T> {
      if (waiting++ === 0) {
        clearTimeout(timer);
        left -= performance.now() - since;
      }
      try {
        return await work();
      } finally {
        if (--waiting === 0 && !cleared) {
          since = performance.now();
          timer = setTimeout(onLate, Math.max(0, left));
        }
      }
    },
    clear(): void {
      cleared = true;
      clearTimeout(timer);
    },
  };
}

/** Undefined: the arguments say it all. Rejects on failure: a person must not approve what they cannot see. */
export type Previewer = (action: Action, args: JsonObject, signal?: Abortable) => Promise<Preview | undefined>;
const PREVIEW_TIMEOUT_MS = 30_000;
/** Low, because previews may look things up before a person has approved anything. */
const PREVIEW_CONCURRENCY = 2;
const PREVIEW_QUEUE = 16;

export function createPreviewer(): Previewer {
  const limiter = createConcurrencyLimiter(PREVIEW_CONCURRENCY, PREVIEW_QUEUE);
  return async (action, args, outer) => {
    if (action.preview === undefined) return undefined;
    const limit = AbortSignal.timeout(PREVIEW_TIMEOUT_MS);
    const signal = outer === undefined ? limit : AbortSignal.any([toAbortSignal(outer), limit]);
    const leave = await limiter.acquire(signal);
    try {
      const shown = await action.preview(args, signal);
      return typeof shown === "string" ? { text: shown } : shown;
    } catch (thrown) {
      if (thrown instanceof QmError) throw thrown;
      const message = `the preview of ${action.name} failed: ${getErrorMessage(thrown)}`;
      const hint = "Nobody was asked to approve it. Try again later.";
      throw new QmError("action_failed", message, { hint, cause: thrown });
    } finally {
      leave();
    }
  };
}
