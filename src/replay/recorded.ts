import type { Caller } from "../core/caller.ts";
import type { ErrorCode } from "../core/errors.ts";
import type { Json } from "../core/json.ts";
import type { Spent } from "../policy/usage.ts";

/** One call as the ledger tells it. */
export interface RecordedCall {
  readonly callId: string;
  /** When it was received, ISO 8601. */
  readonly at: string;
  readonly caller: Caller;
  /** The name as the caller wrote it. */
  readonly asked: string;
  readonly via: string;
  readonly args: unknown;
  /** With what handles led to in their place. Absent: there were no handles in them. */
  readonly filledArgs?: unknown;
  /** The call that it was made in. */
  readonly parent?: string;
  /** None: it did not get as far. More than one: rights were decided again when it was resumed. */
  readonly decisions: readonly RecordedDecision[];
  readonly approval?: RecordedApproval;
  /** Absent: it waits for a person, or the process ended while it ran. */
  readonly end?: RecordedEnd;
  /** What was taken out of it before it was written, so that it may be decided differently: in words. */
  readonly lacks?: string;
}

export interface RecordedDecision {
  readonly action: string;
  readonly definition: string;
  readonly decision: "allow" | "ask" | "deny";
  readonly layer?: string;
  readonly rule?: string;
  readonly policyVersion: string;
  /** What was drawn on the accounts that budgets were held against. */
  readonly usage: ReadonlyMap<string, Spent>;
}

/** What people said, as far as it went. */
export interface RecordedApproval {
  readonly id: string;
  readonly answer?: { readonly decision: "approved" | "denied"; readonly by: string; readonly reason?: string };
  /** Why nobody can agree any more. */
  readonly expired?: string;
  readonly resumed: boolean;
  readonly interrupted: boolean;
}

export interface RecordedEnd {
  readonly status: "done" | "failed" | "refused";
  readonly code?: ErrorCode;
  readonly reason?: string;
  readonly durationMs: number;
  readonly bytes: number;
  readonly result: Json;
  /** Whether `result` is less than what was answered. */
  readonly isPartial: boolean;
  /** The call that ran in its place: the same was asked for twice. */
  readonly ranAs?: string;
}
