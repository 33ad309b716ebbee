import type { ExecutionPermit } from "../approval/permits.ts";
import type { Action, CallContext } from "../core/action.ts";
import type { AskedQuestions, Dialogue } from "../core/caller.ts";
import { getErrorMessage, QmError } from "../core/errors.ts";
import { Streamed } from "../core/handler-result.ts";
import type { JsonObject } from "../core/json.ts";
import type { Outcome } from "../core/outcome.ts";
import { createActionSlots, createConcurrencyLimiter, getSlotKey, type HeldSlots } from "./concurrency.ts";
import type { ActionCall, CallProgress, InvokePipeline } from "./invoke.ts";
import { StoredStream } from "./result.ts";

/** A time limit that stands still while something is waited for that is not to be counted. */
interface Deadline {
  /** Waits without the time counting. May be used again before the first has ended. */
  untimed<T>(work: () => Promise<T>): Promise<T>;
  clear(): void;
}

export function startDeadline(ms: number, onLate: () => void): Deadline {
  let left = ms;
  let since = performance.now();
  let timer: NodeJS.Timeout | undefined = setTimeout(onLate, left);
  let waiting = 0;
  let cleared = false;

  function pause(): void {
    if (waiting++ > 0) return;
    clearTimeout(timer);
    left -= performance.now() - since;
  }

  function resume(): void {
    if (--waiting > 0 || cleared) return;
    since = performance.now();
    timer = setTimeout(onLate, Math.max(0, left));
  }

  return {
    async untimed(work) {
      pause();
      try {
        return await work();
      } finally {
        resume();
      }
    },
    clear() {
      cleared = true;
      clearTimeout(timer);
    },
  };
}

/**
 * Says what a call would do, for the person who is asked to approve it. Undefined: its arguments say it all. Rejects when
 * that cannot be told: nobody is asked to approve what they cannot see.
 */
export type Previewer = (action: Action, args: JsonObject, signal?: AbortSignal) => Promise<string | undefined>;

const PREVIEW_TIMEOUT_MS = 10_000;
/** A preview may have to look something up, and nobody has agreed to anything yet. */
const PREVIEW_CONCURRENCY = 2;
const PREVIEW_QUEUE = 16;

export function createPreviewer(): Previewer {
  const limiter = createConcurrencyLimiter(PREVIEW_CONCURRENCY, PREVIEW_QUEUE);
  return async (action, args, signal) => {
    if (action.preview === undefined) return undefined;
    const limit = AbortSignal.timeout(PREVIEW_TIMEOUT_MS);
    const either = signal === undefined ? limit : AbortSignal.any([signal, limit]);
    const leave = await limiter.acquire(either);
    try {
      return await action.preview(args, either);
    } catch (thrown) {
      if (thrown instanceof QmError) throw thrown;
      throw new QmError("action_failed", `what ${action.name} would do cannot be told: ${getErrorMessage(thrown)}`, {
        cause: thrown,
        hint: "Nobody was asked to approve it. Try again later.",
      });
    } finally {
      leave();
    }
  };
}

export interface RunLimits {
  /** For actions that state none of their own. */
  readonly timeoutMs: number;
  /** Calls running at the same time in this process. */
  readonly concurrency: number;
  /** Calls waiting for a place, beyond which `overloaded` is answered. */
  readonly queue: number;
}

/** How long the caller is willing to wait. */
interface CallerLimits {
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs?: number | undefined;
}

/** What a handler is told of its call, and who wants to know that it was entered. */
export interface RunContext
  extends Pick<CallContext, "caller" | "callId" | "dialogue" | "sees" | "approvalDecision" | "trace"> {
  /** The actions whose places the calls around this one hold. */
  readonly held?: HeldSlots | undefined;
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
  run(action: Action, args: JsonObject, context: RunContext, wish: CallerLimits): Promise<unknown>;
  /** Aborts everything that runs, and whatever is still to come. */
  close(): void;
}

/** A timer cannot hold more; asked to, it fires at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

export function createRunner(limits: RunLimits): Runner {
  const slots = createActionSlots(limits);
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
      const { untimed, clear } = startDeadline(timeoutMs, () =>
        controller.abort(timedOutError(action, timeoutMs, begun)),
      );
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
        leave = await slots.acquire(action, held, signal);
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
        work = runHandler(action, args, told, taken);
        return await rejectOnAbort(work, signal);
      } catch (thrown) {
        throw toActionError(action, thrown);
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
async function runHandler(
  action: Action,
  args: JsonObject,
  context: CallContext,
  taken: RunContext["taken"],
): Promise<unknown> {
  const answered = await action.run(args, context);
  return answered instanceof Streamed ? taken(answered, context.signal) : answered;
}

function rejectOnAbort<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = (): void => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}

function toActionError(action: Action, thrown: unknown): QmError {
  if (thrown instanceof QmError) return thrown;
  return new QmError("action_failed", `${action.name} failed: ${getErrorMessage(thrown)}`, { cause: thrown });
}

function timedOutError(action: Action, ms: number, begun: boolean): QmError {
  const again = action.idempotent || !begun;
  return new QmError("timed_out", `${action.name} did not ${begun ? "end" : "get a place to run"} within ${ms} ms`, {
    hint: again ? "Try again, or ask for less." : "It may still have had an effect: look before trying again.",
  });
}

/** What the handler of a call is given beside its arguments. `invoke` is how it calls others: through the same door. */
export function createRunContext(
  door: InvokePipeline,
  call: ActionCall,
  action: Action,
  progress: CallProgress,
  invoke: (door: InvokePipeline, call: ActionCall, signal?: AbortSignal) => Promise<Outcome>,
): RunContext {
  const { id, caller, via, inside, activation, dialogue } = call;
  const held = new Set([...(inside?.held ?? []), getSlotKey(action)]);
  const trace = progress.span.carrier();
  return {
    caller,
    callId: id,
    ...(trace.traceparent === undefined ? {} : { trace }),
    ...toApprovalDecision(progress.permit),
    ...(dialogue === undefined ? {} : { dialogue }),
    sees: (name) => door.viewOf(caller).get(name) !== undefined,
    held: inside?.held,
    async begin() {
      if (!progress.began) await progress.permit?.begin();
      progress.began = true;
    },
    inside: (signal, dialogue) => (name, args) => {
      const place = { callId: id, held };
      const inner = { id: door.runtime.newId(), name, args, caller, via, activation, dialogue, trace, inside: place };
      return invoke(door, inner, signal);
    },
    taken: async (streamed, signal) =>
      new StoredStream(await door.keeper.storeStream(streamed, { caller, callId: id, action: action.name }, signal)),
    settled: (outcome, signal) => door.gatekeeper.settled(outcome, caller, signal),
  };
}

function toApprovalDecision(permit: ExecutionPermit | undefined): Pick<RunContext, "approvalDecision"> {
  const { id: approvalId, answer, preview } = permit?.approval ?? {};
  if (approvalId === undefined || answer === undefined) return {};
  const { by, via, at, reason } = answer;
  const said = { ...(reason === undefined ? {} : { reason }), ...(preview === undefined ? {} : { preview }) };
  return { approvalDecision: { approvalId, by, via, at, ...said } };
}
