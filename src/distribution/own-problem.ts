import type { TimeLimit } from "../core/async.ts";
import { type ErrorCode, QmError } from "../core/errors.ts";

const own = new WeakSet<QmError>();

/** A problem in our own words: nothing of a record is in it, so everybody may read it. */
export function ownProblem(code: ErrorCode, message: string): QmError {
  const problem = new QmError(code, message);
  own.add(problem);
  return problem;
}

export function isOwnProblem(thrown: unknown): boolean {
  return thrown instanceof QmError && own.has(thrown);
}

/** The time limit of one delivery, with errors that everyone may read. */
export function deliveryLimit(ms: number, signal: AbortSignal | undefined): TimeLimit {
  return {
    ms,
    signal,
    timeoutError: () => ownProblem("timed_out", `it did not end within ${ms} ms`),
    abortError: () => ownProblem("cancelled", "it was cancelled"),
  };
}
