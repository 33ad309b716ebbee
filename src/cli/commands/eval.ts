import { appendFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, extname, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { type Command, Option } from "commander";
import { escapeUnsafe, formatCount, toOneLine } from "../../core/display-text.ts";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import { omitUndefined } from "../../core/json.ts";
import type { DatasetProblem } from "../../evals/dataset.ts";
import type { EvalCase } from "../../evals/eval-case.ts";
import type { CaseResult, EvalReport, PromptMismatch } from "../../evals/run-evals.ts";
import type { Subject } from "../../evals/subject.ts";
import { type Context, type Io, reportNotFound, withWorkspace } from "../context.ts";
import { createUsageError, exitCodes } from "../exit-codes.ts";
import { examples, parseTimeoutOption } from "../option-parsers.ts";
import type { CommandOutput } from "../output.ts";
import { createFileReadError, createFileWriteError } from "../output-file.ts";
import { showCount, withConsoleOnStderr } from "../terminal.ts";
import { loadPolicyFile, querySessionOrTurn } from "./replay.ts";

type EvalFlags = Readonly<{ subject?: string; policy?: string; timeout?: number }> & MismatchFlags;
type MismatchFlags = Readonly<{ promptMismatch: PromptMismatch; unrecorded: "fail" | "refuse" }>;

export function addEvalCommand(program: Command, context: Context): void {
  const evals = program
    .command("eval")
    .summary("test an agent against recorded cases; `eval record` creates one")
    .description(
      "Let an agent work on every case of a dataset, answer its calls with recorded results, and score it. Without a subject, the recorded calls are repeated and must end as they did. No action is run.",
    )
    .argument("<dataset>", "a folder of .json files with one case each, or a .jsonl file with one case per line")
    .option("--subject <file>", "a module that exports the agent: (case, {surface, signal}) => {parts, turnState}")
    .option("--policy <file>", "use the policy and the actors of this quartermaster.yaml")
    .addOption(
      new Option("--prompt-mismatch <what>", "what to do if the prompt is not the recorded one")
        .choices(["warn", "error", "ignore"] satisfies readonly PromptMismatch[])
        .default("warn"),
    )
    .addOption(
      new Option("--unrecorded <what>", "whether a call without a recorded result fails the case or is refused")
        .choices(["fail", "refuse"])
        .default("fail"),
    )
    .option("--timeout <time>", "limit one case to 500ms, 30s, 2m; a bare number is seconds", parseTimeoutOption)
    .addHelpText(
      ...examples(
        "qm eval evals/",
        "qm eval evals/ --subject ./agent.mjs",
        "qm eval cases.jsonl --policy stricter.yaml --json",
        "qm eval record turn-7 --turn --to evals/refund.json",
      ),
    )
    .addHelpText("after", `\nExit codes: 0 every case passes, 1 a case fails or cannot be read, 4 no such dataset.`)
    .action((dataset: string, flags: EvalFlags) => runEval(context, dataset, flags));
  addEvalRecordCommand(evals, context);
}

async function runEval(context: Context, path: string, flags: EvalFlags): Promise<void> {
  const { io, out } = context;
  const { promptMismatch: promptHashMismatch, unrecorded, timeout: timeoutMs } = flags;
  const { formatCaseLocation, readDataset } = await import("../../evals/dataset.ts");
  const { runEvals } = await import("../../evals/run-evals.ts");
  const dataset = await reportNotFound(context, () => readDataset(resolve(io.cwd, path)));
  if (dataset === undefined) return;
  const policy = flags.policy === undefined ? undefined : await loadPolicyFile(context, flags.policy);
  const progress = showCount(io.stderr, "cases");
  const report = await withConsoleOnStderr(io, async () => {
    const subject = flags.subject === undefined ? undefined : await loadSubject(io, resolve(io.cwd, flags.subject));
    const onCase = (_result: CaseResult, done: { done: number; total: number }) => progress.at(done);
    const options = {
      promptHashMismatch,
      unrecorded,
      signal: io.signal,
      onCase,
      ...omitUndefined({ policy, timeoutMs }),
    };
    return withWorkspace(context, "looking", ({ quartermaster }) =>
      runEvals(dataset, subject, { quartermaster, ...options }),
    );
  }).finally(progress.end);
  if (report.summary.failed > 0 || report.problems.length > 0) context.end(exitCodes.failed);
  if (out.isJson) out.json(report);
  else showReport(out, report, formatCaseLocation);
}

async function loadSubject({ importModule }: Io, file: string): Promise<Subject> {
  const loaded = await importModule(pathToFileURL(file).href).catch((cause: unknown) => {
    const message = `the subject ${file} cannot be loaded: ${getErrorMessage(cause)}`;
    throw new QmError("invalid_arguments", message, { cause });
  });
  const module = loaded as Readonly<Record<string, unknown>>;
  const subject = module.default ?? module.subject;
  if (typeof subject === "function") return subject as Subject;
  throw new QmError("invalid_arguments", `${file} exports no subject`, {
    hint: "Export a function as default: export default async (case, { surface }) => ({ parts: [], turnState: 'complete' });",
  });
}

function showReport(out: CommandOutput, report: EvalReport, format: (problem: DatasetProblem) => string): void {
  const { cases, problems, summary } = report;
  for (const problem of problems) out.note(`qm: ${escapeUnsafe(format(problem))}: ${toOneLine(problem.message)}`);
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
  const { passed, failed, promptMismatches } = summary;
  const amounts = [
    `${passed} passed`,
    `${failed} failed`,
    ...(problems.length > 0 ? [`${formatCount(problems.length, "problem")} in the dataset`] : []),
    ...(promptMismatches > 0 ? [`${promptMismatches} with a prompt that differs from the recorded one`] : []),
  ];
  out.line(`${formatCount(summary.cases, "case")}: ${amounts.join(", ")}. Nothing was run.`);
}

function explainResult({ error, scores, promptMismatch }: CaseResult): string {
  const wrong = scores.filter(({ pass }) => !pass).map(({ name, why }) => `${name}: ${why}`);
  const warned = promptMismatch === undefined ? [] : ["the prompt is not the recorded one"];
  return [...(error === undefined ? [] : [error]), ...wrong, ...warned].join("; ") || "-";
}

type RecordFlags = Readonly<{ to: string; turn?: boolean; force?: boolean; id?: string }> & InputFlags;
type InputFlags = Readonly<{ messages?: string; prompt?: string }>;

function addEvalRecordCommand(evals: Command, context: Context): void {
  evals
    .command("record")
    .summary("create a case from a recorded session or turn")
    .description(
      "Create a case from the ledger: the calls of a session or a turn and their results. The case expects the same calls; add further expectations to the file. Values that are redacted in the ledger are redacted in the case.",
    )
    .argument("<id>", "a session, or a turn if there is no such session")
    .requiredOption("--to <file>", "the .json file to create, or a .jsonl file to append to")
    .option("--turn", "the id is a turn; with --session, a turn of that session")
    .option("--id <text>", "the name of the case (default: the turn or session)")
    .option("--messages <file>", "JSON input for the subject")
    .option("--prompt <file>", "the text of the prompt, to detect later changes of it")
    .option("--force", "replace an existing .json file")
    .addHelpText(
      ...examples(
        "qm eval record turn-7 --turn --to evals/refund.json",
        "qm eval record chat-1 --to cases.jsonl --prompt prompt.md",
      ),
    )
    .action((id: string, flags: RecordFlags) => runEvalRecord(context, id, flags));
}

async function runEvalRecord(context: Context, id: string, flags: RecordFlags): Promise<void> {
  const { io, out } = context;
  const { recordCase } = await import("../../evals/record-case.ts");
  const messages = await readOptionalFile(io.cwd, flags.messages);
  const prompt = await readOptionalFile(io.cwd, flags.prompt);
  const extras = omitUndefined({
    id: flags.id,
    messages: messages === undefined ? undefined : parseJsonFile(messages, String(flags.messages)),
    prompt,
  });
  const recorded = await reportNotFound(context, () =>
    withWorkspace(context, "ledger", ({ quartermaster: { ledger } }) =>
      querySessionOrTurn(context, id, flags.turn ?? false, (query) => recordCase(ledger, query, extras)),
    ),
  );
  if (recorded === undefined) return;
  await writeCase(resolve(io.cwd, flags.to), recorded, flags.force ?? false);
  const calls = formatCount(recorded.calls.length, "call");
  out.answer(
    { file: flags.to, case: recorded },
    `Wrote ${calls} of ${toOneLine(id)} to ${escapeUnsafe(flags.to)}, as case ${toOneLine(recorded.id)}.
It expects the same calls. Add further expectations under \`expected\`, then run it with \`qm eval\`.`,
  );
}

async function writeCase(file: string, recorded: EvalCase, force: boolean): Promise<void> {
  const isLines = extname(file) === ".jsonl";
  if (!isLines && extname(file) !== ".json")
    throw createUsageError(`${file} is neither a .json nor a .jsonl file`, "Give a file with one of these extensions.");
  try {
    await mkdir(dirname(file), { recursive: true });
    if (isLines) await appendFile(file, `${JSON.stringify(recorded)}\n`);
    else await writeFile(file, `${JSON.stringify(recorded, undefined, 2)}\n`, { flag: force ? "w" : "wx" });
  } catch (thrown) {
    throw createFileWriteError(file, thrown);
  }
}

async function readOptionalFile(cwd: string, file: string | undefined): Promise<string | undefined> {
  if (file === undefined) return undefined;
  return readFile(resolve(cwd, file), "utf8").catch((thrown: unknown) => {
    throw createFileReadError(file, thrown);
  });
}

function parseJsonFile(text: string, file: string): unknown {
  try {
    return JSON.parse(text);
  } catch (thrown) {
    throw new QmError("invalid_arguments", `${file} is not JSON: ${getErrorMessage(thrown)}`, { cause: thrown });
  }
}
