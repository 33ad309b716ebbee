import type { Command } from "commander";
import { type Problem, QmError } from "../../../core/errors.ts";
import type { ServerSpec } from "../../../mcp/server-spec.ts";
import type { Workspace } from "../../../workspace.ts";
import { type Context, withWorkspace } from "../../context.ts";
import { exitCodeOf, exitCodes } from "../../exit-codes.ts";
import { showProgress } from "../../progress.ts";
import { counted, plain } from "../../text.ts";
import { requireServer } from "./require-server.ts";

export function addStartStop(servers: Command, context: Context): void {
  servers
    .command("start")
    .summary("start servers once, learn their tools, and stop them")
    .description(
      "Start servers to see that they work and to learn what they offer, then stop them again: a gateway starts its own on the first call. Without names: every server.",
    )
    .argument("[names...]")
    .action((names: readonly string[]) =>
      withWorkspace(context, "calls", (workspace) => start(context, workspace, names)),
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

async function start(context: Context, { servers }: Workspace, names: readonly string[]): Promise<void> {
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
        return { name, problem: withLogs(thrown.toProblem(), spec) };
      }
    }),
  ).finally(wipe);
  const codes = results.flatMap(({ problem }) =>
    problem === undefined ? [] : exitCodeOf(problem.code, io.signal.aborted),
  );
  if (codes.length > 0) context.end(codes.find((code) => code === exitCodes.interrupted) ?? exitCodes.failed);
  if (out.isJson) return out.json({ servers: results });
  if (results.length === 0) return out.line("No MCP servers are configured.");
  for (const result of results) {
    if (result.problem === undefined) {
      const withheld = servers.book.withheld(result.name).length;
      const note = withheld === 0 ? "" : `, ${withheld} withheld: qm servers review ${result.name}`;
      out.line(
        `${result.name}: ${out.good("works")}, ${counted(result.tools, "tool")}, MCP ${plain(result.protocol)}${note}`,
      );
    } else {
      out.line(`${result.name}: ${out.bad(plain(result.problem.error))}`);
      if (result.problem.hint !== undefined) out.line(out.dim(`    ${plain(result.problem.hint)}`));
    }
  }
}

/** What a process says of its own failure is in its log; a connection has none. */
function withLogs(problem: Problem, { name, launch }: ServerSpec): Problem {
  if (launch.kind !== "stdio" || problem.code === "cancelled" || problem.code === "invalid_config") return problem;
  const { hint } = problem;
  const logs = `\`qm servers logs ${name}\` shows what it wrote.`;
  // Whoever starts servers has just seen their state.
  return { ...problem, hint: hint === undefined || hint.includes("qm servers ") ? logs : `${hint} ${logs}` };
}
