import { dirname } from "node:path";
import type { Command } from "commander";
import { escapeUnsafe, toOneLine } from "../../core/display-text.ts";
import type { ServerState } from "../../mcp/provider/mcp-servers.ts";
import type { ServerSpec } from "../../mcp/server-spec.ts";
import { type Context, withWorkspace } from "../context.ts";
import { createWholeNumberParser, examples } from "../option-parsers.ts";
import { addServersAddCommand, addServersRemoveCommand } from "./servers/add-remove.ts";
import { addServersLoginCommand, addServersStartStopCommands, requireServer } from "./servers/connection.ts";
import { addServersReviewCommand } from "./servers/review.ts";

export function addServersCommand(program: Command, context: Context): void {
  const servers = program
    .command("servers")
    .helpCommand(false)
    .summary("manage MCP servers")
    .description("List, add, remove, start, stop and review MCP servers.")
    .addHelpText(
      ...examples("qm servers list", "qm servers add npm:@modelcontextprotocol/server-memory", "qm servers review"),
    );
  addServersListCommand(servers, context);
  addServersAddCommand(servers, context);
  addServersRemoveCommand(servers, context);
  addServersStartStopCommands(servers, context);
  addServersLogsCommand(servers, context);
  addServersReviewCommand(servers, context);
  addServersLoginCommand(servers, context);
}

interface ServerRow {
  readonly spec: ServerSpec;
  readonly state: ServerState | "disabled";
  /** Undefined: not known yet. */
  readonly tools?: number | undefined;
  readonly withheld: number;
  readonly pid?: number | undefined;
  readonly problem?: string | undefined;
}

function addServersListCommand(servers: Command, context: Context): void {
  servers
    .command("list")
    .summary("list the servers, their state and how to reach them")
    .description(
      "List all servers without starting any. States: `configured` (tools not known yet), `known` (tools known from an earlier start), `started` (running for a process), `failed` and `needs_login` (result of the last attempt), `disabled`.",
    )
    .action(() =>
      withWorkspace(context, "looking", async ({ servers, config, configPath }) => {
        const { toDisabledServerSpecs } = await import("../../workspace/config-mapping.ts");
        const rows = (await servers.listWithRecords()).map(
          ({ spec, state, tools, withheld, connection }): ServerRow => {
            const { pid, problem } = connection;
            return { spec, state, tools: state === "configured" ? undefined : tools, withheld, pid, problem };
          },
        );
        for (const spec of toDisabledServerSpecs(config, dirname(configPath ?? context.io.cwd)))
          rows.push({ spec, state: "disabled", withheld: 0 });
        rows.sort((a, b) => (a.spec.name < b.spec.name ? -1 : 1));
        await showServers(context, rows);
      }),
    );
}

async function showServers({ out }: Context, servers: readonly ServerRow[]): Promise<void> {
  const { formatLaunch } = await import("../../mcp/server-spec.ts");
  if (out.isJson) {
    // The launch holds references such as `${secret:NAME}`, never their values.
    const rows = servers.map(({ spec, state, tools = 0, withheld, pid, problem }) => {
      const { name, launch, description, version, source } = spec;
      return { name, state, tools, withheld, launch: formatLaunch(launch), description, version, source, pid, problem };
    });
    return out.json({ servers: rows });
  }
  if (servers.length === 0) {
    out.line("No MCP servers are configured.");
    return out.line(out.dim("`qm servers add` adds one, `qm import` imports those of another client."));
  }
  out.table(
    ["NAME", "STATE", "TOOLS", "WITHHELD", "REACHED BY"],
    servers.map(({ spec, state, tools, withheld, pid }) => [
      spec.name,
      pid === undefined ? state : `${state} (${pid})`,
      String(tools ?? "?"),
      withheld === 0 ? "" : String(withheld),
      toOneLine(formatLaunch(spec.launch)),
    ]),
  );
  for (const { spec, problem } of servers)
    if (problem !== undefined) out.line(out.dim(`${spec.name}: ${toOneLine(problem)}`));
  if (servers.some(({ withheld }) => withheld > 0))
    out.line(out.dim("`qm servers review` shows the withheld definitions and why they are withheld."));
}

function addServersLogsCommand(servers: Command, context: Context): void {
  servers
    .command("logs")
    .summary("show the stderr of a server")
    .argument("<name>")
    .option("--lines <n>", "show the newest N lines", createWholeNumberParser(1), 50)
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
