import type { Workspace } from "../../../workspace.ts";
import type { Context } from "../../context.ts";
import { whyNot } from "./become.ts";
import { findApproval } from "./find.ts";
import { rolesFor } from "./people.ts";
import { showCall, showHistory } from "./words.ts";

export interface ShowOptions {
  readonly full?: boolean;
}

export async function show(
  { out }: Context,
  { quartermaster: { approvals }, config }: Workspace,
  id: string,
  { full = false }: ShowOptions,
): Promise<void> {
  const approval = await findApproval(approvals, id);
  if (out.isJson) return out.json(approval);
  showCall(out, approval, { roles: rolesFor(config, approval), full });
  showHistory(out, approval, await whyNot(approvals, approval));
  if (approval.state === "pending")
    out.line(out.dim(`\`qm approvals approve ${approval.id}\` has it run; deny says no.`));
}
