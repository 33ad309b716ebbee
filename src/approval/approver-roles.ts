// Tells people in advance who could answer. The service checks again when they do.

import { omitUndefined } from "../core/json.ts";
import { type ApprovalSettings, checkApprover, compileApprovals } from "../policy/approval-rules.ts";
import type { ApprovalView } from "./approval.ts";

export function listLevelRoles(settings: ApprovalSettings, level: string): readonly string[] {
  const compiled = compileApprovals(settings);
  const asked = { level, caller: { actor: "", session: "" } };
  const roles = new Set([...listAllRoles(settings), level, "admin"]);
  return [...roles].filter(
    (role) => checkApprover(compiled, asked, { id: "", roles: [role] }, "approved") === undefined,
  );
}

export const listAllRoles = (settings: ApprovalSettings): readonly string[] => [
  ...new Set([...compileApprovals(settings).levels.values()].flat()),
];

/** Why a person could not give this answer; undefined if they could. */
export function checkApprovalRights(
  settings: ApprovalSettings,
  approval: Pick<ApprovalView, "level" | "actor" | "session" | "user" | "person">,
  approver: { readonly id: string; readonly roles: readonly string[] },
  decision: "approved" | "denied",
): string | undefined {
  const { level, actor, session, user, person } = approval;
  const caller = omitUndefined({ actor, session, user: user === undefined ? undefined : { id: user }, person });
  return checkApprover(compileApprovals(settings), { level, caller }, approver, decision);
}
