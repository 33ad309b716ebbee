import { setTimeout as pause } from "node:timers/promises";
import { withTimeout } from "../core/async.ts";
import { QmError } from "../core/errors.ts";
import { quoteName } from "../core/names.ts";
import { type ModelFailure, readFailure } from "./model-failure.ts";

export interface ModelLimits {
  /** Of one attempt. Of a streamed answer: of the wait for each of its parts. */
  readonly timeoutMs: number;
  /** How often a failed request is repeated, if repeating it may help. */
  readonly retries: number;
}

const DEFAULT_LIMITS: ModelLimits = { timeoutMs: 120_000, retries: 2 };
const FIRST_PAUSE_MS = 500;
/** Also for servers that ask to wait longer. */
const LONGEST_PAUSE_MS = 30_000;

interface Attempts extends Partial<ModelLimits> {
  /** The model's, for messages. */
  readonly name: string;
  readonly apiKey?: string | undefined;
  readonly signal: AbortSignal;
}

/** One attempt, for the function that sends the request. */
export interface Attempt {
  readonly signal: AbortSignal;
  /** Gives the attempt its whole time again. */
  restartTimer(): void;
  /** Makes this attempt the last one, also if it fails. */
  forbidRepeat(): void;
}

/** Sends a request until it is answered, the retries are used up, or the signal aborts. Rejects with a `QmError`. */
export async function withAttempts<T>(
  { name, apiKey, signal, ...limits }: Attempts,
  send: (attempt: Attempt) => Promise<T>,
): Promise<{ readonly answer: T; readonly attempts: number }> {
  const { timeoutMs, retries } = { ...DEFAULT_LIMITS, ...limits };
  const timeoutError = () =>
    new QmError("timed_out", `the language model ${quoteName(name)} did not answer within ${timeoutMs} ms`, {
      hint: "Ask for less, or raise timeout_ms of this model.",
    });
  let canRepeat = true;
  const forbidRepeat = (): void => {
    canRepeat = false;
  };
  for (let attempt = 1, wait = FIRST_PAUSE_MS; ; attempt++, wait *= 2) {
    try {
      const answer = await withTimeout({ ms: timeoutMs, signal, timeoutError }, (signal, restartTimer) =>
        send({ signal, restartTimer, forbidRepeat }),
      );
      return { answer, attempts: attempt };
    } catch (thrown) {
      throwIfAborted(name, signal);
      const failure: ModelFailure = readFailure(thrown, { name, apiKey });
      if (!failure.canRetry || !canRepeat || attempt > retries) throw addAttempts(failure.error, attempt);
      await pause(Math.min(failure.waitMs ?? wait, LONGEST_PAUSE_MS), undefined, { signal }).catch(() => {});
      throwIfAborted(name, signal);
    }
  }
}

function throwIfAborted(name: string, { aborted, reason }: AbortSignal): void {
  if (!aborted) return;
  throw reason instanceof QmError
    ? reason
    : new QmError("cancelled", `the request to the language model ${quoteName(name)} was cancelled`);
}

function addAttempts(error: QmError, attempts: number): QmError {
  const { code, message, hintTemplate: hint, details } = error;
  return new QmError(code, message, { ...(hint === undefined ? {} : { hint }), details: { ...details, attempts } });
}
