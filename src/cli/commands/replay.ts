import type { Command } from "commander";
import { QmError } from "../../core/errors.ts";
import type { ReplayQuery } from "../../replay/read-recorded.ts";
import type { ReplayedCall, ReplayOutcome, ReplayReport } from "../../replay/replay-report.ts";
import { type CommandContext, withWorkspace } from "../context.ts";
import { exitCodes } from "../exit-codes.ts";
import { formatExamples } from "../option-parsers.ts";
import type { CommandOutput } from "../output.ts";
import { formatCount, toOneLine } from "../terminal-text.ts";

interface ReplayFlags {
  readonly turn?: boolean;
  readonly policy?: string;
  readonly all?: boolean;
}

export function addReplayCommand(program: Command, context: CommandContext): void {
  program
    .command("replay")
    .summary("decide a session's calls again, and say what is different")
    .description(
      "Make the calls of a session or a turn again, with the results that were recorded. No action is run, no server started, nobody asked, nothing written. Shows the calls that would go differently under the policy of today, or under another one.",
    )
    .argument("<id>", "a session; or a turn, where no session is called that")
    .option("--turn", "it is a turn; with --session a turn of that session")
    .option("--policy <file>", "decide by the policy and the actors of this quartermaster.yaml")
    .option("--all", "show the calls that go the same way, too")
    .addHelpText(
      "after",
      `${formatExamples("qm replay chat-1", "qm replay chat-1 --policy stricter.yaml", "qm replay turn-7 --turn --session chat-1 --all")}\n\nExit codes: 0 nothing is different, 1 something is, 4 no such session or turn.`,
    )
    .action((id: string, flags: ReplayFlags) => runReplay(context, id, flags));
}

async function runReplay(
  context: CommandContext,
  id: string,
  { turn = false, policy: file, all = false }: ReplayFlags,
) {
  const policy = file === undefined ? undefined : await loadPolicyFile(context, file);
  const report = await reportNotFound(context, () =>
    withWorkspace(context, "ledger", ({ quartermaster: { ledger } }) =>
      withWorkspace(context, "looking", async ({ quartermaster }) => {
        const options = { ledger, ...(policy === undefined ? {} : { policy }) };
        return querySessionOrTurn(context, id, turn, (query) => quartermaster.replay(query, options));
      }),
    ),
  );
  if (report === undefined) return;
  if (report.summary.different > 0) context.end(exitCodes.failed);
  const calls = all ? report.calls : report.calls.filter(({ same }) => !same);
  if (context.out.isJson) context.out.json({ ...report, calls });
  else showReplay(context.out, report, calls);
}

/**
 * Asks for a session of that name and, where there is none, for a turn; only for a turn where that is said, or another
 * session is.
 */
export async function querySessionOrTurn<T>(
  { globals: { session } }: CommandContext,
  id: string,
  isTurn: boolean,
  ask: (query: ReplayQuery) => Promise<T>,
): Promise<T> {
  const asTurn = { turn: id, ...(session === undefined ? {} : { session }) };
  if (isTurn || (session !== undefined && session !== id)) return ask(asTurn);
  try {
    return await ask({ session: id });
  } catch (thrown) {
    if (!isNotFound(thrown)) throw thrown;
  }
  try {
    return await ask(asTurn);
  } catch (thrown) {
    if (!isNotFound(thrown)) throw thrown;
    throw new QmError("not_found", `the ledger has neither a session nor a turn ${JSON.stringify(id)}`, {
      hint: "`qm events` shows the sessions, `qm events --json` the turns, too. --turn says that it is a turn, --session which session's.",
    });
  }
}

/** Says that there is no such thing, with an exit code of its own. */
export async function reportNotFound<T>({ out, end }: CommandContext, work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (thrown) {
    if (!isNotFound(thrown)) throw thrown;
    out.problem(thrown.toProblem());
    end(exitCodes.unknown);
    return undefined;
  }
}

function isNotFound(thrown: unknown): thrown is QmError {
  return thrown instanceof QmError && thrown.code === "not_found";
}

/** The policy of another configuration file. */
export async function loadPolicyFile({ io: { cwd, env } }: CommandContext, file: string) {
  const { loadConfig } = await import("../../config/config-file.ts");
  const { toPolicyOptions } = await import("../../workspace/config-mapping.ts");
  const { CALL_VARIABLES, compileCondition } = await import("../../core/expression.ts");
  const compileExpression = (text: string) => compileCondition(text, CALL_VARIABLES);
  const { config } = await loadConfig(file, { cwd, env, compileExpression });
  return toPolicyOptions(config);
}

function showReplay(
  out: CommandOutput,
  { summary, session, turn, policyVersion }: ReplayReport,
  calls: readonly ReplayedCall[],
): void {
  if (calls.length > 0) {
    out.table(
      ["when", "action", "then", "now", "different"],
      calls.map(({ at, asked, recorded, replayed, differs, uncertain }) => [
        at.slice(0, 19).replace("T", " "),
        recorded.action ?? replayed.action ?? asked,
        formatReplayOutcome(recorded),
        formatReplayOutcome(replayed),
        uncertain === undefined
          ? { text: differs.length === 0 ? "-" : differs.join(", "), paint: differs.length === 0 ? out.good : out.bad }
          : { text: `uncertain: ${uncertain}`, paint: out.warn },
      ]),
    );
    out.line();
  }
  const what =
    turn === undefined ? `session ${toOneLine(session)}` : `turn ${toOneLine(turn)} of session ${toOneLine(session)}`;
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
