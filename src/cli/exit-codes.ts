import type { ErrorCode } from "../core/errors.ts";
import { getOwn } from "../core/json.ts";
import type { Outcome } from "../core/outcome.ts";

/** What a script can tell from the exit status of any command. */
export const exitCodes = {
  /** What was asked is done. A command that shows something has shown it, also when there is nothing to show. */
  done: 0,
  /** It was tried and went wrong: an action failed, a chain is broken, a check of `qm doctor` failed. */
  failed: 1,
  /** The command line, the arguments of an action, or the configuration is wrong: nothing was tried. */
  usage: 2,
  /** The caller may not, or a budget is used up, or a person must agree first: nothing was run. */
  refused: 3,
  /** No such action or category, as far as this caller may see; no such approval, session, turn, dataset or note. */
  unknown: 4,
  /** Of `qm preflight`: everything is there, and a person must agree to some of the calls. */
  needsApproval: 10,
  /** Of `qm preflight`: a server wants somebody to log in. */
  needsLogin: 11,
  /** Of `qm preflight`: a definition is withheld until a person has reviewed it. */
  quarantined: 12,
  /** Of `qm preflight`: a server cannot be started or reached. */
  unavailable: 13,
  /** Ended by Ctrl-C; a call that was running is in the ledger as cancelled. */
  interrupted: 130,
} as const;

export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];

/** Codes that mean something else than `failed`. */
const codes: { readonly [Code in ErrorCode]?: ExitCode } = {
  approval_expired: exitCodes.refused,
  budget_exceeded: exitCodes.refused,
  denied: exitCodes.refused,
  quarantined: exitCodes.refused,
  tool_denied: exitCodes.refused,
  invalid_arguments: exitCodes.usage,
  invalid_config: exitCodes.usage,
  invalid_expression: exitCodes.usage,
  invalid_name: exitCodes.usage,
  unknown_action: exitCodes.unknown,
  unknown_actor: exitCodes.usage,
  unknown_category: exitCodes.unknown,
};

export function getExitCode(code: ErrorCode, interrupted: boolean): ExitCode {
  if (code === "cancelled" && interrupted) return exitCodes.interrupted;
  return getOwn(codes, code) ?? exitCodes.failed;
}

export function getOutcomeExitCode(outcome: Outcome, interrupted: boolean): ExitCode {
  if (outcome.status === "done") return exitCodes.done;
  if (outcome.status === "waiting") return exitCodes.refused;
  const code = getExitCode(outcome.error.code, interrupted);
  return code === exitCodes.failed && outcome.status === "refused" ? exitCodes.refused : code;
}
