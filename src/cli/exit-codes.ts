import { type ErrorCode, QmError } from "../core/errors.ts";
import { omitUndefined } from "../core/json.ts";
import type { Outcome } from "../core/outcome.ts";

/** The exit codes of all commands. docs/cli.md lists them. */
export const exitCodes = {
  /** Success, also with nothing to show. */
  done: 0,
  /** The attempt failed: an action failed, a hash chain is broken, a check of `qm doctor` failed. */
  failed: 1,
  /** Wrong command line, action arguments or configuration. Nothing was attempted. */
  usage: 2,
  /** Not permitted, over budget, or a person must agree first. Nothing ran. */
  refused: 3,
  /** Unknown or hidden action or category; unknown approval, session, turn, dataset or note. */
  unknown: 4,
  /** `qm preflight`, `qm run`, `qm chat`: a person must agree to some of the calls. */
  needsApproval: 10,
  /** `qm preflight`: a server needs a login. */
  needsLogin: 11,
  /** `qm preflight`: a definition is withheld until a person has reviewed it. */
  quarantined: 12,
  /** `qm preflight`: a server cannot be started or reached. */
  unavailable: 13,
  /** `qm run`, `qm chat`: the actor needs an answer before it can go on. */
  needsAnswer: 14,
  /** Ended by Ctrl-C. The ledger has the running call as cancelled. */
  interrupted: 130,
} as const;

export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];
const refused: readonly ErrorCode[] = ["approval_expired", "budget_exceeded", "denied", "quarantined", "tool_denied"];
const usage: readonly ErrorCode[] = [
  "invalid_arguments",
  "invalid_config",
  "invalid_expression",
  "invalid_name",
  "no_model",
  "unknown_actor",
];

export function getExitCode(code: ErrorCode, interrupted: boolean): ExitCode {
  if (code === "cancelled" && interrupted) return exitCodes.interrupted;
  if (refused.includes(code)) return exitCodes.refused;
  if (usage.includes(code)) return exitCodes.usage;
  return code === "unknown_action" || code === "unknown_category" ? exitCodes.unknown : exitCodes.failed;
}

export function getOutcomeExitCode(outcome: Outcome, interrupted: boolean): ExitCode {
  if (outcome.status === "done") return exitCodes.done;
  if (outcome.status === "waiting") return exitCodes.refused;
  const code = getExitCode(outcome.error.code, interrupted);
  return code === exitCodes.failed && outcome.status === "refused" ? exitCodes.refused : code;
}

export function createUsageError(message: string, hint?: string): QmError {
  return new QmError("invalid_arguments", message, omitUndefined({ hint }));
}
