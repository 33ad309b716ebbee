import { type ApprovalSettings, approverObjection, compileApprovals } from "../policy/approvers.ts";
import type { ShownApproval } from "./approval.ts";

/** To tell people beforehand who could answer. Whether somebody may is decided when they do. */

type Person = { readonly id: string; readonly roles: readonly string[] };

const NOBODY: Person = { id: "", roles: [] };

/** The roles that may agree at a level. */
export function rolesAt(settings: ApprovalSettings, level: string): readonly string[] {
  const compiled = compileApprovals(settings);
  const asked = { level, caller: { actor: "", session: "" } };
  const known = new Set([...rolesOfLevels(settings), level, "admin"]);
  return [...known].filter(
    (role) => approverObjection(compiled, asked, { ...NOBODY, roles: [role] }, "approved") === undefined,
  );
}

/** Every role that some level takes. */
export function rolesOfLevels(settings: ApprovalSettings): readonly string[] {
  return [...new Set([...compileApprovals(settings).levels.values()].flat())];
}

/** Why that person could not answer so; undefined: they could. */
export function objectionTo(
  settings: ApprovalSettings,
  approval: Pick<ShownApproval, "level" | "actor" | "session" | "user" | "person">,
  person: Person,
  decision: "approved" | "denied",
): string | undefined {
  const { level, actor, session, user, person: asked } = approval;
  const caller = {
    actor,
    session,
    ...(user === undefined ? {} : { user: { id: user } }),
    ...(asked === undefined ? {} : { person: asked }),
  };
  return approverObjection(compileApprovals(settings), { level, caller }, person, decision);
}
