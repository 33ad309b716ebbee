import { QmError } from "./errors.ts";

/**
 * How much work one evaluation may still do. A unit stands for about ten nanoseconds on an ordinary machine. Limits count
 * work and not time, so a busy machine reaches the same answer as an idle one.
 */
export interface WorkBudget {
  left: number;
}

/** The most that one synchronous evaluation may do: about 20 milliseconds. */
export const WORK_LIMIT = 2_000_000;

/** Thrown when a budget is used up. The same evaluation of smaller input may succeed. */
export class WorkExceeded extends QmError {
  /** `what` begins the sentence: a rule, a schema, a pattern. */
  constructor(what: string) {
    super("not_evaluated", `${what} could not be evaluated: it needs more work than one call may do`, {
      hint: "Try again with smaller arguments.",
    });
  }
}

/** Takes `units` from the budget. Throws `WorkExceeded` when there is not enough left. */
export function spend(budget: WorkBudget, units: number): void {
  budget.left -= units;
  if (budget.left < 0) throw new WorkExceeded("the pattern");
}
