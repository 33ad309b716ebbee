import { escapeUnsafe, formatCount } from "../../../core/display-text.ts";
import type { Command } from "commander";
import { type Problem, QmError } from "../../../core/errors.ts";
import { didYouMean } from "../../../core/nearest.ts";
import type { McpServers } from "../../../mcp/provider/mcp-servers.ts";
import type { ServerSpec } from "../../../mcp/server-spec.ts";
import type { Workspace } from "../../../workspace/workspace.ts";
import { type CommandContext, withWorkspace } from "../../context.ts";
import { exitCodes, getExitCode } from "../../exit-codes.ts";
import { showProgress } from "../../terminal.ts";

/** The configured server of that name. Throws `not_found`. */
export function requireServer(servers: Pick<McpServers, "list">, name: string): ServerSpec {
  const specs = servers.list().map(({ spec }) => spec);
  const found = specs.find((spec) => spec.name === name);
  if (found !== undefined) return found;
  const names = specs.map((spec) => spec.name);
  throw new QmError("not_found", `no server ${JSON.stringify(name)} is configured${didYouMean(name, names)}`, {
    hint: "`qm servers list` shows the servers there are.",
  });
}

export function addServersLoginCommand(servers: Command, context: CommandContext): void {
  servers
    .command("login")
    .summary("log in to a remote server")
    .description(
      "Log in to a remote server in the browser. The tokens are kept beside the store, readable by you alone.",
    )
    .argument("<name>")
    .action((name: string) =>
      withWorkspace(context, "calls", async ({ servers }) => {
        const { io, out } = context;
        requireServer(servers, name);
        let wipe = (): void => {};
        const show = (url: URL): void => {
          out.note(`Open this in a browser and agree there:\n\n  ${url}\n`);
          wipe = showProgress(io.stderr, "waiting for the browser");
        };
        await servers.hub.login(name, show, io.signal).finally(() => wipe());
        if (out.isJson) return out.json({ server: name, loggedIn: true });
        out.line(`Logged in to ${name}.`);
      }),
    );

  servers
    .command("logout")
    .summary("forget the tokens of a remote server")
    .argument("<name>")
    .action((name: string) =>
      withWorkspace(context, "calls", async ({ servers }) => {
        requireServer(servers, name);
        await servers.hub.logout(name);
        if (context.out.isJson) context.out.json({ server: name, loggedIn: false });
        else context.out.line(`The tokens of ${name} are forgotten.`);
      }),
    );
}

export function addServersStartStopCommands(servers: Command, context: CommandContext): void {
  servers
    .command("start")
    .summary("start servers once, learn their tools, and stop them")
    .description(
      "Start servers to see that they work and to learn what they offer, then stop them again: a gateway starts its own on the first call. Without names: every server.",
    )
    .argument("[names...]")
    .action((names: readonly string[]) =>
      withWorkspace(context, "calls", (workspace) => runServersStart(context, workspace, names)),
    );

  servers
    .command("stop")
    .summary("end the processes of servers, whoever started them")
    .description(
      "End the processes of servers on this machine, also those of a gateway that is running; its next call starts them again. Without names: every server.",
    )
    .argument("[names...]")
    .action((names: readonly string[]) =>
      withWorkspace(context, "calls", async ({ servers }) => {
        const stopped = await servers.stopProcesses(names.map((name) => requireServer(servers, name).name));
        const { out } = context;
        if (out.isJson) return out.json({ stopped });
        if (stopped.length === 0) return out.line("Nothing was running.");
        for (const { server, pid } of stopped) out.line(`${server} (process ${pid}) is stopped.`);
      }),
    );
}

async function runServersStart(
  context: CommandContext,
  { servers }: Workspace,
  names: readonly string[],
): Promise<void> {
  const { io, out } = context;
  const wanted =
    names.length === 0 ? servers.list().map(({ spec }) => spec) : names.map((name) => requireServer(servers, name));
  const wipe = showProgress(io.stderr, wanted.map(({ name }) => name).join(", "));
  const results = await Promise.all(
    wanted.map(async (spec) => {
      const { name } = spec;
      try {
        const offer = await servers.hub.connect(name, io.signal, true);
        return { name, tools: offer.tools.length, protocol: offer.protocolVersion };
      } catch (thrown) {
        if (!(thrown instanceof QmError)) throw thrown;
        return { name, problem: addLogHint(thrown.toProblem(), spec) };
      }
    }),
  ).finally(wipe);
  const codes = results.flatMap(({ problem }) =>
    problem === undefined ? [] : getExitCode(problem.code, io.signal.aborted),
  );
  if (codes.length > 0) context.end(codes.find((code) => code === exitCodes.interrupted) ?? exitCodes.failed);
  if (out.isJson) return out.json({ servers: results });
  if (results.length === 0) return out.line("No MCP servers are configured.");
  for (const result of results) {
    if (result.problem === undefined) {
      const withheld = servers.manifests.withheld(result.name).length;
      const note = withheld === 0 ? "" : `, ${withheld} withheld: qm servers review ${result.name}`;
      out.line(
        `${result.name}: ${out.good("works")}, ${formatCount(result.tools, "tool")}, MCP ${escapeUnsafe(result.protocol)}${note}`,
      );
    } else {
      out.line(`${result.name}: ${out.bad(escapeUnsafe(result.problem.error))}`);
      if (result.problem.hint !== undefined) out.line(out.dim(`    ${escapeUnsafe(result.problem.hint)}`));
    }
  }
}

/** What a process says of its own failure is in its log; a connection has none. */
function addLogHint(problem: Problem, { name, launch }: ServerSpec): Problem {
  if (launch.kind !== "stdio" || problem.code === "cancelled" || problem.code === "invalid_config") return problem;
  const { hint } = problem;
  const logs = `\`qm servers logs ${name}\` shows what it wrote.`;
  // Whoever starts servers has just seen their state.
  return { ...problem, hint: hint === undefined || hint.includes("qm servers ") ? logs : `${hint} ${logs}` };
}
