import type { Command } from "commander";
import { escapeUnsafe, formatCount } from "../../../core/display-text.ts";
import { type Problem, QmError } from "../../../core/errors.ts";
import { cliHintWords } from "../../../core/hint.ts";
import { didYouMean } from "../../../core/nearest.ts";
import type { McpServers } from "../../../mcp/provider/mcp-servers.ts";
import type { ServerSpec } from "../../../mcp/server-spec.ts";
import type { Workspace } from "../../../workspace/workspace.ts";
import { type Context, inWorkspace, withWorkspace } from "../../context.ts";
import { exitCodes, getExitCode } from "../../exit-codes.ts";
import { showProgress } from "../../terminal.ts";

/** The configured server with this name. Throws `not_found`. */
export function requireServer(servers: Pick<McpServers, "list">, name: string): ServerSpec {
  const specs = servers.list().map(({ spec }) => spec);
  const found = specs.find((spec) => spec.name === name);
  if (found !== undefined) return found;
  const near = didYouMean(
    name,
    specs.map((spec) => spec.name),
  );
  const hint = "Run `qm servers list` to see the configured servers.";
  throw new QmError("not_found", `no server ${JSON.stringify(name)} is configured${near}`, { hint });
}

export function addServersLoginCommand(servers: Command, context: Context): void {
  servers
    .command("login")
    .summary("log in to a remote server")
    .description("Log in to a remote server in the browser. The tokens are stored beside the store, for you only.")
    .argument("<name>")
    .action((name: string) =>
      withWorkspace(context, "calls", async ({ servers }) => {
        const { io, out } = context;
        requireServer(servers, name);
        let stopProgress = (): void => {};
        const showUrl = (url: URL): void => {
          out.note(`Open this URL in a browser and log in:\n\n  ${url}\n`);
          stopProgress = showProgress(io.stderr, "waiting for the browser");
        };
        await servers.hub.login(name, showUrl, io.signal).finally(() => stopProgress());
        out.answer({ server: name, loggedIn: true }, `Logged in to ${name}.`);
      }),
    );

  servers
    .command("logout")
    .summary("delete the tokens of a remote server")
    .argument("<name>")
    .action((name: string) =>
      withWorkspace(context, "calls", async ({ servers }) => {
        requireServer(servers, name);
        await servers.hub.logout(name);
        context.out.answer({ server: name, loggedIn: false }, `Deleted the tokens of ${name}.`);
      }),
    );
}

export function addServersStartStopCommands(servers: Command, context: Context): void {
  servers
    .command("start")
    .summary("start servers once, read their tools, and stop them")
    .description(
      "Start servers to check that they work and to read their tools, then stop them again: a gateway starts its own on the first call. Without names: all servers.",
    )
    .argument("[names...]")
    .action(inWorkspace(context, "calls", runServersStart));

  servers
    .command("stop")
    .summary("end the processes of servers")
    .description(
      "End the processes of servers on this machine, including those of a running gateway; its next call starts them again. Without names: all servers.",
    )
    .argument("[names...]")
    .action((names: readonly string[]) =>
      withWorkspace(context, "calls", async ({ servers }) => {
        const stopped = await servers.stopProcesses(names.map((name) => requireServer(servers, name).name));
        const lines = stopped.map(({ server, pid }) => `Stopped ${server} (process ${pid}).`);
        context.out.answer({ stopped }, lines.join("\n") || "No server was running.");
      }),
    );
}

async function runServersStart({ io, out, end }: Context, { servers }: Workspace, names: readonly string[]) {
  const { hub, manifests } = servers;
  const wanted =
    names.length === 0 ? servers.list().map(({ spec }) => spec) : names.map((name) => requireServer(servers, name));
  const stopProgress = showProgress(io.stderr, wanted.map(({ name }) => name).join(", "));
  const results = await Promise.all(
    wanted.map(async (spec) => {
      const { name } = spec;
      try {
        const { tools, protocolVersion } = await hub.connect(name, io.signal, true);
        return { name, tools: tools.length, protocol: protocolVersion };
      } catch (thrown) {
        if (!(thrown instanceof QmError)) throw thrown;
        return { name, problem: addLogHint(thrown.toProblem(cliHintWords), spec) };
      }
    }),
  ).finally(stopProgress);
  const codes = results.flatMap(({ problem }) => (problem ? getExitCode(problem.code, io.signal.aborted) : []));
  if (codes.length > 0) end(codes.includes(exitCodes.interrupted) ? exitCodes.interrupted : exitCodes.failed);
  if (out.isJson) return out.json({ servers: results });
  if (results.length === 0) out.line("No MCP servers are configured.");
  for (const { name, problem, tools, protocol } of results) {
    if (problem !== undefined) {
      out.line(`${name}: ${out.bad(escapeUnsafe(problem.error))}`);
      if (problem.hint !== undefined) out.line(out.dim(`    ${escapeUnsafe(problem.hint)}`));
      continue;
    }
    const withheld = manifests.withheld(name).length;
    const review = withheld === 0 ? "" : `, ${withheld} withheld: qm servers review ${name}`;
    out.line(`${name}: ${out.good("works")}, ${formatCount(tools, "tool")}, MCP ${escapeUnsafe(protocol)}${review}`);
  }
}

/** The log of a process says why it failed; a remote server has none. */
function addLogHint(problem: Problem, { name, launch }: ServerSpec): Problem {
  if (launch.kind !== "stdio" || problem.code === "cancelled" || problem.code === "invalid_config") return problem;
  const { hint } = problem;
  const logs = `\`qm servers logs ${name}\` shows what it wrote.`;
  // A hint to look at the servers would only repeat this output.
  return { ...problem, hint: hint === undefined || hint.includes("qm servers ") ? logs : `${hint} ${logs}` };
}
