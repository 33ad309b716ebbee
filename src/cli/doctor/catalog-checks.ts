import { formatCount } from "../../core/display-text.ts";
import { stat } from "node:fs/promises";
import { listAllRoles, listLevelRoles } from "../../approval/approver-roles.ts";
import { getErrorMessage } from "../../core/errors.ts";
import { matchesGlob } from "../../core/name-patterns.ts";
import { didYouMean } from "../../core/nearest.ts";
import { MIN_TOKEN_LENGTH } from "../../http/approvers.ts";
import type { ServerSpec } from "../../mcp/server-spec.ts";
import { toWireName } from "../../surface/native-tools.ts";
import { toPolicyOptions } from "../../workspace/config-mapping.ts";
import { openWorkspace, type Workspace, type WorkspaceOptions } from "../../workspace/workspace.ts";
import type { DoctorPaths } from "./environment-checks.ts";
import { type DoctorCheck, fail, ok, warn } from "./environment-checks.ts";

/** What can be told of MCP servers and clients without starting any. */
function checkServers(workspace: Workspace): readonly DoctorCheck[] {
  return [...workspace.servers.list().flatMap((view) => checkServer(workspace, view)), ...checkProfiles(workspace)];
}

function checkServer(
  { fill }: Workspace,
  { spec, state, tools, withheld }: ReturnType<Workspace["servers"]["list"]>[number],
): readonly DoctorCheck[] {
  const about = "server";
  const missing = findMissingReference(spec, fill);
  if (missing !== undefined) return [warn(about, `${spec.name}: ${missing}`, "Without it the server cannot start.")];
  if (withheld > 0)
    return [
      warn(about, `${spec.name}: ${formatCount(withheld, "definition")} withheld`, `qm servers review ${spec.name}`),
    ];
  if (state === "configured")
    return [warn(about, `${spec.name}: its tools are not known yet`, `qm servers start ${spec.name}`)];
  return [ok(about, `${spec.name}: ${formatCount(tools, "tool")}, ${state}`)];
}

/** The first reference that leads nowhere. */
function findMissingReference({ launch }: ServerSpec, fill: Workspace["fill"]): string | undefined {
  const texts =
    launch.kind === "stdio"
      ? [launch.command, ...launch.args, ...Object.values(launch.env)]
      : [launch.url, ...Object.values(launch.headers)];
  try {
    for (const text of texts) fill(text, "a reference");
    return undefined;
  } catch (thrown) {
    return getErrorMessage(thrown);
  }
}

function checkProfiles({ config, servers }: Workspace): readonly DoctorCheck[] {
  const names = servers.list().map(({ spec }) => spec.name);
  return Object.entries(config.gateway.profiles).flatMap(([profile, { pass_through }]) =>
    pass_through
      .filter((pattern) => !names.some((name) => matchesGlob(pattern, name)))
      .map((pattern) =>
        warn("profile", `${profile}: no server fits ${JSON.stringify(pattern)}`, "Correct gateway.profiles."),
      ),
  );
}

const APPROVER = "approver";

/** What of the settings for approvals leads nowhere. */
function checkApprovals(workspace: Workspace): readonly DoctorCheck[] {
  return [...checkCategories(workspace), ...checkPeople(workspace)];
}

function checkCategories({ config, quartermaster }: Workspace): readonly DoctorCheck[] {
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

function checkPeople(workspace: Workspace): readonly DoctorCheck[] {
  const roles = listKnownRoles(workspace);
  return Object.entries(workspace.config.approvals.approvers).flatMap(([name, { roles: own, token }]) => {
    const idle = own.filter((role) => !roles.has(role));
    const problem = token === undefined ? undefined : findTokenProblem(workspace, name, token);
    const found = [
      ...idle.map((role) =>
        warn(
          APPROVER,
          `${name}: no level takes the role ${JSON.stringify(role)}${didYouMean(role, roles)}`,
          "Correct it, or name it in approvals.levels.",
        ),
      ),
      ...(problem === undefined
        ? []
        : [warn(APPROVER, `${name}: ${problem}`, "Without it nobody answers as them over HTTP.")]),
    ];
    return found.length > 0 ? found : [ok(APPROVER, `${name}: ${formatCount(own.length, "role")}`)];
  });
}

/** Roles that may agree to something, and the one that only looks. */
function listKnownRoles({ config }: Workspace): ReadonlySet<string> {
  const { approvals: settings = {} } = toPolicyOptions(config);
  // A level that is only used, and defined nowhere, takes roles as well.
  const used = [...config.policy.rules, ...Object.values(config.approvals.categories)].flatMap((rule) =>
    typeof rule === "object" ? (rule.level ?? []) : [],
  );
  return new Set(["viewer", ...listAllRoles(settings), ...used.flatMap((level) => listLevelRoles(settings, level))]);
}

function findTokenProblem({ fill }: Workspace, name: string, token: string): string | undefined {
  try {
    const { length } = fill(token, `approvals.approvers.${name}.token`);
    return length < MIN_TOKEN_LENGTH ? `the token has fewer than ${MIN_TOKEN_LENGTH} characters` : undefined;
  } catch (thrown) {
    return getErrorMessage(thrown);
  }
}

/** What the configuration gives: providers, actors, names. */
export async function checkCatalog(
  options: WorkspaceOptions,
  { fileRoot }: DoctorPaths,
): Promise<readonly DoctorCheck[]> {
  const problems: string[] = [];
  try {
    const workspace = await openWorkspace({
      ...options,
      purpose: "looking",
      onProblem: (problem) => problems.push(problem),
    });
    try {
      const actors = checkActors(workspace);
      const told = new Set(actors.map(({ message }) => message));
      return [
        ...(await checkProviders(workspace, fileRoot)),
        ...checkReach(workspace),
        ...problems
          .filter((problem) => !told.has(problem))
          .map((problem) => warn("provider", problem, "Mend what it names; the rest works.")),
        ...actors,
        ...checkServers(workspace),
        ...checkApprovals(workspace),
        checkWireNames(workspace),
        await checkSearch(workspace),
      ];
    } finally {
      await workspace.close();
    }
  } catch (thrown) {
    return [fail("actions", getErrorMessage(thrown), "Mend the configuration.")];
  }
}

async function checkProviders({ quartermaster, config }: Workspace, fileRoot: string): Promise<readonly DoctorCheck[]> {
  if (!config.providers.file.enabled)
    return [warn("provider", "none: there is nothing to call", "Set providers.file.enabled to true.")];
  const isFolder = await stat(fileRoot).then(
    (stats) => stats.isDirectory(),
    () => false,
  );
  if (!isFolder)
    return [fail("provider", `file: ${fileRoot} is not a folder`, "Make it, or change providers.file.root.")];
  const what = config.providers.file.read_only ? ", reading only" : "";
  const counts = new Map<string, number>();
  for (const { category } of quartermaster.inventory()) counts.set(category, (counts.get(category) ?? 0) + 1);
  return [...counts].map(([category, count]) =>
    ok(
      "provider",
      `${category}: ${formatCount(count, "action")}${category === "file" ? ` in ${fileRoot}${what}` : ""}`,
    ),
  );
}

/** Said, not looked up: it holds for every workspace that opens. */
function checkReach({ config }: Workspace): readonly DoctorCheck[] {
  if (!config.providers.file.enabled) return [];
  return [ok("reach", "file actions reach neither the configuration nor the ledger")];
}

function checkActors({ quartermaster, config }: Workspace): readonly DoctorCheck[] {
  const unknown = quartermaster
    .actorProblems()
    .map((problem) => fail("actors", problem, "Correct the name under actors; `qm list` shows the names."));
  if (unknown.length > 0) return unknown;
  return Object.keys(config.actors).map((actor) => {
    const { length } = quartermaster.names({ actor });
    return length === 0
      ? warn("actor", `${actor} sees no action`, `\`qm explain <action> --actor ${actor}\` shows what hides one.`)
      : ok("actor", `${actor} sees ${formatCount(length, "action")}`);
  });
}

/** A name that no provider of models takes as it is travels under another one, which models read less well. */
function checkWireNames({ quartermaster }: Workspace): DoctorCheck {
  const names = quartermaster.inventory().map(({ name }) => name);
  const rewritten = names.filter((name) => toWireName(name) !== name);
  if (rewritten.length === 0) return ok("names", "every name can go to a model as it is");
  return warn(
    "names",
    `${rewritten.length} of ${names.length} go to models under another name, such as ${rewritten[0]}`,
    "Give them at most 64 letters, digits, _ and -, where they are yours.",
  );
}

async function checkSearch({ quartermaster, config }: Workspace): Promise<DoctorCheck> {
  if (!config.search.enabled) return ok("search", "switched off");
  const { class: kind } = config.search.embedder;
  if (kind === undefined || kind === null) return ok("search", "by words");
  await quartermaster.embeddings.settled();
  const { state, reason = "not all vectors are there", hint } = quartermaster.embeddings.status();
  if (state === "ready") return ok("search", `by words and by meaning (${kind})`);
  return warn("search", `by words only: ${reason}`, hint ?? "Run `qm embeddings build`.");
}
