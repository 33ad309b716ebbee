import { dirname } from "node:path";
import type { Command } from "commander";
import { launchText, type ServerSpec } from "../../../mcp/server-spec.ts";
import type { ServerState, ServerView } from "../../../mcp/servers/servers.ts";
import { type Context, withWorkspace } from "../../context.ts";
import { oneLine } from "../../text.ts";

export function addList(servers: Command, context: Context): void {
  servers
    .command("list")
    .summary("every server, its state and how it is reached")
    .description(
      "Show every server. No server is started: `configured` means that its tools are not known yet, `known` that they are, from before, `started` that it runs for somebody, and `failed` and `needs_login` how the last try ended.",
    )
    .action(() =>
      withWorkspace(context, "looking", async ({ servers, config, configPath }) => {
        const { disabledSpecsOf } = await import("../../../server-specs.ts");
        const disabled = disabledSpecsOf(config, dirname(configPath ?? context.io.cwd)).map(disabledRow);
        const rows = [...(await servers.look()).map(rowOf), ...disabled];
        show(
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

function rowOf({ spec, state, tools, withheld, connection }: ServerView): ServerRow {
  const { pid, problem } = connection;
  return { spec, state, withheld, pid, problem, ...(state === "configured" ? {} : { tools }) };
}

function disabledRow(spec: ServerSpec): ServerRow {
  return { spec, state: "disabled", withheld: 0 };
}

function show({ out }: Context, servers: readonly ServerRow[]): void {
  if (out.isJson) out.json({ servers: servers.map(asJson) });
  else if (servers.length === 0) sayNone(out);
  else showTable(out, servers);
}

function showTable(out: Context["out"], servers: readonly ServerRow[]): void {
  out.table(
    ["NAME", "STATE", "TOOLS", "WITHHELD", "REACHED BY"],
    servers.map((server) => [
      server.spec.name,
      stateText(server),
      server.tools === undefined ? "?" : String(server.tools),
      server.withheld === 0 ? "" : String(server.withheld),
      oneLine(launchText(server.spec.launch)),
    ]),
  );
  for (const { spec, problem } of servers)
    if (problem !== undefined) out.line(out.dim(`${spec.name}: ${oneLine(problem)}`));
  if (servers.some(({ withheld }) => withheld > 0))
    out.line(out.dim("`qm servers review` shows what is withheld and why."));
}

function sayNone(out: Context["out"]): void {
  out.line("No MCP servers are configured.");
  out.line(out.dim("`qm servers add` adds one, `qm import` takes over those of another client."));
}

function stateText({ state, pid }: ServerRow): string {
  return pid === undefined ? state : `${state} (${pid})`;
}

/** What leaves has references in it, never what they stand for. */
function asJson({ spec, state, tools = 0, withheld, pid, problem }: ServerRow) {
  const { name, launch, description, version, source } = spec;
  return { name, state, tools, withheld, launch: launchText(launch), description, version, source, pid, problem };
}
