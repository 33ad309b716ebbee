import { appendFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, extname, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { type Command, Option } from "commander";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import type { DatasetProblem } from "../../evals/dataset.ts";
import type { EvalCase } from "../../evals/eval-case.ts";
import type { CaseResult, EvalReport, PromptMismatch } from "../../evals/run-evals.ts";
import type { Subject } from "../../evals/subject.ts";
import { type CommandContext, withWorkspace } from "../context.ts";
import { exitCodes } from "../exit-codes.ts";
import { formatExamples, parseTimeoutOption } from "../option-parsers.ts";
import type { CommandOutput } from "../output.ts";
import { showCount } from "../terminal.ts";
import { escapeUnsafe, formatCount, toOneLine } from "../terminal-text.ts";
import { loadPolicyFile, querySessionOrTurn, reportNotFound } from "./replay.ts";

interface RecordFlags {
  readonly to: string;
  readonly turn?: boolean;
  readonly id?: string;
  readonly messages?: string;
  readonly prompt?: string;
  readonly force?: boolean;
}

function addEvalRecordCommand(evals: Command, context: CommandContext): void {
  evals
    .command("record")
    // What `qm eval` takes means nothing here.
    .configureHelp({ showGlobalOptions: true, visibleGlobalOptions: () => [...context.program.options] })
    .summary("make a case of a session or a turn that went as it should")
    .description(
      "Make a case of what the ledger has: who called what, and what came of it. It expects the same calls; write into the file what else there is to expect. What was redacted in the ledger is redacted in the case.",
    )
    .argument("<id>", "a session; or a turn, where no session is called that")
    .requiredOption("--to <file>", "a .json file that is made, or a .jsonl file that gets one more line")
    .option("--turn", "it is a turn; with --session a turn of that session")
    .option("--id <text>", "the name of the case; else that of the turn or session")
    .option("--messages <file>", "JSON that the subject is to be given")
    .option("--prompt <file>", "the text of the prompt, to notice later that it is another one")
    .option("--force", "replace the .json file where there is one")
    .addHelpText(
      "after",
      formatExamples(
        "qm eval record turn-7 --turn --to evals/refund.json",
        "qm eval record chat-1 --to cases.jsonl --prompt prompt.md",
      ),
    )
    .action((id: string, flags: RecordFlags) => {
      rejectEvalOptions(evals);
      return runEvalRecord(context, id, flags);
    });
}

function rejectEvalOptions(evals: Command): void {
  const given = evals.options.find((option) => evals.getOptionValueSource(option.attributeName()) === "cli");
  if (given === undefined) return;
  throw new QmError("invalid_arguments", `${given.long} means nothing to \`qm eval record\``, {
    hint: "`qm eval record --help` shows what it takes.",
  });
}

async function runEvalRecord(context: CommandContext, id: string, flags: RecordFlags): Promise<void> {
  const { io, out } = context;
  const { recordCase } = await import("../../evals/record-case.ts");
  const [messages, prompt] = [
    await readOptionalFile(io.cwd, flags.messages),
    await readOptionalFile(io.cwd, flags.prompt),
  ];
  const extras = {
    ...(flags.id === undefined ? {} : { id: flags.id }),
    ...(messages === undefined ? {} : { messages: parseJsonFile(messages, String(flags.messages)) }),
    ...(prompt === undefined ? {} : { prompt }),
  };
  const made = await reportNotFound(context, () =>
    withWorkspace(context, "ledger", ({ quartermaster: { ledger } }) =>
      querySessionOrTurn(context, id, flags.turn ?? false, (query) => recordCase(ledger, query, extras)),
    ),
  );
  if (made === undefined) return;
  await writeCase(resolve(io.cwd, flags.to), made, flags.force ?? false);
  if (out.isJson) return out.json({ file: flags.to, case: made });
  out.line(
    `${formatCount(made.calls.length, "call")} of ${toOneLine(id)} in ${escapeUnsafe(flags.to)}, as case ${toOneLine(made.id)}.`,
  );
  out.line(
    "It expects the same calls. Write what else there is to expect under `expected`, and run it with `qm eval`.",
  );
}

async function writeCase(file: string, made: EvalCase, force: boolean): Promise<void> {
  const isList = extname(file) === ".jsonl";
  if (!isList && extname(file) !== ".json")
    throw new QmError("invalid_arguments", `${file} is neither a .json nor a .jsonl file`, {
      hint: "Give one of them.",
    });
  try {
    await mkdir(dirname(file), { recursive: true });
    if (isList) await appendFile(file, `${JSON.stringify(made)}\n`);
    else await writeFile(file, `${JSON.stringify(made, undefined, 2)}\n`, { flag: force ? "w" : "wx" });
  } catch (thrown) {
    const isThere = thrown instanceof Error && "code" in thrown && thrown.code === "EEXIST";
    throw new QmError(
      "invalid_arguments",
      isThere ? `${file} is there already` : `${file} cannot be written: ${getErrorMessage(thrown)}`,
      {
        cause: thrown,
        ...(isThere ? { hint: "Give another name, or --force to replace it." } : {}),
      },
    );
  }
}

async function readOptionalFile(cwd: string, file: string | undefined): Promise<string | undefined> {
  if (file === undefined) return undefined;
  return readFile(resolve(cwd, file), "utf8").catch((thrown: unknown) => {
    throw new QmError("invalid_arguments", `${file} cannot be read: ${getErrorMessage(thrown)}`, { cause: thrown });
  });
}

function parseJsonFile(text: string, file: string): unknown {
  try {
    return JSON.parse(text);
  } catch (thrown) {
    throw new QmError("invalid_arguments", `${file} is not JSON: ${getErrorMessage(thrown)}`, { cause: thrown });
  }
}

const promptMismatches = ["warn", "error", "ignore"] as const satisfies readonly PromptMismatch[];

interface EvalFlags {
  readonly subject?: string;
  readonly policy?: string;
  readonly promptMismatch: PromptMismatch;
  readonly unrecorded: "fail" | "refuse";
  readonly timeout?: number;
}

export function addEvalCommand(program: Command, context: CommandContext): void {
  const evals = program
    .command("eval")
    .summary("hold an agent to recorded cases; `eval record` makes one")
    .description(
      "Have an agent do the work of every case of a dataset, with recorded results for what it calls, and judge it. Without a subject the recorded calls are made again and must end as they did. No action is run.",
    )
    .argument("<dataset>", "a folder of .json files, a case in each, or a .jsonl file, a case in each line")
    .option("--subject <file>", "a module that exports the agent: (case, {surface, signal}) => {parts, turnState}")
    .option("--policy <file>", "decide by the policy and the actors of this quartermaster.yaml")
    .addOption(
      new Option("--prompt-mismatch <what>", "what it means that the prompt is not the recorded one")
        .choices(promptMismatches)
        .default("warn"),
    )
    .addOption(
      new Option("--unrecorded <what>", "a call without a recorded result fails the case, or is only refused")
        .choices(["fail", "refuse"])
        .default("fail"),
    )
    .option("--timeout <time>", "for one case: 500ms, 30s, 2m; a bare number is seconds", parseTimeoutOption)
    .addHelpText(
      "after",
      `${formatExamples("qm eval evals/", "qm eval evals/ --subject ./agent.mjs", "qm eval cases.jsonl --policy stricter.yaml --json", "qm eval record turn-7 --turn --to evals/refund.json")}\n\nExit codes: 0 every case passes, 1 one does not or cannot be read, 4 no such dataset.`,
    )
    .action((dataset: string, flags: EvalFlags) => runEval(context, dataset, flags));
  addEvalRecordCommand(evals, context);
}

async function runEval(context: CommandContext, path: string, flags: EvalFlags): Promise<void> {
  const { io, out } = context;
  const { promptMismatch: promptHashMismatch, unrecorded, timeout: timeoutMs } = flags;
  // Loaded when it is run: the program starts with the words alone.
  const [{ formatCaseLocation, readDataset }, { runEvals }, { withConsoleOnStderr }] = await Promise.all([
    import("../../evals/dataset.ts"),
    import("../../evals/run-evals.ts"),
    import("../terminal.ts"),
  ]);
  const dataset = await reportNotFound(context, () => readDataset(resolve(io.cwd, path)));
  if (dataset === undefined) return;
  const policy = flags.policy === undefined ? undefined : await loadPolicyFile(context, flags.policy);
  const progress = showCount(io.stderr, "cases");
  const report = await withConsoleOnStderr(io, async () => {
    const subject = flags.subject === undefined ? undefined : await loadSubject(resolve(io.cwd, flags.subject));
    return withWorkspace(context, "looking", ({ quartermaster }) =>
      runEvals(dataset, subject, {
        quartermaster,
        promptHashMismatch,
        unrecorded,
        signal: io.signal,
        ...(policy === undefined ? {} : { policy }),
        ...(timeoutMs === undefined ? {} : { timeoutMs }),
        onCase: (_result, done) => progress.at(done),
      }),
    );
  }).finally(progress.end);
  if (report.summary.failed > 0 || report.problems.length > 0) context.end(exitCodes.failed);
  if (out.isJson) out.json(report);
  else showReport(out, report, formatCaseLocation);
}

async function loadSubject(file: string): Promise<Subject> {
  let module: Record<string, unknown>;
  try {
    module = await import(pathToFileURL(file).href);
  } catch (thrown) {
    throw new QmError("invalid_arguments", `the subject ${file} cannot be loaded: ${getErrorMessage(thrown)}`, {
      cause: thrown,
    });
  }
  const subject = module.default ?? module.subject;
  if (typeof subject === "function") return subject as Subject;
  throw new QmError("invalid_arguments", `${file} exports no subject`, {
    hint: "Export a function as default: export default async (given, { surface }) => ({ parts: [], turnState: 'complete' });",
  });
}

function showReport(
  out: CommandOutput,
  { cases, problems, summary }: EvalReport,
  formatCaseLocation: (problem: DatasetProblem) => string,
): void {
  for (const problem of problems)
    out.note(`qm: ${escapeUnsafe(formatCaseLocation(problem))}: ${toOneLine(problem.message)}`);
  out.table(
    ["case", "", "score", "why"],
    cases.map((result) => [
      result.id,
      { text: result.pass ? "pass" : "fail", paint: result.pass ? out.good : out.bad },
      result.score.toFixed(2),
      explainResult(result),
    ]),
  );
  if (cases.length > 0) out.line();
  const { passed, failed, promptMismatches: others } = summary;
  const amounts = [
    `${passed} passed`,
    `${failed} failed`,
    ...(problems.length > 0 ? [`${formatCount(problems.length, "problem")} in the dataset`] : []),
    ...(others > 0 ? [`${others} with another prompt than recorded`] : []),
  ];
  out.line(`${formatCount(summary.cases, "case")}: ${amounts.join(", ")}. Nothing was run.`);
}

function explainResult({ error, scores, promptMismatch }: CaseResult): string {
  const wrong = scores.filter(({ pass }) => !pass).map(({ name, why }) => `${name}: ${why}`);
  const warned = promptMismatch === undefined ? [] : ["the prompt is not the recorded one"];
  return [...(error === undefined ? [] : [error]), ...wrong, ...warned].join("; ") || "-";
}
