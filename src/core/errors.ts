import type { Content } from "./handler-result.ts";
import { type HintWords, renderHint } from "./hint.ts";
import { clip, type Json, type JsonObject, omitUndefined } from "./json.ts";

/** Every error code. Retryable: the same call may succeed later. A test compares `docs/errors.md` with this table. */
export const errorCodes = {
  action_failed: { http: 502, retryable: false },
  address_refused: { http: 403, retryable: false },
  approval_expired: { http: 409, retryable: false },
  budget_exceeded: { http: 429, retryable: true },
  cancelled: { http: 499, retryable: true },
  conflict: { http: 409, retryable: false },
  denied: { http: 403, retryable: false },
  embedder_failed: { http: 502, retryable: true },
  internal: { http: 500, retryable: false },
  interrupted: { http: 500, retryable: false },
  invalid_arguments: { http: 422, retryable: false },
  invalid_config: { http: 400, retryable: false },
  invalid_expression: { http: 400, retryable: false },
  invalid_name: { http: 400, retryable: false },
  invalid_output: { http: 502, retryable: false },
  invalid_registration: { http: 400, retryable: false },
  ledger_failed: { http: 503, retryable: true },
  model_failed: { http: 502, retryable: true },
  model_refused: { http: 502, retryable: false },
  needs_login: { http: 401, retryable: false },
  no_model: { http: 409, retryable: false },
  not_accepted: { http: 422, retryable: false },
  not_evaluated: { http: 503, retryable: true },
  not_found: { http: 404, retryable: false },
  overloaded: { http: 503, retryable: true },
  path_refused: { http: 403, retryable: false },
  quarantined: { http: 403, retryable: false },
  quota_exceeded: { http: 507, retryable: false },
  registry_failed: { http: 502, retryable: true },
  search_off: { http: 409, retryable: false },
  server_failed: { http: 502, retryable: true },
  store_failed: { http: 503, retryable: true },
  timed_out: { http: 504, retryable: true },
  too_large: { http: 413, retryable: false },
  tool_denied: { http: 403, retryable: false },
  unknown_action: { http: 404, retryable: false },
  unknown_actor: { http: 404, retryable: false },
  unknown_category: { http: 404, retryable: false },
  unrecorded: { http: 500, retryable: false },
  unsafe_schema: { http: 422, retryable: false },
  unsupported_content: { http: 415, retryable: false },
} as const satisfies Record<string, { readonly http: number; readonly retryable: boolean }>;

export type ErrorCode = keyof typeof errorCodes;
export type Problem = { readonly code: ErrorCode; readonly error: string; readonly hint?: string } & JsonObject;

interface QmErrorOptions {
  /** The next step, in sentences. The surface that shows it fills in steps such as `{search}`. */
  readonly hint?: string;
  readonly details?: JsonObject;
  readonly cause?: unknown;
  /** The failing server's own answer, for an interface that can show it. */
  readonly content?: Content | undefined;
}

/** The only error class. Its message is shown to callers: it must hold no secret and no stack. */
export class QmError extends Error {
  override readonly name = "QmError";
  readonly code: ErrorCode;
  /** The hint without the sentences that only some surfaces can show. */
  readonly hint: string | undefined;
  /** The hint as it was given. An error that wraps this one passes it on. */
  readonly hintTemplate: string | undefined;
  readonly details: JsonObject;
  readonly content: Content | undefined;

  constructor(code: ErrorCode, message: string, { hint, details, cause, content }: QmErrorOptions = {}) {
    super(message, { cause });
    this.code = code;
    this.hint = hint === undefined ? undefined : renderHint(hint);
    this.hintTemplate = hint;
    this.details = details ?? {};
    this.content = content;
  }

  get retryable(): boolean {
    return errorCodes[this.code].retryable;
  }

  toProblem(words?: HintWords): Problem {
    const hint = this.hintTemplate === undefined ? undefined : renderHint(this.hintTemplate, words);
    return { code: this.code, error: this.message, ...omitUndefined({ hint }), ...this.details };
  }
}

/** Any thrown value as an error with a code: `internal` if it has none. */
export const toQmError = (thrown: unknown): QmError =>
  thrown instanceof QmError ? thrown : new QmError("internal", getErrorMessage(thrown), { cause: thrown });

/** The message of any thrown value, bounded. Never throws. */
export function getErrorMessage(thrown: unknown): string {
  try {
    return clip(thrown instanceof Error ? thrown.message || thrown.name : String(thrown), 600);
  } catch {
    return "an error that cannot be shown";
  }
}

export const toErrorDetails = (entries: Record<string, Json | undefined>): JsonObject =>
  omitUndefined(entries) as JsonObject;
