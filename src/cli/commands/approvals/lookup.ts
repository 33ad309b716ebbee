import type { Approvals, ApprovalView } from "../../../approval/approval.ts";
import { checkApprovalRights, listLevelRoles } from "../../../approval/approver-roles.ts";
import type { Config } from "../../../config/schema.ts";
import { QmError } from "../../../core/errors.ts";
import { omitUndefined } from "../../../core/json.ts";
import { quoteName } from "../../../core/names.ts";
import { didYouMean } from "../../../core/nearest.ts";
import { getApproverRoles } from "../../../http/approvers.ts";
import { toPolicyOptions } from "../../../workspace/config-mapping.ts";
import { createUsageError } from "../../exit-codes.ts";

const ID_LENGTH = 36;
const MIN_PREFIX = 6;
const PAGE = 1_000;

/** The approval with this id or id prefix. Throws `not_found`, and `invalid_arguments` if several match. */
export async function findApproval(approvals: Approvals, text: string): Promise<ApprovalView> {
  if (text.length >= ID_LENGTH) return approvals.get(text);
  if (text.length < MIN_PREFIX)
    throw createUsageError(
      `the id ${quoteName(text)} is too short`,
      `Give at least ${MIN_PREFIX} characters of the id.`,
    );
  const found: string[] = [];
  for await (const { id } of iterateApprovals(approvals)) if (id.startsWith(text)) found.push(id);
  const [id, another] = found;
  if (id === undefined)
    throw new QmError("not_found", `no approval id starts with ${quoteName(text)}`, {
      hint: "Run `qm approvals list --all` to see all approvals.",
    });
  if (another === undefined) return approvals.get(id);
  const details = { suggestions: found.slice(-5) };
  const message = `${found.length} approval ids start with ${quoteName(text)}`;
  throw new QmError("invalid_arguments", message, { details, hint: "Give more of the id." });
}

async function* iterateApprovals(approvals: Approvals): AsyncGenerator<ApprovalView> {
  let after: string | undefined;
  for (;;) {
    const page = await approvals.list({ limit: PAGE, ...omitUndefined({ after }) });
    yield* page;
    if (page.length < PAGE) return;
    after = page.at(-1)?.id;
  }
}

export function getConfiguredLevelRoles(config: Config, { level }: Pick<ApprovalView, "level">): readonly string[] {
  return listLevelRoles(getApprovalSettings(config), level);
}

/** The roles of a named approver. Throws if approvers are configured and this is none of them. */
export function requireConfiguredRoles(config: Config, name: string): readonly string[] {
  const roles = getApproverRoles(config, name);
  if (roles.length > 0) return roles;
  const names = Object.keys(config.approvals.approvers);
  const hint = `approvals.approvers has: ${names.join(", ")}.`;
  throw new QmError("invalid_arguments", `${quoteName(name)} is no approver${didYouMean(name, names)}`, { hint });
}

type Decision = "approved" | "denied";

/** Why this person may not give this answer. Undefined: they may. */
export function findConfiguredObjection(config: Config, approval: ApprovalView, name: string, decision: Decision) {
  const person = { id: name, roles: getApproverRoles(config, name) };
  return checkApprovalRights(getApprovalSettings(config), approval, person, decision);
}

type Advice = (name: string) => string;

/** Says who may give this answer. `toAdvice` says what to do with the name of such a person. */
export function suggestApprovers(config: Config, approval: ApprovalView, decision: Decision, toAdvice: Advice): string {
  const names = Object.keys(config.approvals.approvers);
  const canAnswer = (name: string) => findConfiguredObjection(config, approval, name, decision) === undefined;
  const able = names.filter(canAnswer);
  if (able.length > 0)
    return `Who may: ${able.join(", ")}. ${toAdvice(able.length === 1 ? String(able[0]) : "<name>")}`;
  // Without configured approvers, anyone may answer except the person the call is for.
  if (names.length === 0 && canAnswer("")) return `Somebody else must answer. ${toAdvice("<name>")}`;
  const roles = getConfiguredLevelRoles(config, approval).join(", ");
  return `No configured approver may: give one of them a role of ${roles} under approvals.approvers.`;
}

function getApprovalSettings(config: Config) {
  return toPolicyOptions(config).approvals ?? {};
}
