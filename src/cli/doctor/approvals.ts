import { rolesAt, rolesOfLevels } from "../../approval/who-may.ts";
import { messageOf } from "../../core/errors.ts";
import { didYouMean } from "../../core/nearest.ts";
import { SHORTEST_TOKEN } from "../../http/approvers.ts";
import type { Workspace } from "../../workspace.ts";
import { policyOf } from "../../workspace-options.ts";
import { counted } from "../text.ts";
import { type Check, ok, warn } from "./check.ts";

const about = "approver";

/** What of the settings for approvals leads nowhere. */
export function checkApprovals(workspace: Workspace): readonly Check[] {
  return [...checkCategories(workspace), ...checkPeople(workspace)];
}

function checkCategories({ config, quartermaster }: Workspace): readonly Check[] {
  const known = new Set(quartermaster.inventory().map(({ category }) => category));
  return Object.keys(config.approvals.categories)
    .filter((category) => !known.has(category))
    .map((category) =>
      warn(
        "approval",
        `approvals.categories: there is no category ${JSON.stringify(category)}${didYouMean(category, known)}`,
        `Nobody is asked because of it. Categories: ${[...known].join(", ")}.`,
      ),
    );
}

function checkPeople(workspace: Workspace): readonly Check[] {
  const roles = rolesIn(workspace);
  return Object.entries(workspace.config.approvals.approvers).flatMap(([name, { roles: own, token }]) => {
    const idle = own.filter((role) => !roles.has(role));
    const problem = token === undefined ? undefined : tokenProblem(workspace, name, token);
    const found = [
      ...idle.map((role) =>
        warn(
          about,
          `${name}: no level takes the role ${JSON.stringify(role)}${didYouMean(role, roles)}`,
          "Correct it, or name it in approvals.levels.",
        ),
      ),
      ...(problem === undefined
        ? []
        : [warn(about, `${name}: ${problem}`, "Without it nobody answers as them over HTTP.")]),
    ];
    return found.length > 0 ? found : [ok(about, `${name}: ${counted(own.length, "role")}`)];
  });
}

/** Roles that may agree to something, and the one that only looks. */
function rolesIn({ config }: Workspace): ReadonlySet<string> {
  const { approvals: settings = {} } = policyOf(config);
  // A level that is only used, and defined nowhere, takes roles as well.
  const used = [...config.policy.rules, ...Object.values(config.approvals.categories)].flatMap((rule) =>
    typeof rule === "object" ? (rule.level ?? []) : [],
  );
  return new Set(["viewer", ...rolesOfLevels(settings), ...used.flatMap((level) => rolesAt(settings, level))]);
}

function tokenProblem({ fill }: Workspace, name: string, token: string): string | undefined {
  try {
    const { length } = fill(token, `approvals.approvers.${name}.token`);
    return length < SHORTEST_TOKEN ? `the token has fewer than ${SHORTEST_TOKEN} characters` : undefined;
  } catch (thrown) {
    return messageOf(thrown);
  }
}
