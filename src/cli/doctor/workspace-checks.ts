import { stat } from "node:fs/promises";
import { listAllRoles, listLevelRoles } from "../../approval/approver-roles.ts";
import { formatCount, quoteShellWord, toOneLine } from "../../core/display-text.ts";
import { getErrorMessage } from "../../core/errors.ts";
import { omitUndefined } from "../../core/json.ts";
import { didYouMean } from "../../core/nearest.ts";
import { toWireName } from "../../core/wire-names.ts";
import type { ServerSpec } from "../../mcp/server-spec.ts";
import { toPolicyOptions } from "../../workspace/config-mapping.ts";
import { explainActorProblems, listUnaskedServers } from "../../workspace/unlisted-actions.ts";
import { findUnusedModels, openWorkspace, type Workspace, type WorkspaceOptions } from "../../workspace/workspace.ts";
import { reviewSkills } from "../commands/skills-trust.ts";
import type { Io } from "../context.ts";
import { checkClients } from "./client-checks.ts";
import { type DoctorCheck, fail, ok, warn } from "./environment-checks.ts";
import { checkGit } from "./git-checks.ts";
import { checkPeers } from "./peer-checks.ts";
import { checkPatterns, checkRules, checkWorlds } from "./policy-checks.ts";
import { checkProfileTokens, findTokenProblem, TOKEN_TODO } from "./token-checks.ts";

/** Checks what the configuration provides: providers, actors, servers, approvers, names, search. */
export async function checkCatalog(
  io: Io,
  options: WorkspaceOptions,
  fileRoot: string,
): Promise<readonly DoctorCheck[]> {
  const problems: string[] = [];
  try {
    const onProblem = (problem: string) => void problems.push(problem);
    const workspace = await openWorkspace({ ...options, purpose: "looking", onProblem });
    try {
      const actors = checkActors(workspace);
      const patterns = checkPatterns(workspace);
      const models = checkModels(workspace);
      const reported = new Set([...actors, ...patterns, ...models].map(({ message }) => message));
      return [
        ...(await checkProviders(workspace, fileRoot)),
        ...problems
          .filter((problem) => !reported.has(problem))
          .map((problem) => warn("provider", problem, "Fix this; everything else works.")),
        ...actors,
        ...patterns,
        ...(await checkWorlds(workspace)),
        ...checkRules(workspace),
        ...models,
        ...(await checkSkills(workspace)),
        ...workspace.servers.list().map((server) => checkServer(workspace, server)),
        ...(await checkSandbox(workspace)),
        ...(await checkPeers(workspace)),
        ...(await checkProfileTokens(workspace)),
        ...(await checkClients(io, workspace)),
        ...(await checkGit(workspace, options)),
        ...checkApprovalCategories(workspace),
        ...checkApprovers(workspace),
        checkWireNames(workspace),
        await checkSearch(workspace),
        ...checkRecall(workspace),
      ];
    } finally {
      await workspace.close();
    }
  } catch (thrown) {
    return [fail("actions", getErrorMessage(thrown), "Fix the configuration.")];
  }
}

async function checkProviders({ quartermaster, config }: Workspace, fileRoot: string): Promise<readonly DoctorCheck[]> {
  const { enabled, readOnly } = config.providers.file;
  const isFolder = (await stat(fileRoot).catch(() => undefined))?.isDirectory() ?? false;
  const reach = enabled ? [ok("reach", "file actions reach neither the configuration nor the ledger")] : [];
  if (enabled && !isFolder) {
    const message = `file: ${fileRoot} is not a folder`;
    return [fail("provider", message, "Create it, or change providers.file.root."), ...reach];
  }
  const counts = new Map<string, number>();
  for (const { category } of quartermaster.inventory()) counts.set(category, (counts.get(category) ?? 0) + 1);
  const providers = [...counts].map(([category, count]) => {
    const where = category === "file" ? ` in ${fileRoot}${readOnly ? ", read only" : ""}` : "";
    return ok("provider", `${category}: ${formatCount(count, "action")}${where}`);
  });
  if (providers.length > 0) return [...providers, ...reach];
  return [warn("provider", "none: there is nothing to call", "Add a server with `qm servers add`, or enable one.")];
}

function checkActors({ quartermaster, config, servers }: Workspace): readonly DoctorCheck[] {
  const todo = "Correct the name under actors; `qm list` shows the names.";
  const unasked = listUnaskedServers(servers.list(), config);
  const problems = explainActorProblems(quartermaster.actorProblems(), unasked, config);
  const unknown = problems.map((problem) => fail("actors", problem, todo));
  if (unknown.length > 0) return unknown;
  return Object.keys(config.actors).map((actor) => {
    const { length } = quartermaster.names({ actor });
    return length === 0
      ? warn("actor", `${actor} sees no action`, `\`qm explain <action> --actor ${actor}\` shows what hides one.`)
      : ok("actor", `${actor} sees ${formatCount(length, "action")}`);
  });
}

/** Checks the references and URLs. No model is asked: it may cost money. */
function checkModels({ config, models }: Workspace): readonly DoctorCheck[] {
  const found = Object.entries(models).map(([name, model]) => {
    const problem = model.findProblem?.();
    if (problem === undefined) return ok("model", `${name}: ${model.name}`);
    const named = Object.entries(config.actors).flatMap(([actor, own]) => (own.model === name ? [actor] : []));
    const users = [...(name === "default" ? ["skills", "actors that name no model"] : []), ...named];
    const todo = `Used by: ${users.join(", ") || "nothing"}. \`qm secrets set <name>\` stores a missing key, \`qm models test ${name}\` sends a request.`;
    return warn("model", `${name}: ${problem}`, todo);
  });
  const unused = findUnusedModels(config).map((problem) =>
    warn("model", problem, "`qm models list` shows the models."),
  );
  return [...found, ...unused, ...checkActorModels(config)];
}

/** Finds settings for the model of an actor that has none. */
function checkActorModels({ actors, models }: Workspace["config"]): readonly DoctorCheck[] {
  if (Object.hasOwn(models, "default")) return [];
  return Object.entries(actors).flatMap(([name, { model, instructions, tier, maxSteps }]) => {
    const [setting] = Object.keys(omitUndefined({ instructions, tier, max_steps: maxSteps }));
    if (model !== undefined || setting === undefined) return [];
    const message = `${name} has ${setting}, but no model: there is no models.default`;
    return [warn("actor", message, `Add models.default, or set actors.${name}.model.`)];
  });
}

/** Finds skills whose calls are refused until a person decides. One that a person revoked needs no decision. */
async function checkSkills(workspace: Workspace): Promise<readonly DoctorCheck[]> {
  const { reviewed } = await reviewSkills(workspace);
  return reviewed
    .filter(({ review }) => review.state === "changed" || review.state === "suspicious")
    .map(({ skill, review }) => {
      const step = `qm skills trust ${quoteShellWord(skill.name)}`;
      return warn("skill", toOneLine(`${skill.name}: ${review.reason}`), step);
    });
}

type ServerView = ReturnType<Workspace["servers"]["list"]>[number];

/** Checks a server without starting it. */
function checkServer({ fill }: Workspace, { spec, state, tools, withheld }: ServerView): DoctorCheck {
  const { name } = spec;
  const missing = findMissingReference(spec, fill);
  if (missing !== undefined) return warn("server", `${name}: ${missing}`, "Without it the server cannot start.");
  if (withheld > 0)
    return warn("server", `${name}: ${formatCount(withheld, "definition")} withheld`, `qm servers review ${name}`);
  if (state === "configured") return warn("server", `${name}: its tools are not known yet`, `qm servers start ${name}`);
  return ok("server", `${name}: ${formatCount(tools, "tool")}, ${state}`);
}

/** The error for the first reference to a missing variable or secret. */
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

/** Tries to break out, and starts a program with each configured reach. */
async function checkSandbox({ config, findSandboxProblems }: Workspace): Promise<readonly DoctorCheck[]> {
  const { enabled, unisolated } = config.providers.exec;
  const todo = "Remove providers.exec.unisolated to run programs in a sandbox.";
  const open = enabled && unisolated ? [warn("sandbox", "exec runs programs without a sandbox", todo)] : [];
  const problems = await findSandboxProblems();
  if (problems === undefined) return open;
  if (problems.length === 0) return [...open, ok("sandbox", "programs are isolated by bubblewrap")];
  const repair = "What needs this does not work until it is repaired; docs/guides/run-programs.md has the steps.";
  return [...open, ...problems.map((problem) => fail("sandbox", problem, repair))];
}

function checkApprovalCategories({ config, quartermaster }: Workspace): readonly DoctorCheck[] {
  const known = new Set(quartermaster.inventory().map(({ category }) => category));
  return Object.keys(config.approvals.categories)
    .filter((category) => !known.has(category))
    .map((category) => {
      const message = `approvals.categories: there is no category ${JSON.stringify(category)}`;
      const todo = `It has no effect. Categories: ${[...known].join(", ")}.`;
      return warn("approval", `${message}${didYouMean(category, known)}`, todo);
    });
}

function checkApprovers(workspace: Workspace): readonly DoctorCheck[] {
  const known = listKnownRoles(workspace);
  return Object.entries(workspace.config.approvals.approvers).flatMap(([name, { roles, token }]) => {
    const unused = roles
      .filter((role) => !known.has(role))
      .map((role) => {
        const message = `${name}: no level uses the role ${JSON.stringify(role)}${didYouMean(role, known)}`;
        return warn("approver", message, "Correct it, or add it to approvals.levels.");
      });
    const problem = findTokenProblem(workspace, `approvals.approvers.${name}.token`, token);
    const found = [...unused, ...(problem === undefined ? [] : [warn("approver", `${name}: ${problem}`, TOKEN_TODO)])];
    return found.length > 0 ? found : [ok("approver", `${name}: ${formatCount(roles.length, "role")}`)];
  });
}

/** The roles that may approve at some level, and `viewer`. */
function listKnownRoles({ config }: Workspace): ReadonlySet<string> {
  const { approvals: settings = {} } = toPolicyOptions(config);
  // A level that is used but not defined has default roles.
  const used = [...config.policy.rules, ...Object.values(config.approvals.categories)].flatMap((rule) =>
    typeof rule === "object" ? (rule.level ?? []) : [],
  );
  return new Set(["viewer", ...listAllRoles(settings), ...used.flatMap((level) => listLevelRoles(settings, level))]);
}

/** Names that model providers do not accept are sent rewritten. They come from servers, so this is only a fact. */
function checkWireNames({ quartermaster }: Workspace): DoctorCheck {
  const names = quartermaster.inventory().map(({ name }) => name);
  const rewritten = names.filter((name) => toWireName(name) !== name);
  if (rewritten.length === 0) return ok("names", "models get every name unchanged");
  return ok("names", `models get ${rewritten.length} of ${names.length} names rewritten, for example ${rewritten[0]}`);
}

async function checkSearch({ quartermaster, config }: Workspace): Promise<DoctorCheck> {
  if (!config.search.enabled) return ok("search", "switched off");
  const { class: embedder } = config.search.embedder;
  if (embedder === undefined || embedder === null) return ok("search", "by words");
  await quartermaster.embeddings.settled();
  const { state, reason = "vectors are missing", hint } = quartermaster.embeddings.status();
  if (state === "ready") return ok("search", `by words and by meaning (${embedder})`);
  return warn("search", `by words only: ${reason}`, hint ?? "Run `qm embeddings build`.");
}

function checkRecall({ config: { providers, search } }: Workspace): readonly DoctorCheck[] {
  const { rag, file, web } = providers;
  if (!rag.enabled) return [];
  if (!file.enabled && !web.enabled)
    return [warn("recall", "there are no documents to index", "Set providers.file.enabled or providers.web.enabled.")];
  const byMeaning = search.embedder.class !== undefined && search.embedder.class !== null;
  if (byMeaning) return [ok("recall", "by words and by meaning")];
  return [ok("recall", "by words only; with search.embedder.class also by meaning")];
}
