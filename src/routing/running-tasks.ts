import { QmError } from "../core/errors.ts";
import { clip } from "../core/json.ts";
import { LONGEST_BACKOFF_MS, type RetryPolicy } from "./rules.ts";

/** Work that can be stopped at any time, by whoever may, and is then answered for at once, whether it listens or not. */
export interface AbortableTask {
  /** Aborted with a `QmError` when it is stopped. */
  readonly signal: AbortSignal;
  stop(reason: QmError): void;
  /** What the work answers, or rejects with the reason as soon as it is stopped. One at a time. */
  race<T>(work: () => T | PromiseLike<T>): Promise<T>;
  /** Lets go of the outer signal and of the deadline. */
  end(): void;
}

interface AbortableTaskOptions {
  /** Stops it, too. */
  readonly outer?: AbortSignal | undefined;
  readonly cancelled: () => QmError;
  readonly deadlineMs?: number | undefined;
  readonly late?: () => QmError;
}

export function startTask({ outer, cancelled, deadlineMs, late = cancelled }: AbortableTaskOptions): AbortableTask {
  const controller = new AbortController();
  const { signal } = controller;
  let reject: ((reason: QmError) => void) | undefined;
  const stop = (reason: QmError): void => {
    if (signal.aborted) return;
    controller.abort(reason);
    reject?.(reason);
  };
  const cancel = (): void => stop(cancelled());
  if (outer?.aborted) cancel();
  else outer?.addEventListener("abort", cancel, { once: true });
  const timer = deadlineMs === undefined ? undefined : setTimeout(() => stop(late()), deadlineMs);

  return {
    signal,
    stop,
    race: (work) =>
      new Promise((resolve, fail) => {
        if (signal.aborted) return fail(signal.reason);
        reject = fail;
        Promise.resolve(work()).then(resolve, fail);
      }),
    end() {
      clearTimeout(timer);
      outer?.removeEventListener("abort", cancel);
    },
  };
}

interface RetryOptions {
  readonly retry?: RetryPolicy | undefined;
  /** Told before the pause that follows a failed try; answers whether there is to be another. */
  onFailure(failed: number, error: QmError, delayMs: number): boolean;
}

const DEFAULT_BACKOFF_MS = 200;

/**
 * Tries until it succeeds, is stopped, or has no try left, with pauses that depend on nothing but their number. Only what
 * may go better next time is tried again: an error that says so itself.
 */
export async function runWithRetries<T>(
  course: AbortableTask,
  attempt: (number: number) => T | PromiseLike<T>,
  { retry, onFailure }: RetryOptions,
): Promise<T> {
  const { attempts = 1, backoffMs = DEFAULT_BACKOFF_MS } = retry ?? {};
  for (let number = 1; ; number++) {
    try {
      return await course.race(() => attempt(number));
    } catch (thrown) {
      if (course.signal.aborted) throw course.signal.reason;
      const delayMs = Math.min(backoffMs * 2 ** (number - 1), LONGEST_BACKOFF_MS);
      if (number >= attempts || !canRetry(thrown) || !onFailure(number, thrown, delayMs)) throw thrown;
      await pause(course, delayMs);
    }
  }
}

function canRetry(thrown: unknown): thrown is QmError {
  return thrown instanceof QmError && thrown.retryable && thrown.code !== "cancelled";
}

async function pause(course: AbortableTask, ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const startTimer = (resolve: () => void): void => {
    timer = setTimeout(resolve, ms);
  };
  try {
    await course.race(() => new Promise<void>(startTimer));
  } finally {
    clearTimeout(timer);
  }
}

/** A routed call that has not ended yet. */
export interface RunningCall {
  readonly callId: string;
  readonly action: string;
  readonly actor: string;
  readonly since: Date;
}

/** Everything that was begun and not ended. */
export interface RunningTasks {
  /** Does the work as something that can be stopped. Rejects with `cancelled` once closed. Without `call`: nobody's. */
  run<T>(
    options: AbortableTaskOptions,
    call: RunningCall | undefined,
    work: (course: AbortableTask) => T | PromiseLike<T>,
  ): Promise<T>;
  calls(): readonly RunningCall[];
  /** Whether there was such a call. */
  cancel(callId: string, reason: string | undefined): boolean;
  /** Throws `cancelled` once closed. */
  refuseWhenClosed(): void;
  /** Stops everything, for good. Resolves when all of it is answered. */
  close(): Promise<void>;
}

export function createRunningTasks(): RunningTasks {
  const open = new Set<{ readonly course: AbortableTask; readonly call: RunningCall | undefined }>();
  let closing: Promise<void> | undefined;
  let onIdle: (() => void) | undefined;

  function refuseWhenClosed(): void {
    if (closing !== undefined) throw closingError();
  }

  return {
    async run(options, call, work) {
      refuseWhenClosed();
      const course = startTask(options);
      const entry = { course, call };
      open.add(entry);
      try {
        return await work(course);
      } finally {
        course.end();
        open.delete(entry);
        if (open.size === 0) onIdle?.();
      }
    },
    calls: () => [...open].flatMap(({ call }) => (call === undefined ? [] : [call])),
    cancel(callId, reason) {
      const found = [...open].filter(({ call }) => call?.callId === callId);
      for (const { course, call } of found) course.stop(cancelledError(call?.action ?? "", reason));
      return found.length > 0;
    },
    refuseWhenClosed,
    close() {
      closing ??= new Promise((resolve) => {
        onIdle = resolve;
        for (const { course } of open) course.stop(closingError());
        if (open.size === 0) resolve();
      });
      return closing;
    },
  };
}

export function cancelledError(what: string, reason?: string): QmError {
  return new QmError("cancelled", `${what} was cancelled${reason === undefined ? "" : `: ${clip(reason, 200)}`}`);
}

function closingError(): QmError {
  return new QmError("cancelled", "the system is closing");
}
