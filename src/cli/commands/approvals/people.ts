import type { ShownApproval } from "../../../approval/approval.ts";
import { objectionTo, rolesAt } from "../../../approval/who-may.ts";
import type { Config } from "../../../config/schema.ts";
import { QmError } from "../../../core/errors.ts";
import { quoted } from "../../../core/names.ts";
import { didYouMean } from "../../../core/nearest.ts";
import { rolesOf } from "../../../http/approvers.ts";
import { policyOf } from "../../../workspace-options.ts";

/** The roles that may agree to it. */
export function rolesFor(config: Config, { level }: Pick<ShownApproval, "level">): readonly string[] {
  return rolesAt(settingsOf(config), level);
}

/** The roles of somebody who was named. Throws where people are configured and this is none of them. */
export function rolesOfNamed(config: Config, name: string): readonly string[] {
  const roles = rolesOf(config, name);
  if (roles.length > 0) return roles;
  const names = namesIn(config);
  throw new QmError("invalid_arguments", `${quoted(name)} is no approver${didYouMean(name, names)}`, {
    hint: `approvals.approvers has: ${names.join(", ")}.`,
  });
}

/** Why somebody could not answer so; undefined: they could. */
export function objection(
  config: Config,
  approval: ShownApproval,
  name: string,
  decision: "approved" | "denied",
): string | undefined {
  return objectionTo(settingsOf(config), approval, { id: name, roles: rolesOf(config, name) }, decision);
}

/** Who could answer, where somebody may not. `then` says what to do with one of the names. */
export function whoElse(
  config: Config,
  approval: ShownApproval,
  decision: "approved" | "denied",
  then: (name: string) => string,
): string {
  const names = namesIn(config);
  const able = names.filter((name) => objection(config, approval, name, decision) === undefined);
  if (able.length > 0) return `Who may: ${able.join(", ")}. ${then(able.length === 1 ? String(able[0]) : "<name>")}`;
  // Where nobody is named, anybody but the one it is for.
  if (names.length === 0 && objection(config, approval, "", decision) === undefined)
    return `Somebody else must answer. ${then("<name>")}`;
  const roles = rolesFor(config, approval).join(", ");
  return `No approver of the configuration may: give somebody one of the roles ${roles} under approvals.approvers.`;
}

function namesIn({ approvals }: Config): readonly string[] {
  return Object.keys(approvals.approvers);
}

function settingsOf(config: Config) {
  return policyOf(config).approvals ?? {};
}
