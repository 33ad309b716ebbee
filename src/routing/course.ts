import { QmError } from "../core/errors.ts";
import { LONGEST_BACKOFF_MS, type Retry } from "./rules.ts";

/** Work that can be stopped at any time, by whoever may, and is then answered for at once, whether it listens or not. */
export interface Course {
  /** Aborted with a `QmError` when it is stopped. */
  readonly signal: AbortSignal;
  stop(reason: QmError): void;
  /** What the work answers, or rejects with the reason as soon as it is stopped. One at a time. */
  until<T>(work: () => T | PromiseLike<T>): Promise<T>;
  /** Lets go of the outer signal and of the deadline. */
  end(): void;
}

export interface CourseOptions {
  /** Stops it, too. */
  readonly outer?: AbortSignal | undefined;
  readonly cancelled: () => QmError;
  readonly deadlineMs?: number | undefined;
  readonly late?: () => QmError;
}

export function startCourse({ outer, cancelled, deadlineMs, late = cancelled }: CourseOptions): Course {
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
    until: (work) =>
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

export interface TryOptions {
  readonly retry?: Retry | undefined;
  /** Told before the pause that follows a failed try; answers whether there is to be another. */
  onFailure(failed: number, error: QmError, delayMs: number): boolean;
}

const DEFAULT_BACKOFF_MS = 200;

/**
 * Tries until it succeeds, is stopped, or has no try left, with pauses that depend on nothing but their number. Only what
 * may go better next time is tried again: an error that says so itself.
 */
export async function inTries<T>(
  course: Course,
  attempt: (number: number) => T | PromiseLike<T>,
  { retry, onFailure }: TryOptions,
): Promise<T> {
  const { attempts = 1, backoffMs = DEFAULT_BACKOFF_MS } = retry ?? {};
  for (let number = 1; ; number++) {
    try {
      return await course.until(() => attempt(number));
    } catch (thrown) {
      if (course.signal.aborted) throw course.signal.reason;
      const delayMs = Math.min(backoffMs * 2 ** (number - 1), LONGEST_BACKOFF_MS);
      if (number >= attempts || !mayGoBetter(thrown) || !onFailure(number, thrown, delayMs)) throw thrown;
      await pause(course, delayMs);
    }
  }
}

function mayGoBetter(thrown: unknown): thrown is QmError {
  return thrown instanceof QmError && thrown.retryable && thrown.code !== "cancelled";
}

async function pause(course: Course, ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const passed = (resolve: () => void): void => {
    timer = setTimeout(resolve, ms);
  };
  try {
    await course.until(() => new Promise<void>(passed));
  } finally {
    clearTimeout(timer);
  }
}
