import type { AskPerson } from "../../../approval/approvals.ts";
import { QmError } from "../../../core/errors.ts";
import type { Person } from "../../person.ts";

/** Nobody said yes. */
export function notAgreed(what: string): QmError {
  return new QmError("tool_denied", `nothing was ${what}: nobody agreed to it`, {
    hint: "Answer y at a terminal, or give --yes where there is none.",
  });
}

/** The answer of a person who was shown what would be done and has said yes to it. */
export function agreedBy({ id, roles }: Person): { readonly ask: AskPerson } {
  return { ask: async () => ({ decision: "approved", by: id, roles }) };
}
