import { dirname } from "node:path";
import type { Command } from "commander";
import { escapeUnsafe, formatCount, listCharacterWarnings, toVisibleLine } from "../../../core/display-text.ts";
import { QmError } from "../../../core/errors.ts";
import type { JsonObject } from "../../../core/json.ts";
import type { InstallPlan } from "../../../mcp/install/install-plan.ts";
import type { InstalledServer } from "../../../mcp/provider/server-installer.ts";
import type { Workspace } from "../../../workspace/workspace.ts";
import { createApprovedAnswer, identifyApprover, requireYes } from "../../approver.ts";
import { type CommandContext, toCallerOptions, withWorkspace } from "../../context.ts";
import { getOutcomeExitCode } from "../../exit-codes.ts";
import { collectOption, formatExamples } from "../../option-parsers.ts";
import { printOutcomeProblem } from "../../output.ts";
import { showProgress } from "../../terminal.ts";
import { type AddServerOptions, buildInstallCall } from "./install-call.ts";

export function addServersRemoveCommand(servers: Command, context: CommandContext): void {
  servers
    .command("remove")
    .summary("stop a server and take it out of the configuration")
    .argument("<name>")
    .option("--keep-secrets", "do not forget the secrets that only this server uses")
    .option("-y, --yes", "do not ask; only with an approver's token in QM_APPROVER_TOKEN")
    .action((name: string, options: { readonly keepSecrets?: boolean; readonly yes?: boolean }) =>
      withWorkspace(context, "calls", async (workspace) => {
        const { quartermaster } = workspace;
        const { io, out, globals } = context;
        const person = await identifyApprover(context, workspace);
        const question = `Remove the server ${name}?`;
        await requireYes(context, person, { question, done: "removed", yes: options.yes });
        const outcome = await quartermaster.invoke(
          "mcp__drop_server",
          { server: name, clear_secrets: options.keepSecrets !== true },
          { caller: toCallerOptions(globals), signal: io.signal, via: "cli", ...createApprovedAnswer(person) },
        );
        context.end(getOutcomeExitCode(outcome, io.signal.aborted));
        if (outcome.status !== "done") return printOutcomeProblem(out, outcome);
        if (out.isJson) return out.json(outcome.data);
        out.line(`${name} is removed.`);
      }),
    );
}

export function addServersAddCommand(servers: Command, context: CommandContext): void {
  servers
    .command("add")
    .summary("install a server: shows the exact command, asks, tries it, then writes it down")
    .description(
      "Add an MCP server. What exactly would be run is shown and must be agreed to; the server is started once, and only when it answers is it written into the configuration, with its version pinned.",
    )
    .argument(
      "<what>",
      "npm:<package>[@version], pypi:<package>[@version], docker:<image:tag>, registry:<id>[@version], a GitHub or server URL, or a command",
    )
    .argument("[args...]", "arguments of the command; put -- before them")
    .option("--name <name>", "what to call it; made from its own name when absent")
    .option("--env <name=value>", `one of its variables; secrets as \${secret:NAME}; may be repeated`, collectOption)
    .option("--header <name=value>", "sent with every request to a URL; may be repeated", collectOption)
    .option("--input <name=value>", "what a server of the registry asks for; may be repeated", collectOption)
    .option("--choose <kind>", "which of a registry server's packages: npm, pypi, oci, mcpb, nuget, remote")
    .option("--cwd <folder>", "the working directory of a command")
    .option("--dry-run", "show what would be run, and stop")
    .option("-y, --yes", "do not ask; only with an approver's token in QM_APPROVER_TOKEN")
    .addHelpText(
      "after",
      formatExamples(
        "qm servers add npm:@modelcontextprotocol/server-memory",
        `qm servers add registry:io.github.owner/name --env 'API_KEY=\${secret:API_KEY}'`,
        "qm servers add https://mcp.example.com/mcp --name example",
        "qm servers add --name notes -- node notes-server.mjs --read-only",
      ),
    )
    .action((what: string, args: readonly string[], options: AddServerOptions) =>
      withWorkspace(context, "calls", (workspace) => runServersAdd(context, workspace, what, args, options)),
    );
}

async function runServersAdd(
  context: CommandContext,
  workspace: Workspace,
  what: string,
  given: readonly string[],
  options: AddServerOptions,
): Promise<void> {
  const { io, out, globals } = context;
  const { quartermaster, servers, configPath } = workspace;
  const { action, args, request } = buildInstallCall(what, given, options, {
    cwd: io.cwd,
    configFolder: configPath === undefined ? io.cwd : dirname(configPath),
  });
  const looking = showProgress(io.stderr, "looking it up");
  const plan = await servers.installer.plan(request, io.signal).finally(looking);
  if (options.dryRun) return out.isJson ? out.json({ plan }) : showInstallPlan(context, plan);
  showInstallPlan(context, plan);
  if (plan.missing.length > 0) throw createIncompleteError(plan);
  const person = await identifyApprover(context, workspace);
  await requireYes(context, person, { question: "Install it?", done: "installed", yes: options.yes });

  const wipe = showProgress(io.stderr, `starting ${plan.name}`);
  const outcome = await quartermaster.invoke(
    action,
    { ...args, expect: plan.hash },
    { caller: toCallerOptions(globals), signal: io.signal, via: "cli", ...createApprovedAnswer(person) },
  );
  wipe();
  context.end(getOutcomeExitCode(outcome, io.signal.aborted));
  if (outcome.status !== "done") return printOutcomeProblem(out, outcome);
  if (out.isJson) return out.json(outcome.data);
  const { server, actions, withheld, needsLogin } = outcome.data as unknown as InstalledServer;
  if (needsLogin) {
    out.line(`${server} answers and is written down; its tools are known after a login: qm servers login ${server}`);
    return;
  }
  out.line(`${server} works and is written down: ${formatCount(actions.length, "tool")}.`);
  if (withheld > 0) out.line(`${formatCount(withheld, "tool")} must be looked at first: qm servers review ${server}`);
}

/** With --json the answer is on stdout; what it is about is still shown to whoever is asked. */
function showInstallPlan({ out }: CommandContext, { name, command, hosts, warnings, missing }: InstallPlan): void {
  const line = out.isJson ? out.note : out.line;
  line(`${out.bold("Server:")}   ${toVisibleLine(name)}`);
  line(`${out.bold("Runs:")}     ${toVisibleLine(command)}`);
  if (hosts.length > 0) line(`${out.bold("Reaches:")}  ${toVisibleLine(hosts.join(", "))}`);
  for (const warning of [...warnings, ...listCharacterWarnings(command).map((each) => `the command ${each}`)])
    line(`${out.warn("Careful:")}  ${escapeUnsafe(warning)}`);
  for (const { key, description } of missing)
    line(
      `${out.warn("Needs:")}    ${escapeUnsafe(key)}${description === undefined ? "" : `: ${escapeUnsafe(description)}`}`,
    );
}

function createIncompleteError({ missing, name }: InstallPlan): QmError {
  const how = missing.map(({ key, store, where }) => store ?? `--${where === "env" ? "env" : "input"} ${key}=...`);
  return new QmError("invalid_arguments", `${name} needs ${missing.map(({ key }) => key).join(", ")}`, {
    hint: `Nothing was installed. Give: ${how.join(", ")}; then add it again.`,
    details: { missing: missing.map((each): JsonObject => ({ key: each.key, where: each.where })) },
  });
}
