import { QmError } from "../core/errors.ts";
import { getOwn, isRecord } from "../core/json.ts";
import { quoteName } from "../core/names.ts";
import { quoteServerMessage } from "../core/server-answer.ts";

export interface ModelFailure {
  readonly error: QmError;
  readonly canRetry: boolean;
  /** How long the server asks to wait. */
  readonly waitMs?: number;
}

const CAUSES_READ = 5;

interface FailedModel {
  readonly name: string;
  readonly apiKey?: string | undefined;
}

/** A streamed answer failed on its way: the server reported an error, or its end is missing. */
export class AnswerStreamError extends Error {
  override readonly name = "AnswerStreamError";
  /** The error that the server reported, if it did. */
  readonly reported: unknown;

  constructor(reported?: unknown) {
    super("the stream of the answer failed");
    this.reported = reported;
  }
}

/** Reads what a provider package threw. The error contains no key, even if the server echoes it. */
export function readFailure(thrown: unknown, model: FailedModel): ModelFailure {
  const own = findOwnError(thrown);
  if (own !== undefined) return { error: own, canRetry: false };
  if (thrown instanceof AnswerStreamError) return readBrokenStream(thrown, model);
  const status = readStatus(thrown);
  if (status !== undefined && (status < 200 || status > 299)) return readRefusal(status, thrown, model);
  const systemCode = findSystemCode(thrown);
  if (systemCode !== undefined || isNetworkError(thrown)) {
    const what = systemCode === undefined ? "cannot be reached" : `cannot be reached (${systemCode})`;
    const hint = "Check that its server runs and can be reached from here, and the base_url of this model.";
    return { error: createModelError("model_failed", model, what, hint), canRetry: true };
  }
  return { error: createInvalidAnswerError(model, "did not answer in the form of its API"), canRetry: false };
}

export const createInvalidAnswerError = (model: FailedModel, what: string): QmError =>
  createModelError("model_failed", model, what, "Check the provider and the base_url of this model.");

function createModelError(code: "model_failed" | "model_refused", { name }: FailedModel, what: string, hint: string) {
  return new QmError(code, `the language model ${quoteName(name)} ${what}`, { hint });
}

function readRefusal(status: number, thrown: unknown, model: FailedModel): ModelFailure {
  const canRetry = status === 408 || status === 429 || status >= 500;
  const code = canRetry ? "model_failed" : "model_refused";
  const body = isRecord(thrown) && typeof thrown.responseBody === "string" ? thrown.responseBody : "";
  const what = `answered ${status}${quoteServerMessage(body, status, model.apiKey)}`;
  const waitMs = readRetryAfter(thrown);
  const wait = waitMs === undefined ? {} : { waitMs };
  return { error: createModelError(code, model, what, getHint(status)), canRetry, ...wait };
}

function readBrokenStream({ reported }: AnswerStreamError, model: FailedModel): ModelFailure {
  const what =
    reported === undefined
      ? "ended its answer too early"
      : `failed while it answered${quoteServerMessage(JSON.stringify({ error: reported }), 500, model.apiKey)}`;
  return { error: createModelError("model_failed", model, what, getHint(500)), canRetry: true };
}

/** Provider packages wrap what the reading of a stream rejects with. */
function findOwnError(thrown: unknown): QmError | undefined {
  for (let error = thrown, depth = 0; depth < CAUSES_READ && isRecord(error); error = error.cause, depth++)
    if (error instanceof QmError) return error;
  return undefined;
}

function getHint(status: number): string {
  if (status === 401 || status === 403) return "This model needs a valid api_key in quartermaster.yaml.";
  if (status === 404 || (status >= 300 && status < 400)) return "Correct the base_url or the name of the model.";
  if (status === 413) return "Send less at a time.";
  if (status === 429) return "There were too many requests, or the account has no credit. Try again later.";
  return status === 408 || status >= 500 ? "Try again later." : "Correct or shorten the request.";
}

function readStatus(thrown: unknown): number | undefined {
  const status = isRecord(thrown) ? thrown.statusCode : undefined;
  return typeof status === "number" ? status : undefined;
}

/** Seconds, or a date. */
function readRetryAfter(thrown: unknown): number | undefined {
  const headers = isRecord(thrown) ? thrown.responseHeaders : undefined;
  const text = isRecord(headers) ? getOwn(headers, "retry-after") : undefined;
  if (typeof text !== "string" || text.trim() === "") return undefined;
  const ms = Number.isNaN(Number(text)) ? Date.parse(text) - Date.now() : Number(text) * 1000;
  return Number.isNaN(ms) ? undefined : Math.max(0, ms);
}

/** A code such as ECONNREFUSED. The messages of the client could contain the key. */
function findSystemCode(thrown: unknown): string | undefined {
  for (let error = thrown, depth = 0; isRecord(error) && depth < CAUSES_READ; error = error.cause, depth++) {
    const { code } = error;
    if (typeof code === "string" && /^[A-Z][A-Z_]{2,40}$/.test(code)) return code;
  }
  return undefined;
}

/** Provider packages mark failed connections as retryable. An error of `fetch` itself has a telling message only. */
const isNetworkError = (thrown: unknown): boolean =>
  (isRecord(thrown) && thrown.isRetryable === true) ||
  (thrown instanceof TypeError && /^(?:fetch failed|terminated)/.test(thrown.message));
