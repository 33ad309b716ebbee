import { setImmediate } from "node:timers/promises";
import { type Abortable, LazyAbortController } from "./abortable.ts";

/** Lets pending I/O and other calls run before the caller goes on with a long computation. */
export const yieldToEventLoop = (): Promise<void> => setImmediate();

interface Corkable {
  readonly writableCorked: number;
  cork(): void;
  uncork(): void;
}

/** What is written in one turn of the event loop goes out at once: each write may have to wake the reader up. */
export function corkUntilNextTurn(stream: Corkable): void {
  if (stream.writableCorked > 0) return;
  stream.cork();
  void setImmediate().then(() => stream.uncork());
}

/** Calls `listener` once when the signal aborts, or now if it has. Returns a function that removes the listener. */
export function onAbort(signal: Abortable | undefined, listener: (reason: unknown) => void): () => void {
  if (signal === undefined) return () => {};
  if (signal instanceof LazyAbortController) return signal.onAbort(listener);
  const abort = (): void => listener(signal.reason);
  if (signal.aborted) abort();
  else signal.addEventListener("abort", abort, { once: true });
  return () => signal.removeEventListener("abort", abort);
}

/** Settles as the work does, or rejects with the signal's reason as soon as it aborts. The work itself goes on. */
export function raceAbort<T>(work: T | Promise<T>, signal: Abortable | undefined): Promise<T> {
  return new Promise((resolve, reject) => {
    const stopListening = onAbort(signal, reject);
    Promise.resolve(work).then(
      (value) => {
        stopListening();
        resolve(value);
      },
      (thrown: unknown) => {
        stopListening();
        reject(thrown);
      },
    );
  });
}

export interface TimeLimit {
  readonly ms: number;
  readonly signal?: Abortable | undefined;
  readonly timeoutError: () => Error;
  /** The error to reject with when `signal` aborts. Default: the signal's reason. */
  readonly abortError?: (reason: unknown) => Error;
}

/**
 * Runs `work` with a signal that aborts when the time is up or the outer signal aborts. Rejects at that moment even if
 * the work ignores its signal. Does not start the work if the outer signal has already aborted. `restart` gives the work
 * its whole time again.
 */
export async function withTimeout<T>(
  { ms, signal: outer, timeoutError, abortError }: TimeLimit,
  work: (signal: AbortSignal, restart: () => void) => T | Promise<T>,
): Promise<T> {
  const controller = new AbortController();
  const timer = setTimeout(() => controller.abort(timeoutError()), ms);
  const stopListening = onAbort(outer, (reason) => controller.abort(abortError?.(reason) ?? reason));
  try {
    controller.signal.throwIfAborted();
    const restart = (): void => void timer.refresh();
    return await raceAbort(work(controller.signal, restart), controller.signal);
  } finally {
    clearTimeout(timer);
    stopListening();
  }
}

export async function settlesWithin(work: Promise<unknown>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    // One more turn of the event loop: a blocked process may not have seen yet that the work has settled.
    timer = setTimeout(() => void setImmediate().then(() => resolve(false)), ms);
  });
  const settled = work.then(
    () => true,
    () => true,
  );
  try {
    return await Promise.race([settled, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Runs one piece of work at a time, in the order of the calls. An error rejects only the caller that caused it. */
export class Mutex {
  #last: Promise<unknown> = Promise.resolve();

  run<T>(work: () => T | Promise<T>): Promise<T> {
    const turn = this.#last.then(work, work);
    this.#last = turn;
    return turn;
  }
}

/**
 * Runs `work` at `start`, and again `ms` after each end of it. `close` waits for the last run. The work must not reject.
 */
export function repeatEvery(ms: number | (() => number), work: () => Promise<void>) {
  let timer: NodeJS.Timeout | undefined;
  let running: Promise<void> | undefined;
  let isOn = false;

  function runNow(): void {
    clearTimeout(timer);
    running ??= work().then(() => {
      running = undefined;
      if (isOn) timer = setTimeout(runNow, typeof ms === "number" ? ms : ms()).unref();
    });
  }

  return {
    start(): void {
      isOn = true;
      runNow();
    },
    /** Runs the work now instead of later, if it was started and does not run. */
    nudge(): void {
      if (isOn) runNow();
    },
    async close(): Promise<void> {
      isOn = false;
      clearTimeout(timer);
      await running;
    },
  };
}
