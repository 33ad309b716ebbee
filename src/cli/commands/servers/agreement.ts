import type { AskPerson } from "../../../approval/approvals.ts";
import { QmError } from "../../../core/errors.ts";
import { rolesOf } from "../../../http/approvers.ts";
import type { Workspace } from "../../../workspace.ts";
import { type Context, personOf } from "../../context.ts";

/** Nobody said yes. */
export function notAgreed(what: string): QmError {
  return new QmError("tool_denied", `nothing was ${what}: nobody agreed to it`, {
    hint: "Answer y at a terminal, or give --yes where there is none.",
  });
}

/** The answer of the person at the keyboard, who was shown what would be done and has said yes to it. */
export function agreedBy({ io }: Context, { config }: Workspace): { readonly ask: AskPerson } {
  const by = personOf(io);
  return { ask: async () => ({ decision: "approved", by, roles: rolesOf(config, by) }) };
}
