import type { Command } from "commander";
import type { ServerView } from "../../../mcp/servers/servers.ts";
import { type Context, withWorkspace } from "../../context.ts";
import { oneLine } from "../../text.ts";
import { launchText } from "./launch-text.ts";

export function addList(servers: Command, context: Context): void {
  servers
    .command("list")
    .summary("every server, its state and how it is reached")
    .description(
      "Show every server. No server is started: `configured` means that its tools are not known yet, `known` that they are, from before.",
    )
    .action(() => withWorkspace(context, "looking", ({ servers }) => show(context, servers.list())));
}

function show({ out }: Context, servers: readonly ServerView[]): void {
  if (out.isJson) out.json({ servers: servers.map(asJson) });
  else if (servers.length === 0) sayNone(out);
  else showTable(out, servers);
}

function showTable(out: Context["out"], servers: readonly ServerView[]): void {
  out.table(
    ["NAME", "STATE", "TOOLS", "WITHHELD", "REACHED BY"],
    servers.map((server) => [
      server.spec.name,
      stateText(server),
      server.state === "configured" ? "?" : String(server.tools),
      server.withheld === 0 ? "" : String(server.withheld),
      oneLine(launchText(server.spec.launch)),
    ]),
  );
  if (servers.some(({ withheld }) => withheld > 0))
    out.line(out.dim("`qm servers review` shows what is withheld and why."));
}

function sayNone(out: Context["out"]): void {
  out.line("No MCP servers are configured.");
  out.line(out.dim("`qm servers add` adds one, `qm import` takes over those of another client."));
}

function stateText({ state, connection }: ServerView): string {
  return connection.problem === undefined || state !== "failed" ? state : `failed: ${oneLine(connection.problem)}`;
}

/** What leaves has references in it, never what they stand for. */
function asJson({ spec, state, tools, withheld, connection }: ServerView) {
  const { name, launch, description, version, source } = spec;
  return {
    name,
    state,
    tools,
    withheld,
    launch: launchText(launch),
    description,
    version,
    source,
    problem: connection.problem,
  };
}
