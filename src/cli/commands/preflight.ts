import type { Command } from "commander";
import type { CallerOptions } from "../../app/options.ts";
import { escapeUnsafe, toOneLine } from "../../core/display-text.ts";
import { isGlob, matchesGlob } from "../../core/name-patterns.ts";
import { parseActionName, SEPARATOR } from "../../core/names.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { type Context, inWorkspace, toCallerOptions } from "../context.ts";
import { type ExitCode, exitCodes } from "../exit-codes.ts";
import { examples } from "../option-parsers.ts";
import { showProgress } from "../terminal.ts";
import { findListCommand, formatTrustCommand, needsAcceptance } from "./describe.ts";

/** From best to worst. The worst verdict sets the exit code. */
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
type PreflightResult = { readonly action: string; readonly verdict: PreflightVerdict; readonly note?: string };

export function addPreflightCommand(program: Command, context: Context): void {
  program
    .command("preflight")
    .summary("check that actions are ready to use")
    .description(
      "Check that actions exist, are allowed and can be reached, before an unattended run. Starts the needed servers once.",
    )
    .argument("<names...>", "names of actions, or globs")
    .option("--no-start", "start no servers: use what is known")
    .addHelpText(
      ...examples(
        "qm preflight mcp__github__create_issue 'file__*'",
        "qm preflight --actor ci 'mcp__jira__*' && run-agent",
      ),
    )
    .addHelpText(
      "after",
      `\nExit codes: 0 all ready, 3 denied, 4 missing or hidden, 10 needs approval, 11 needs a login,\n            12 withheld until reviewed, 13 server unreachable. The worst one counts.`,
    )
    .action((names: readonly string[], { start }: { readonly start: boolean }) =>
      inWorkspace(context, start ? "calls" : "looking", runPreflight)(names, start),
    );
}

async function runPreflight(context: Context, workspace: Workspace, names: readonly string[], start: boolean) {
  const { io, out, globals, end } = context;
  const caller = toCallerOptions(globals);
  let unreachable: readonly string[] = [];
  if (start) {
    const stopProgress = showProgress(io.stderr, "checking servers");
    unreachable = await startNeededServers(workspace, names, io.signal).finally(stopProgress);
  }
  const visible = workspace.quartermaster.names(caller);
  const results = names.flatMap((name): readonly PreflightResult[] => {
    const wanted = visible.filter((each) => (isGlob(name) ? matchesGlob(name, each) : each === name));
    if (wanted.length === 0) return [explainAbsence(workspace, name, unreachable)];
    return wanted.map((each) => checkAction(workspace, each, caller));
  });
  const checked = [...new Map(results.map((each) => [each.action, each])).values()];
  const order = Object.keys(verdicts) as readonly PreflightVerdict[];
  const worst = order.findLast((verdict) => checked.some((each) => each.verdict === verdict)) ?? "ready";
  end(verdicts[worst]);
  if (out.isJson) return out.json({ verdict: worst, actions: checked });
  out.table(
    ["action", "verdict", "note"],
    checked.map(({ action, verdict, note = "" }) => [escapeUnsafe(action), verdict, toOneLine(note)]),
  );
}

/** Starts the servers that the names refer to. Returns those that cannot be reached. */
async function startNeededServers({ servers }: Workspace, names: readonly string[], signal: AbortSignal) {
  const needed = servers
    .list()
    .map(({ spec }) => spec.name)
    .filter((server) => names.some((name) => canMatchServer(name, server)));
  const started = await Promise.allSettled(needed.map((name) => servers.hub.connect(name, signal, true)));
  return needed.filter((_, index) => started[index]?.status === "rejected");
}

function canMatchServer(name: string, server: string): boolean {
  const prefix = `mcp__${server}__`;
  if (!isGlob(name)) return name.startsWith(prefix);
  const fixed = name.slice(0, name.search(/[*?]/));
  return fixed.startsWith(prefix) || prefix.startsWith(fixed);
}

/** Why the caller does not see this action. */
function explainAbsence({ servers }: Workspace, action: string, unreachable: readonly string[]): PreflightResult {
  const server = unreachable.find((each) => canMatchServer(action, each));
  if (server !== undefined) {
    const { state, problem = "" } = servers.hub.status(server);
    if (state === "needs_login") return { action, verdict: "needs_login", note: `qm servers login ${server}` };
    return { action, verdict: "unavailable", note: problem };
  }
  const names = servers.list().map(({ spec }) => spec.name);
  const withholding = names.find((name) =>
    servers.manifests.withheld(name).some(({ tool }) => action === `mcp__${name}__${tool}`),
  );
  if (withholding !== undefined) return { action, verdict: "quarantined", note: `qm servers review ${withholding}` };
  const command = findListCommand(action);
  if (command !== undefined)
    return { action, verdict: "missing", note: `not in the catalog: check with \`${command}\`` };
  return { action, verdict: "missing", note: "missing or hidden: check with `qm list` and `qm explain`" };
}

function checkAction({ quartermaster, servers }: Workspace, name: string, caller: CallerOptions): PreflightResult {
  const { state, state_reason, approval, category } = quartermaster.describe(name, caller).metadata;
  const action = parseActionName(name) ?? name;
  const server = servers.list().find(({ spec }) => name.startsWith(`mcp__${spec.name}__`));
  const serverName = server?.spec.name ?? "";
  if (state === "needs_login") {
    const [, api = ""] = name.split(SEPARATOR);
    const note = category === "api" ? `qm apis show ${api}` : `qm servers login ${serverName}`;
    return { action, verdict: state, note };
  }
  if (state === "quarantined") {
    const note = category === "skill" ? formatTrustCommand(name) : `qm servers review ${serverName}`;
    return { action, verdict: state, note };
  }
  if (state === "unavailable")
    return { action, verdict: state, note: server?.connection.problem ?? state_reason ?? "" };
  const explanation = quartermaster.explain(name, caller);
  const { decision, because } = explanation;
  if (decision === "deny") return { action, verdict: "denied", note: because?.rule ?? "" };
  if (needsAcceptance(explanation)) return { action, verdict: "needs_approval", note: formatTrustCommand(name) };
  if (approval === "never") return { action, verdict: "ready" };
  const when = approval === "always" ? "each call" : "some calls, depending on their arguments";
  return { action, verdict: "needs_approval", note: `a person must agree to ${when}` };
}
