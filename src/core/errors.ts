import type { Content } from "./handler-result.ts";
import { clip, type Json, type JsonObject } from "./json.ts";

interface ErrorTraits {
  /** The status an HTTP surface answers with. */
  readonly http: number;
  /** Whether the same call may succeed later without being changed. */
  readonly retryable: boolean;
}

/** Every code, once. A test keeps `docs/errors.md` in step with this table. */
export const errorCodes = {
  action_failed: { http: 502, retryable: false },
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
  needs_login: { http: 401, retryable: false },
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
} as const satisfies Record<string, ErrorTraits>;

export type ErrorCode = keyof typeof errorCodes;

/** An error as a caller, a model or a log reads it. */
export type Problem = { readonly code: ErrorCode; readonly error: string; readonly hint?: string } & JsonObject;

interface QmErrorOptions {
  /** What to do next, written for a model or a person. */
  readonly hint?: string;
  /** Facts beside the message: suggestions, a schema, a path. Shown to the caller as they are. */
  readonly details?: JsonObject;
  readonly cause?: unknown;
  /** What the failing side itself answered, for an interface that can show it. */
  readonly content?: Content | undefined;
}

/** The one error class. Its message may be shown to a caller: it holds no secret and no foreign stack. */
export class QmError extends Error {
  override readonly name = "QmError";
  readonly code: ErrorCode;
  readonly hint: string | undefined;
  readonly details: JsonObject;
  readonly content: Content | undefined;

  constructor(code: ErrorCode, message: string, { hint, details, cause, content }: QmErrorOptions = {}) {
    super(message, { cause });
    this.code = code;
    this.hint = hint;
    this.details = details ?? {};
    this.content = content;
  }

  get retryable(): boolean {
    return errorCodes[this.code].retryable;
  }

  toProblem(): Problem {
    return {
      code: this.code,
      error: this.message,
      ...(this.hint === undefined ? {} : { hint: this.hint }),
      ...this.details,
    };
  }
}

const MESSAGE_LIMIT = 600;

/** The text of anything thrown, bounded. Never throws, whatever was thrown. */
export function getErrorMessage(thrown: unknown): string {
  try {
    const text = thrown instanceof Error ? thrown.message || thrown.name : String(thrown);
    return clip(text, MESSAGE_LIMIT);
  } catch {
    return "an error that cannot be shown";
  }
}

/** `details` entries that are undefined are left out, so that call sites can pass optional facts. */
export function toErrorDetails(entries: Record<string, Json | undefined>): JsonObject {
  return Object.fromEntries(Object.entries(entries).filter((entry): entry is [string, Json] => entry[1] !== undefined));
}
