import { type Abortable, LazyAbortController } from "../core/abortable.ts";
import { onAbort, raceAbort } from "../core/async.ts";
import { Bag } from "../core/bag.ts";
import { isLeftOpen } from "../core/caller.ts";
import { QmError } from "../core/errors.ts";
import { clip } from "../core/json.ts";
import { LONGEST_BACKOFF_MS, type RetryPolicy } from "./rules.ts";

/** Work that can be stopped. Its caller is answered at once, even if the work ignores the signal. */
interface AbortableTask {
  /** Aborted with the `QmError` that stopped the task. */
  readonly controller: LazyAbortController;
  stop(reason: QmError): void;
  /** Settles as the work does, or rejects with the reason when the task is stopped. Does not start work once stopped. */
  race<T>(work: () => T | Promise<T>): Promise<T>;
  /** Removes the timer and the listener on the outer signal. */
  end(): void;
}

interface AbortableTaskOptions {
  readonly outer?: Abortable | undefined;
  readonly deadlineMs?: number | undefined;
  readonly createCancelError: () => QmError;
  readonly createLateError?: () => QmError;
}

export function startTask({
  outer,
  createCancelError,
  deadlineMs,
  createLateError = createCancelError,
}: AbortableTaskOptions): AbortableTask {
  const controller = new LazyAbortController();
  const stop = (reason: QmError): void => controller.abort(reason);
  const stopListening = onAbort(outer, (reason) =>
    stop(isLeftOpen(reason) ? (reason as QmError) : createCancelError()),
  );
  const timer = deadlineMs === undefined ? undefined : setTimeout(() => stop(createLateError()), deadlineMs);
  return {
    controller,
    stop,
    async race(work) {
      controller.throwIfAborted();
      return raceAbort(work(), controller);
    },
    end() {
      clearTimeout(timer);
      stopListening();
    },
  };
}

interface RetryOptions {
  readonly retry?: RetryPolicy | undefined;
  /** Called before the pause after a failed attempt. `false` ends the attempts. */
  onFailure(failed: number, error: QmError, delayMs: number): boolean;
}

const DEFAULT_BACKOFF_MS = 200;

/** Repeats an attempt that failed with a retryable `QmError`, after pauses that double. Rejects with the last error. */
export function runWithRetries<T>(
  task: AbortableTask,
  attempt: (number: number) => T | Promise<T>,
  { retry, onFailure }: RetryOptions,
): Promise<T> {
  return retry === undefined ? task.race(() => attempt(1)) : repeatAttempts(task, attempt, retry, onFailure);
}

async function repeatAttempts<T>(
  task: AbortableTask,
  attempt: (number: number) => T | Promise<T>,
  { attempts, backoffMs = DEFAULT_BACKOFF_MS }: RetryPolicy,
  onFailure: RetryOptions["onFailure"],
): Promise<T> {
  for (let number = 1; ; number++) {
    try {
      return await task.race(() => attempt(number));
    } catch (thrown) {
      task.controller.throwIfAborted();
      const delayMs = Math.min(backoffMs * 2 ** (number - 1), LONGEST_BACKOFF_MS);
      if (number >= attempts || !canRetry(thrown) || !onFailure(number, thrown, delayMs)) throw thrown;
      await sleep(delayMs, task.controller);
    }
  }
}

const canRetry = (thrown: unknown): thrown is QmError =>
  thrown instanceof QmError && thrown.retryable && thrown.code !== "cancelled";

async function sleep(ms: number, signal: Abortable): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const elapsed = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await raceAbort(elapsed, signal).finally(() => clearTimeout(timer));
}

export interface RunningCall {
  readonly callId: string;
  readonly action: string;
  readonly actor: string;
  readonly since: Date;
}

export type RunningTasks = ReturnType<typeof createRunningTasks>;

export function createRunningTasks() {
  const open = new Bag<{ readonly task: AbortableTask; readonly call: RunningCall | undefined }>();
  let closing: Promise<void> | undefined;
  let onIdle: (() => void) | undefined;

  /** Throws `cancelled` once closed. */
  function requireOpen(): void {
    if (closing !== undefined) throw closingError();
  }

  return {
    requireOpen,
    /** `call` is undefined for an event handler, which cannot be listed or cancelled by id. */
    async run<T>(
      options: AbortableTaskOptions,
      call: RunningCall | undefined,
      work: (task: AbortableTask) => Promise<T>,
    ): Promise<T> {
      requireOpen();
      const task = startTask(options);
      const entry = { task, call };
      open.add(entry);
      try {
        return await work(task);
      } finally {
        task.end();
        open.delete(entry);
        if (open.size === 0) onIdle?.();
      }
    },
    listCalls: (): readonly RunningCall[] => [...open].flatMap(({ call }) => (call === undefined ? [] : [call])),
    cancel(callId: string, reason?: string): boolean {
      const found = [...open].filter(({ call }) => call?.callId === callId);
      for (const { task, call } of found) task.stop(cancelledError(call?.action ?? "", reason));
      return found.length > 0;
    },
    close(): Promise<void> {
      closing ??= new Promise((resolve) => {
        onIdle = resolve;
        for (const { task } of open) task.stop(closingError());
        if (open.size === 0) resolve();
      });
      return closing;
    },
  };
}

export const cancelledError = (what: string, reason?: string): QmError =>
  new QmError("cancelled", `${what} was cancelled${reason === undefined ? "" : `: ${clip(reason, 200)}`}`);
const closingError = (): QmError => new QmError("cancelled", "the system is closing");
