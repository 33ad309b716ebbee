import { QmError } from "./errors.ts";

/** The work left, in units of about 10 ns. It counts work, not time, so that a busy machine gives the same answer. */
export type WorkBudget = { left: number };

/** The limit of one synchronous evaluation: about 20 milliseconds. */
export const WORK_LIMIT = 2_000_000;

/** Thrown when a budget is used up. Smaller input may succeed. */
export class WorkExceeded extends QmError {
  /** `what` starts the message: a rule, a schema, a pattern. */
  constructor(what: string) {
    super("not_evaluated", `${what} could not be evaluated: it needs more work than one call may do`, {
      hint: "Try again with smaller arguments.",
    });
  }
}

/** Takes `units` from the budget. Throws `WorkExceeded` if it has fewer left. */
export function spend(budget: WorkBudget, units: number): void {
  budget.left -= units;
  if (budget.left < 0) throw new WorkExceeded("the pattern");
}
