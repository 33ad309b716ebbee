import type { Approvals, ApprovalView } from "../../../approval/approval.ts";
import { checkApprovalRights, listLevelRoles } from "../../../approval/approver-roles.ts";
import type { Config } from "../../../config/schema.ts";
import { QmError } from "../../../core/errors.ts";
import { quoteName } from "../../../core/names.ts";
import { didYouMean } from "../../../core/nearest.ts";
import { getApproverRoles } from "../../../http/approvers.ts";
import { toPolicyOptions } from "../../../workspace/config-mapping.ts";

const WHOLE = 36;
const SHORTEST = 6;
const PAGE = 1_000;

/** The one approval with that id, or whose id begins like that. Throws `not_found`, and where there are several. */
export async function findApproval(approvals: Approvals, text: string): Promise<ApprovalView> {
  if (text.length >= WHOLE) return approvals.get(text);
  if (text.length < SHORTEST)
    throw new QmError("invalid_arguments", `${quoteName(text)} is too short to tell approvals apart`, {
      hint: `Give at least ${SHORTEST} characters of the id.`,
    });
  const found: ApprovalView[] = [];
  for await (const approval of iterateApprovals(approvals)) if (approval.id.startsWith(text)) found.push(approval);
  const [one, another] = found;
  if (one === undefined)
    throw new QmError("not_found", `no approval begins with ${quoteName(text)}`, {
      hint: "`qm approvals list --all` shows what there is.",
    });
  if (another === undefined) return approvals.get(one.id);
  throw new QmError("invalid_arguments", `the ids of ${found.length} approvals begin with ${quoteName(text)}`, {
    details: { suggestions: found.slice(-5).map(({ id }) => id) },
    hint: "Give more of the id.",
  });
}

async function* iterateApprovals(approvals: Approvals): AsyncGenerator<ApprovalView> {
  let after: string | undefined;
  for (;;) {
    const page = await approvals.list({ limit: PAGE, ...(after === undefined ? {} : { after }) });
    yield* page;
    if (page.length < PAGE) return;
    after = page.at(-1)?.id;
  }
}

/** The roles that may agree to it. */
export function getConfiguredLevelRoles(config: Config, { level }: Pick<ApprovalView, "level">): readonly string[] {
  return listLevelRoles(getApprovalSettings(config), level);
}

/** The roles of somebody who was named. Throws where people are configured and this is none of them. */
export function requireConfiguredRoles(config: Config, name: string): readonly string[] {
  const roles = getApproverRoles(config, name);
  if (roles.length > 0) return roles;
  const names = listApproverNames(config);
  throw new QmError("invalid_arguments", `${quoteName(name)} is no approver${didYouMean(name, names)}`, {
    hint: `approvals.approvers has: ${names.join(", ")}.`,
  });
}

/** Why somebody could not answer so; undefined: they could. */
export function findConfiguredObjection(
  config: Config,
  approval: ApprovalView,
  name: string,
  decision: "approved" | "denied",
): string | undefined {
  return checkApprovalRights(
    getApprovalSettings(config),
    approval,
    { id: name, roles: getApproverRoles(config, name) },
    decision,
  );
}

/** Who could answer, where somebody may not. `then` says what to do with one of the names. */
export function suggestApprovers(
  config: Config,
  approval: ApprovalView,
  decision: "approved" | "denied",
  then: (name: string) => string,
): string {
  const names = listApproverNames(config);
  const able = names.filter((name) => findConfiguredObjection(config, approval, name, decision) === undefined);
  if (able.length > 0) return `Who may: ${able.join(", ")}. ${then(able.length === 1 ? String(able[0]) : "<name>")}`;
  // Where nobody is named, anybody but the one it is for.
  if (names.length === 0 && findConfiguredObjection(config, approval, "", decision) === undefined)
    return `Somebody else must answer. ${then("<name>")}`;
  const roles = getConfiguredLevelRoles(config, approval).join(", ");
  return `No approver of the configuration may: give somebody one of the roles ${roles} under approvals.approvers.`;
}

function listApproverNames({ approvals }: Config): readonly string[] {
  return Object.keys(approvals.approvers);
}

function getApprovalSettings(config: Config) {
  return toPolicyOptions(config).approvals ?? {};
}
