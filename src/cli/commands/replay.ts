import type { Command } from "commander";
import { formatCount, toOneLine } from "../../core/display-text.ts";
import { QmError } from "../../core/errors.ts";
import { omitUndefined } from "../../core/json.ts";
import type { ReplayQuery } from "../../replay/read-recorded.ts";
import type { ReplayedCall, ReplayOutcome, ReplayReport } from "../../replay/replay-report.ts";
import { type Context, isNotFound, reportNotFound, withWorkspace } from "../context.ts";
import { exitCodes } from "../exit-codes.ts";
import { examples } from "../option-parsers.ts";
import type { CommandOutput } from "../output.ts";

type ReplayFlags = { readonly turn?: boolean; readonly policy?: string; readonly all?: boolean };

export function addReplayCommand(program: Command, context: Context): void {
  program
    .command("replay")
    .summary("decide recorded calls again and show what differs")
    .description(
      "Repeat the calls of a session or a turn with the recorded results. It runs no action, starts no server, asks nobody and writes nothing. Shows the calls that would go differently under the current policy, or under another one.",
    )
    .argument("<id>", "a session, or a turn if there is no such session")
    .option("--turn", "the id is a turn; with --session, a turn of that session")
    .option("--policy <file>", "use the policy and the actors of this quartermaster.yaml")
    .option("--all", "also show the calls that go the same way")
    .addHelpText(
      ...examples(
        "qm replay chat-1",
        "qm replay chat-1 --policy stricter.yaml",
        "qm replay turn-7 --turn --session chat-1 --all",
      ),
    )
    .addHelpText("after", `\nExit codes: 0 nothing differs, 1 something differs, 4 no such session or turn.`)
    .action((id: string, flags: ReplayFlags) => runReplay(context, id, flags));
}

async function runReplay(context: Context, id: string, { turn = false, policy: file, all }: ReplayFlags) {
  const policy = file === undefined ? undefined : await loadPolicyFile(context, file);
  const report = await reportNotFound(context, () =>
    withWorkspace(context, "ledger", ({ quartermaster: { ledger } }) =>
      withWorkspace(context, "looking", ({ quartermaster: { replay } }) =>
        querySessionOrTurn(context, id, turn, (query) => replay(query, { ledger, ...omitUndefined({ policy }) })),
      ),
    ),
  );
  if (report === undefined) return;
  if (report.summary.different > 0) context.end(exitCodes.failed);
  const calls = all ? report.calls : report.calls.filter(({ same }) => !same);
  if (context.out.isJson) context.out.json({ ...report, calls });
  else showReplay(context.out, report, calls);
}

/** Runs `ask` for the session with this id or, if there is none, for the turn. */
export async function querySessionOrTurn<T>(
  { globals: { session } }: Context,
  id: string,
  isTurn: boolean,
  ask: (query: ReplayQuery) => Promise<T>,
): Promise<T> {
  const asTurn = { turn: id, ...omitUndefined({ session }) };
  if (isTurn || (session !== undefined && session !== id)) return ask(asTurn);
  try {
    return await ask({ session: id });
  } catch (thrown) {
    if (!isNotFound(thrown) || wasPruned(thrown)) throw thrown;
  }
  try {
    return await ask(asTurn);
  } catch (thrown) {
    if (!isNotFound(thrown) || wasPruned(thrown)) throw thrown;
    throw new QmError("not_found", `the ledger has neither a session nor a turn ${JSON.stringify(id)}`, {
      hint: "`qm events` shows the sessions, `qm events --json` also the turns. --turn selects a turn, --session its session.",
    });
  }
}

const wasPruned = ({ details }: QmError): boolean => details?.pruned_before !== undefined;

export async function loadPolicyFile({ io: { cwd, env } }: Context, file: string) {
  const { loadConfig } = await import("../../config/config-file.ts");
  const { toPolicyOptions } = await import("../../workspace/config-mapping.ts");
  const { CALL_VARIABLES, compileCondition } = await import("../../core/expression.ts");
  const compileExpression = (text: string) => compileCondition(text, CALL_VARIABLES);
  const { config } = await loadConfig(file, { cwd, env, compileExpression });
  return toPolicyOptions(config);
}

function showReplay(out: CommandOutput, report: ReplayReport, calls: readonly ReplayedCall[]): void {
  const { summary, session, turn, policyVersion } = report;
  if (calls.length > 0) {
    out.table(
      ["when", "action", "then", "now", "different"],
      calls.map(({ at, asked, recorded, replayed, differs, uncertain }) => [
        at.slice(0, 19).replace("T", " "),
        recorded.action ?? replayed.action ?? asked,
        formatReplayOutcome(recorded),
        formatReplayOutcome(replayed),
        uncertain === undefined
          ? { text: differs.join(", ") || "-", paint: differs.length === 0 ? out.good : out.bad }
          : { text: `uncertain: ${uncertain}`, paint: out.warn },
      ]),
      { whole: [0, 1] },
    );
    out.line();
  }
  const what = `${turn === undefined ? "" : `turn ${toOneLine(turn)} of `}session ${toOneLine(session)}`;
  const { same, different, uncertain } = summary;
  const amounts = [`${same} the same`, `${different} different`, ...(uncertain > 0 ? [`${uncertain} uncertain`] : [])];
  out.line(
    `${formatCount(summary.calls, "call")} of ${what} under policy ${policyVersion}: ${amounts.join(", ")}. Nothing was run.`,
  );
}

function formatReplayOutcome({ decision, layer, rule, status, code }: ReplayOutcome): string {
  const ended = code === undefined ? status : `${status} (${code})`;
  if (decision === undefined) return ended;
  return layer === undefined ? `${decision}: ${ended}` : `${decision} by ${layer} (${rule}): ${ended}`;
}
