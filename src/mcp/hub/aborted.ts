import { messageOf, QmError } from "../../core/errors.ts";

/** Why a signal was aborted, as an error of ours: whoever aborts without one has simply given up. */
export function abortError(signal: AbortSignal): QmError {
  return signal.reason instanceof QmError ? signal.reason : new QmError("cancelled", "the call was given up");
}

/** A wait that ends when the signal does. The work itself goes on. */
export function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return work;
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(abortError(signal));
    if (signal.aborted) return onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}

/** Whatever was thrown, as an error of ours. */
export function asError(thrown: unknown): QmError {
  return thrown instanceof QmError ? thrown : new QmError("server_failed", messageOf(thrown), { cause: thrown });
}
