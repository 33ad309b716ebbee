import { type ApprovalSettings, checkApprover, compileApprovals } from "../policy/approval-rules.ts";
import type { ApprovalView } from "./approval.ts";

/** To tell people beforehand who could answer. Whether somebody may is decided when they do. */

type ApproverIdentity = { readonly id: string; readonly roles: readonly string[] };

const NO_APPROVER: ApproverIdentity = { id: "", roles: [] };

/** The roles that may agree at a level. */
export function listLevelRoles(settings: ApprovalSettings, level: string): readonly string[] {
  const compiled = compileApprovals(settings);
  const asked = { level, caller: { actor: "", session: "" } };
  const known = new Set([...listAllRoles(settings), level, "admin"]);
  return [...known].filter(
    (role) => checkApprover(compiled, asked, { ...NO_APPROVER, roles: [role] }, "approved") === undefined,
  );
}

/** Every role that some level takes. */
export function listAllRoles(settings: ApprovalSettings): readonly string[] {
  return [...new Set([...compileApprovals(settings).levels.values()].flat())];
}

/** Why that person could not answer so; undefined: they could. */
export function checkApprovalRights(
  settings: ApprovalSettings,
  approval: Pick<ApprovalView, "level" | "actor" | "session" | "user" | "person">,
  person: ApproverIdentity,
  decision: "approved" | "denied",
): string | undefined {
  const { level, actor, session, user, person: asked } = approval;
  const caller = {
    actor,
    session,
    ...(user === undefined ? {} : { user: { id: user } }),
    ...(asked === undefined ? {} : { person: asked }),
  };
  return checkApprover(compileApprovals(settings), { level, caller }, person, decision);
}
