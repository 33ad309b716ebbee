import { QmError } from "../../../core/errors.ts";

/** Nobody said yes. */
export function notAgreed(what: string): QmError {
  return new QmError("approval_required", `nothing was ${what}: nobody agreed to it`, {
    hint: "Answer y at a terminal, or give --yes where there is none.",
  });
}
