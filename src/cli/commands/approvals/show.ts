import type { Workspace } from "../../../workspace.ts";
import type { Context } from "../../context.ts";
import { personAt, requirePresence } from "../../person.ts";
import { whyNot } from "./become.ts";
import { findApproval } from "./find.ts";
import { rolesFor } from "./people.ts";
import { showCall, showHistory } from "./words.ts";

export interface ShowOptions {
  readonly full?: boolean;
  readonly reveal?: boolean;
  readonly as?: string;
}

export async function show(
  context: Context,
  workspace: Workspace,
  id: string,
  { full = false, reveal = false, as }: ShowOptions,
): Promise<void> {
  const { out } = context;
  const { config, quartermaster } = workspace;
  const { approvals } = quartermaster;
  const found = await findApproval(approvals, id);
  const approval = reveal ? await revealed(context, workspace, found.id, as) : found;
  if (out.isJson) return out.json(approval);
  showCall(out, approval, { roles: rolesFor(config, approval), cut: !full });
  showHistory(out, approval, await whyNot(approvals, approval));
  if (approval.state === "pending")
    out.line(out.dim(`\`qm approvals approve ${approval.id}\` has it run; deny says no.`));
}

/** Secrets are shown to somebody who could approve the call, and only where a person is there. */
async function revealed(context: Context, workspace: Workspace, id: string, as: string | undefined) {
  const person = await personAt(context, workspace, as);
  requirePresence(context, person);
  return workspace.quartermaster.approvals.reveal(id, { id: person.id, roles: person.roles, via: "cli" });
}
