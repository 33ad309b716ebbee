import { dirname } from "node:path";
import type { Command } from "commander";
import { QmError } from "../../../core/errors.ts";
import type { JsonObject } from "../../../core/json.ts";
import { characterWarnings, visible } from "../../../core/visible.ts";
import type { Installed } from "../../../mcp/provider/desk.ts";
import type { InstallPlan } from "../../../mcp/registry/install-plan.ts";
import type { Workspace } from "../../../workspace.ts";
import { type Context, callerOf, withWorkspace } from "../../context.ts";
import { exitCodeOfOutcome } from "../../exit-codes.ts";
import { collected, examples } from "../../options.ts";
import { outcomeProblem } from "../../outcome-problem.ts";
import { personAt, requireYes } from "../../person.ts";
import { showProgress } from "../../progress.ts";
import { counted, plain } from "../../text.ts";
import { agreedBy } from "./agreement.ts";
import { type AddOptions, installCall } from "./install-call.ts";

export function addAdd(servers: Command, context: Context): void {
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
    .option("--env <name=value>", `one of its variables; secrets as \${secret:NAME}; may be repeated`, collected)
    .option("--header <name=value>", "sent with every request to a URL; may be repeated", collected)
    .option("--input <name=value>", "what a server of the registry asks for; may be repeated", collected)
    .option("--choose <kind>", "which of a registry server's packages: npm, pypi, oci, mcpb, nuget, remote")
    .option("--cwd <folder>", "the working directory of a command")
    .option("--dry-run", "show what would be run, and stop")
    .option("-y, --yes", "do not ask; only with an approver's token in QM_APPROVER_TOKEN")
    .addHelpText(
      "after",
      examples(
        "qm servers add npm:@modelcontextprotocol/server-memory",
        `qm servers add registry:io.github.owner/name --env 'API_KEY=\${secret:API_KEY}'`,
        "qm servers add https://mcp.example.com/mcp --name example",
        "qm servers add --name notes -- node notes-server.mjs --read-only",
      ),
    )
    .action((what: string, args: readonly string[], options: AddOptions) =>
      withWorkspace(context, "calls", (workspace) => add(context, workspace, what, args, options)),
    );
}

async function add(
  context: Context,
  workspace: Workspace,
  what: string,
  given: readonly string[],
  options: AddOptions,
): Promise<void> {
  const { io, out, globals } = context;
  const { quartermaster, servers, configPath } = workspace;
  const { action, args, request } = installCall(what, given, options, {
    cwd: io.cwd,
    configFolder: configPath === undefined ? io.cwd : dirname(configPath),
  });
  const looking = showProgress(io.stderr, "looking it up");
  const plan = await servers.desk.plan(request, io.signal).finally(looking);
  if (options.dryRun) return out.isJson ? out.json({ plan }) : showPlan(context, plan);
  showPlan(context, plan);
  if (plan.missing.length > 0) throw incomplete(plan);
  const person = await personAt(context, workspace);
  await requireYes(context, person, { question: "Install it?", done: "installed", yes: options.yes });

  const wipe = showProgress(io.stderr, `starting ${plan.name}`);
  const outcome = await quartermaster.invoke(
    action,
    { ...args, expect: plan.hash },
    { caller: callerOf(globals), signal: io.signal, via: "cli", ...agreedBy(person) },
  );
  wipe();
  context.end(exitCodeOfOutcome(outcome, io.signal.aborted));
  if (outcome.status !== "done") return outcomeProblem(out, outcome);
  if (out.isJson) return out.json(outcome.data);
  const { server, actions, withheld, needsLogin } = outcome.data as unknown as Installed;
  if (needsLogin) {
    out.line(`${server} answers and is written down; its tools are known after a login: qm servers login ${server}`);
    return;
  }
  out.line(`${server} works and is written down: ${counted(actions.length, "tool")}.`);
  if (withheld > 0) out.line(`${counted(withheld, "tool")} must be looked at first: qm servers review ${server}`);
}

/** With --json the answer is on stdout; what it is about is still shown to whoever is asked. */
function showPlan({ out }: Context, { name, command, hosts, warnings, missing }: InstallPlan): void {
  const line = out.isJson ? out.note : out.line;
  line(`${out.bold("Server:")}   ${visible(name)}`);
  line(`${out.bold("Runs:")}     ${visible(command)}`);
  if (hosts.length > 0) line(`${out.bold("Reaches:")}  ${visible(hosts.join(", "))}`);
  for (const warning of [...warnings, ...characterWarnings(command).map((each) => `the command ${each}`)])
    line(`${out.warn("Careful:")}  ${plain(warning)}`);
  for (const { key, description } of missing)
    line(`${out.warn("Needs:")}    ${plain(key)}${description === undefined ? "" : `: ${plain(description)}`}`);
}

function incomplete({ missing, name }: InstallPlan): QmError {
  const how = missing.map(({ key, store, where }) => store ?? `--${where === "env" ? "env" : "input"} ${key}=...`);
  return new QmError("invalid_arguments", `${name} needs ${missing.map(({ key }) => key).join(", ")}`, {
    hint: `Nothing was installed. Give: ${how.join(", ")}; then add it again.`,
    details: { missing: missing.map((each): JsonObject => ({ key: each.key, where: each.where })) },
  });
}
