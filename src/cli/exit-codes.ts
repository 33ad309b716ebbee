import type { ErrorCode } from "../core/errors.ts";
import { getOwn } from "../core/json.ts";
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
  /** `qm preflight`: a person must agree to some of the calls. */
  needsApproval: 10,
  /** `qm preflight`: a server needs a login. */
  needsLogin: 11,
  /** `qm preflight`: a definition is withheld until a person has reviewed it. */
  quarantined: 12,
  /** `qm preflight`: a server cannot be started or reached. */
  unavailable: 13,
  /** Ended by Ctrl-C. The ledger has the running call as cancelled. */
  interrupted: 130,
} as const;

export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];

/** The error codes that do not exit with `failed`. */
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
