import type { ErrorCode } from "../core/errors.ts";
import type { OutcomeStatus } from "../core/outcome.ts";

/** A call and what came of it, for whoever rehearses it. */
export interface ScriptedCall {
  /** The action's name, or another spelling that leads to it. */
  readonly name: string;
  /** Where the ledger has left something out of a text, any text fits. */
  readonly args?: unknown;
  /** With what handles led to in their place, where there were any. */
  readonly filledArgs?: unknown;
  readonly outcome: ScriptedOutcome;
  /** Who agreed to it, where a person was asked. */
  readonly approvedBy?: string;
}

export type ScriptedOutcome =
  /** The result as it was written down; it need not be of the form that the action declares. */
  | { readonly status: "done"; readonly data: unknown }
  | { readonly status: "failed" | "refused"; readonly error: { readonly code: ErrorCode; readonly error: string } }
  | { readonly status: "waiting" };

/** A call that was made in a rehearsal. */
export interface MadeCall {
  readonly callId: string;
  /** As it was written. */
  readonly asked: string;
  /** What it was taken for. Absent: for nothing. */
  readonly action?: string;
  readonly args: unknown;
  readonly status: OutcomeStatus;
  readonly code?: ErrorCode;
  /** False: it would have run, and the script has nothing to answer it with. */
  readonly isScripted: boolean;
}
