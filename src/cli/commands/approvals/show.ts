import type { Workspace } from "../../../workspace.ts";
import type { Context } from "../../context.ts";
import { findApproval } from "./find.ts";
import { showCall, showHistory } from "./words.ts";

export async function show({ out }: Context, { quartermaster }: Workspace, id: string): Promise<void> {
  const approval = await findApproval(quartermaster.approvals, id);
  if (out.isJson) return out.json(approval);
  showCall(out, approval);
  showHistory(out, approval);
  if (approval.state === "pending")
    out.line(out.dim(`\`qm approvals approve ${approval.id}\` has it run; deny says no.`));
}
