import { escapeUnsafe, toOneLine } from "../../core/display-text.ts";
import type { Command } from "commander";
import { isGlob, matchesGlob } from "../../core/name-patterns.ts";
import { parseActionName } from "../../core/names.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { type CommandContext, toCallerOptions, withWorkspace } from "../context.ts";
import { type ExitCode, exitCodes } from "../exit-codes.ts";
import { formatExamples } from "../option-parsers.ts";
import { showProgress } from "../terminal.ts";

/** From best to worst; the worst decides how the command ends. */
const verdicts = {
  ready: exitCodes.done,
  needs_approval: exitCodes.needsApproval,
  needs_login: exitCodes.needsLogin,
  quarantined: exitCodes.quarantined,
  unavailable: exitCodes.unavailable,
  denied: exitCodes.refused,
  missing: exitCodes.unknown,
} as const satisfies Record<string, ExitCode>;

type PreflightVerdict = keyof typeof verdicts;

interface PreflightResult {
  readonly action: string;
  readonly verdict: PreflightVerdict;
  readonly note?: string;
}

export function addPreflightCommand(program: Command, context: CommandContext): void {
  program
    .command("preflight")
    .summary("are the actions I need ready?")
    .description(
      "Check that actions are there, may be used and can be reached, before an unattended run. Servers that are needed are started once.",
    )
    .argument("<names...>", "names of actions, or globs")
    .option("--no-start", "start nothing: go by what is known")
    .addHelpText(
      "after",
      `${formatExamples("qm preflight mcp__github__create_issue 'file__*'", "qm preflight --actor ci 'mcp__jira__*' && run-agent")}\n\nExit codes: 0 all ready, 3 denied, 4 not there or hidden, 10 a person must agree to calls, 11 needs a login,\n            12 withheld until reviewed, 13 its server cannot be reached. The worst one counts.`,
    )
    .action((names: readonly string[], { start }: { readonly start: boolean }) =>
      withWorkspace(context, start ? "calls" : "looking", (workspace) =>
        runPreflight(context, workspace, names, start),
      ),
    );
}

async function runPreflight(
  context: CommandContext,
  workspace: Workspace,
  names: readonly string[],
  start: boolean,
): Promise<void> {
  const { io, out, globals } = context;
  const caller = toCallerOptions(globals);
  let unreachable: ReadonlySet<string> = new Set();
  if (start) {
    const wipe = showProgress(io.stderr, "checking servers");
    unreachable = await startNeededServers(workspace, names, io.signal).finally(wipe);
  }
  const visible = workspace.quartermaster.names(caller);
  const all = names.flatMap((name): readonly PreflightResult[] => {
    const wanted = isGlob(name)
      ? visible.filter((each) => matchesGlob(name, each))
      : visible.filter((each) => each === name);
    if (wanted.length > 0) return wanted.map((each) => checkAction(workspace, each, caller));
    return [explainAbsence(workspace, name, unreachable)];
  });
  const checked = [...new Map(all.map((each) => [each.action, each])).values()];
  const order = Object.keys(verdicts);
  const worst = checked.reduce(
    (worst, { verdict }) => (order.indexOf(verdict) > order.indexOf(worst) ? verdict : worst),
    "ready" as PreflightVerdict,
  );
  context.end(verdicts[worst]);
  if (out.isJson) return out.json({ verdict: worst, actions: checked });
  out.table(
    ["action", "verdict", "note"],
    checked.map(({ action, verdict, note = "" }) => [escapeUnsafe(action), verdict, toOneLine(note)]),
  );
}

/** Starts the servers that are named, and answers those that cannot be reached: what they have is not known. */
async function startNeededServers(
  { servers }: Workspace,
  names: readonly string[],
  signal: AbortSignal,
): Promise<ReadonlySet<string>> {
  const specs = servers.list().map(({ spec }) => spec);
  const needed = specs.filter(({ name }) => names.some((wanted) => canMatchServer(wanted, name)));
  const tried = await Promise.allSettled(needed.map(({ name }) => servers.hub.connect(name, signal, true)));
  return new Set(needed.filter((_, at) => tried[at]?.status === "rejected").map(({ name }) => name));
}

function canMatchServer(wanted: string, server: string): boolean {
  if (!isGlob(wanted)) return wanted.startsWith(`mcp__${server}__`);
  const fixed = wanted.slice(0, wanted.search(/[*?]/));
  return fixed.startsWith(`mcp__${server}__`) || `mcp__${server}__`.startsWith(fixed);
}

/** Of an action that is not there: why it may not be. */
function explainAbsence({ servers }: Workspace, action: string, unreachable: ReadonlySet<string>): PreflightResult {
  const server = [...unreachable].find((each) => canMatchServer(action, each));
  if (server !== undefined) {
    const { state, problem = "" } = servers.hub.status(server);
    if (state === "needs_login") return { action, verdict: "needs_login", note: `qm servers login ${server}` };
    return { action, verdict: "unavailable", note: problem };
  }
  const withheld = servers
    .list()
    .find(({ spec }) =>
      servers.manifests.withheld(spec.name).some(({ tool }) => action === `mcp__${spec.name}__${tool}`),
    );
  if (withheld !== undefined)
    return { action, verdict: "quarantined", note: `qm servers review ${withheld.spec.name}` };
  return { action, verdict: "missing", note: "not there, or hidden: `qm list` and `qm explain` tell" };
}

function checkAction(
  { quartermaster, servers }: Workspace,
  name: string,
  caller: ReturnType<typeof toCallerOptions>,
): PreflightResult {
  const { metadata } = quartermaster.describe(name, caller);
  const action = parseActionName(name) ?? name;
  const server = servers.list().find(({ spec }) => name.startsWith(`mcp__${spec.name}__`));
  const called = server?.spec.name ?? "";
  if (metadata.state === "needs_login") return { action, verdict: "needs_login", note: `qm servers login ${called}` };
  if (metadata.state === "quarantined") return { action, verdict: "quarantined", note: `qm servers review ${called}` };
  if (metadata.state === "unavailable")
    return { action, verdict: "unavailable", note: server?.connection.problem ?? "" };
  const { decision, because } = quartermaster.explain(name, caller);
  if (decision === "deny") return { action, verdict: "denied", note: because?.rule ?? "" };
  if (metadata.approval === "never") return { action, verdict: "ready" };
  const when = metadata.approval === "always" ? "each call" : "some calls, by their arguments";
  return { action, verdict: "needs_approval", note: `a person must agree to ${when}` };
}
