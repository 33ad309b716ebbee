import { escapeUnsafe, toOneLine } from "../../core/display-text.ts";
import { dirname } from "node:path";
import type { Command } from "commander";
import type { ServerState, ServerView } from "../../mcp/provider/mcp-servers.ts";
import { formatLaunch, type ServerSpec } from "../../mcp/server-spec.ts";
import { type CommandContext, withWorkspace } from "../context.ts";
import { createWholeNumberParser, formatExamples } from "../option-parsers.ts";
import { addServersAddCommand, addServersRemoveCommand } from "./servers/add-remove.ts";
import { addServersLoginCommand, addServersStartStopCommands, requireServer } from "./servers/connection.ts";
import { addServersReviewCommand } from "./servers/review.ts";

function addServersListCommand(servers: Command, context: CommandContext): void {
  servers
    .command("list")
    .summary("every server, its state and how it is reached")
    .description(
      "Show every server. No server is started: `configured` means that its tools are not known yet, `known` that they are, from before, `started` that it runs for somebody, and `failed` and `needs_login` how the last try ended.",
    )
    .action(() =>
      withWorkspace(context, "looking", async ({ servers, config, configPath }) => {
        const { toDisabledServerSpecs } = await import("../../workspace/config-mapping.ts");
        const disabled = toDisabledServerSpecs(config, dirname(configPath ?? context.io.cwd)).map(toDisabledRow);
        const rows = [...(await servers.listWithRecords()).map(toServerRow), ...disabled];
        showServers(
          context,
          rows.sort((a, b) => (a.spec.name < b.spec.name ? -1 : 1)),
        );
      }),
    );
}

/** What is shown of a server. */
interface ServerRow {
  readonly spec: ServerSpec;
  readonly state: ServerState | "disabled";
  readonly tools?: number;
  readonly withheld: number;
  readonly pid?: number | undefined;
  readonly problem?: string | undefined;
}

function toServerRow({ spec, state, tools, withheld, connection }: ServerView): ServerRow {
  const { pid, problem } = connection;
  return { spec, state, withheld, pid, problem, ...(state === "configured" ? {} : { tools }) };
}

function toDisabledRow(spec: ServerSpec): ServerRow {
  return { spec, state: "disabled", withheld: 0 };
}

function showServers({ out }: CommandContext, servers: readonly ServerRow[]): void {
  if (out.isJson) out.json({ servers: servers.map(toServerJson) });
  else if (servers.length === 0) printNoServers(out);
  else showServerTable(out, servers);
}

function showServerTable(out: CommandContext["out"], servers: readonly ServerRow[]): void {
  out.table(
    ["NAME", "STATE", "TOOLS", "WITHHELD", "REACHED BY"],
    servers.map((server) => [
      server.spec.name,
      formatServerState(server),
      server.tools === undefined ? "?" : String(server.tools),
      server.withheld === 0 ? "" : String(server.withheld),
      toOneLine(formatLaunch(server.spec.launch)),
    ]),
  );
  for (const { spec, problem } of servers)
    if (problem !== undefined) out.line(out.dim(`${spec.name}: ${toOneLine(problem)}`));
  if (servers.some(({ withheld }) => withheld > 0))
    out.line(out.dim("`qm servers review` shows what is withheld and why."));
}

function printNoServers(out: CommandContext["out"]): void {
  out.line("No MCP servers are configured.");
  out.line(out.dim("`qm servers add` adds one, `qm import` takes over those of another client."));
}

function formatServerState({ state, pid }: ServerRow): string {
  return pid === undefined ? state : `${state} (${pid})`;
}

/** What leaves has references in it, never what they stand for. */
function toServerJson({ spec, state, tools = 0, withheld, pid, problem }: ServerRow) {
  const { name, launch, description, version, source } = spec;
  return { name, state, tools, withheld, launch: formatLaunch(launch), description, version, source, pid, problem };
}

function addServersLogsCommand(servers: Command, context: CommandContext): void {
  servers
    .command("logs")
    .summary("what a server wrote to its error output")
    .argument("<name>")
    .option("--lines <n>", "the newest so many", createWholeNumberParser(1), 50)
    .action((name: string, { lines }: { readonly lines: number }) =>
      withWorkspace(context, "looking", async ({ servers }) => {
        const { out } = context;
        requireServer(servers, name);
        const newest = await servers.logs(name, lines);
        if (out.isJson) return out.json({ server: name, lines: newest });
        if (newest.length === 0) return out.line(`${name} has written nothing.`);
        for (const line of newest) out.line(escapeUnsafe(line));
      }),
    );
}

/** In the order of the help. */
const subcommands = [
  addServersListCommand,
  addServersAddCommand,
  addServersRemoveCommand,
  addServersStartStopCommands,
  addServersLogsCommand,
  addServersReviewCommand,
  addServersLoginCommand,
];

export function addServersCommand(program: Command, context: CommandContext): void {
  const servers = program
    .command("servers")
    .helpCommand(false)
    .summary("the MCP servers whose tools are actions")
    .description("List, add, remove, start, stop and review MCP servers.")
    .addHelpText(
      "after",
      formatExamples("qm servers list", "qm servers add npm:@modelcontextprotocol/server-memory", "qm servers review"),
    );
  for (const add of subcommands) add(servers, context);
}
