import { dirname } from "node:path";
import type { Command } from "commander";
import { escapeUnsafe, formatCount, listCharacterWarnings, toVisibleLine } from "../../../core/display-text.ts";
import { QmError } from "../../../core/errors.ts";
import type { JsonObject } from "../../../core/json.ts";
import type { InstallPlan } from "../../../mcp/install/install-plan.ts";
import type { InstalledServer } from "../../../mcp/provider/server-installer.ts";
import type { Workspace } from "../../../workspace/workspace.ts";
import { type Confirmation, createApprovedAnswer, identifyApprover, requireApproval } from "../../approver.ts";
import { type Context, inWorkspace, toCallerOptions, withWorkspace } from "../../context.ts";
import { getOutcomeExitCode } from "../../exit-codes.ts";
import { collectOption, examples } from "../../option-parsers.ts";
import { printOutcomeProblem } from "../../output.ts";
import { showProgress } from "../../terminal.ts";
import { type AddServerOptions, buildInstallCall } from "./install-call.ts";

export function addServersAddCommand(servers: Command, context: Context): void {
  servers
    .command("add")
    .summary("install a server: show the exact command, ask, test it, save it")
    .description(
      "Add an MCP server. Shows the exact command to run and asks for approval. Starts the server once, and saves it to the configuration, with its version pinned, only if it answers.",
    )
    .argument(
      "<what>",
      "npm:<package>[@version], pypi:<package>[@version], docker:<image:tag>, registry:<id>[@version], a GitHub or server URL, or a command",
    )
    .argument("[args...]", "arguments of the command; put -- before them")
    .option("--name <name>", "its name in the configuration (default: derived from its own name)")
    .option("--env <name=value>", `an environment variable; secrets as \${secret:NAME}; may be repeated`, collectOption)
    .option("--header <name=value>", "a header of every request to a URL; may be repeated", collectOption)
    .option("--input <name=value>", "an input that a registry server asks for; may be repeated", collectOption)
    .option("--choose <kind>", "which package of a registry server: npm, pypi, oci, mcpb, nuget, remote")
    .option("--cwd <folder>", "the working directory of a command")
    .option("--dry-run", "show what would be run, and stop")
    .option("-y, --yes", "do not ask; only with an approver's token in QM_APPROVER_TOKEN")
    .addHelpText(
      ...examples(
        "qm servers add npm:@modelcontextprotocol/server-memory",
        `qm servers add registry:io.github.owner/name --env 'API_KEY=\${secret:API_KEY}'`,
        "qm servers add https://mcp.example.com/mcp --name example",
        "qm servers add --name notes -- node notes-server.mjs --read-only",
      ),
    )
    .action(inWorkspace(context, "calls", runServersAdd));
}

export function addServersRemoveCommand(servers: Command, context: Context): void {
  servers
    .command("remove")
    .summary("stop a server and remove it from the configuration")
    .argument("<name>")
    .option("--keep-secrets", "do not delete the secrets that only this server uses")
    .option("-y, --yes", "do not ask; only with an approver's token in QM_APPROVER_TOKEN")
    .action((name: string, { keepSecrets, yes }: { readonly keepSecrets?: boolean; readonly yes?: boolean }) =>
      withWorkspace(context, "calls", async (workspace) => {
        const question = `Remove the server ${name}?`;
        const call = await approveCall(context, workspace, { question, done: "removed", yes });
        const args = { server: name, clear_secrets: keepSecrets !== true };
        const removed = await call("mcp__drop_server", args, `removing ${name}`);
        if (removed !== undefined) context.out.answer(removed, `${name} is removed.`);
      }),
    );
}

async function runServersAdd(
  context: Context,
  workspace: Workspace,
  what: string,
  commandArgs: readonly string[],
  options: AddServerOptions,
): Promise<void> {
  const { io, out } = context;
  const { servers, configPath } = workspace;
  const configFolder = configPath === undefined ? io.cwd : dirname(configPath);
  const { action, args, request } = buildInstallCall(what, commandArgs, options, { cwd: io.cwd, configFolder });
  const stopProgress = showProgress(io.stderr, "looking it up");
  const plan = await servers.installer.plan(request, io.signal).finally(stopProgress);
  if (options.dryRun && out.isJson) return out.json({ plan });
  showInstallPlan(context, plan);
  if (options.dryRun) return;
  if (plan.missing.length > 0) throw createIncompleteError(plan);
  servers.installer.requireFreeName(plan.name);
  const confirmation = { question: "Install it?", done: "installed", yes: options.yes };
  const call = await approveCall(context, workspace, confirmation);
  const installed = await call(action, { ...args, expect: plan.hash }, `starting ${plan.name}`);
  if (installed === undefined) return;
  if (out.isJson) return out.json(installed);
  const { server, actions, withheld, needsLogin } = installed as unknown as InstalledServer;
  if (needsLogin)
    return out.line(`${server} answers and is saved. Log in to get its tools: qm servers login ${server}`);
  out.line(`${server} works and is saved: ${formatCount(actions.length, "tool")}.`);
  if (withheld > 0) out.line(`${formatCount(withheld, "tool")} must be reviewed first: qm servers review ${server}`);
}

/** Asks for approval. Returns a function that invokes an action with it, and prints the problem if there is no result. */
async function approveCall(context: Context, workspace: Workspace, confirmation: Confirmation) {
  const { io, out, globals } = context;
  const person = await identifyApprover(context, workspace);
  await requireApproval(context, person, confirmation);
  return async (action: string, args: JsonObject, progress: string): Promise<unknown> => {
    const stopProgress = showProgress(io.stderr, progress);
    const caller = toCallerOptions(globals);
    const options = { caller, signal: io.signal, via: "cli", ...createApprovedAnswer(person) };
    const outcome = await workspace.quartermaster.invoke(action, args, options).finally(stopProgress);
    context.end(getOutcomeExitCode(outcome, io.signal.aborted));
    if (outcome.status === "done") return outcome.data;
    printOutcomeProblem(out, outcome);
    return undefined;
  };
}

/** With --json the answer is on stdout; the person who is asked reads the plan on stderr. */
function showInstallPlan({ out }: Context, { name, command, hosts, warnings, missing }: InstallPlan): void {
  const line = out.isJson ? out.note : out.line;
  line(`${out.bold("Server:")}   ${toVisibleLine(name)}`);
  line(`${out.bold("Runs:")}     ${toVisibleLine(command)}`);
  if (hosts.length > 0) line(`${out.bold("Reaches:")}  ${toVisibleLine(hosts.join(", "))}`);
  for (const warning of [...warnings, ...listCharacterWarnings(command).map((each) => `the command ${each}`)])
    line(`${out.warn("Careful:")}  ${escapeUnsafe(warning)}`);
  for (const { key, description } of missing) {
    const meaning = description === undefined ? "" : `: ${escapeUnsafe(description)}`;
    line(`${out.warn("Needs:")}    ${escapeUnsafe(key)}${meaning}`);
  }
}

function createIncompleteError({ missing, name }: InstallPlan): QmError {
  const options = missing.map(({ key, secretName, where }) =>
    secretName === undefined ? `--${where === "env" ? "env" : "input"} ${key}=...` : `qm secrets set ${secretName}`,
  );
  return new QmError("invalid_arguments", `${name} needs ${missing.map(({ key }) => key).join(", ")}`, {
    hint: `Nothing was installed. Give: ${options.join(", ")}; then add it again.`,
    details: { missing: missing.map(({ key, where }): JsonObject => ({ key, where })) },
  });
}
