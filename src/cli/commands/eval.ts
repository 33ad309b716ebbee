import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { type Command, Option } from "commander";
import { messageOf, QmError } from "../../core/errors.ts";
import type { DatasetProblem } from "../../evals/dataset.ts";
import type { CaseResult, EvalReport, PromptMismatch } from "../../evals/run-evals.ts";
import type { Subject } from "../../evals/subject.ts";
import { type Context, withWorkspace } from "../context.ts";
import { exitCodes } from "../exit-codes.ts";
import { duration, examples } from "../options.ts";
import type { Output } from "../output.ts";
import { showCount } from "../progress.ts";
import { counted, oneLine, plain } from "../text.ts";
import { addEvalRecord } from "./eval-record.ts";
import { orUnknown, policyIn } from "./replay.ts";

const promptMismatches = ["warn", "error", "ignore"] as const satisfies readonly PromptMismatch[];

interface EvalFlags {
  readonly subject?: string;
  readonly policy?: string;
  readonly promptMismatch: PromptMismatch;
  readonly unrecorded: "fail" | "refuse";
  readonly timeout?: number;
}

export function addEval(program: Command, context: Context): void {
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
    .option("--timeout <time>", "for one case: 500ms, 30s, 2m; a bare number is seconds", duration)
    .addHelpText(
      "after",
      `${examples("qm eval evals/", "qm eval evals/ --subject ./agent.mjs", "qm eval cases.jsonl --policy stricter.yaml --json", "qm eval record turn-7 --turn --to evals/refund.json")}\n\nExit codes: 0 every case passes, 1 one does not or cannot be read, 4 no such dataset.`,
    )
    .action((dataset: string, flags: EvalFlags) => evaluate(context, dataset, flags));
  addEvalRecord(evals, context);
}

async function evaluate(context: Context, path: string, flags: EvalFlags): Promise<void> {
  const { io, out } = context;
  const { promptMismatch: promptHashMismatch, unrecorded, timeout: timeoutMs } = flags;
  // Loaded when it is run: the program starts with the words alone.
  const [{ placeOf, readDataset }, { runEvals }, { besideAnswer }] = await Promise.all([
    import("../../evals/dataset.ts"),
    import("../../evals/run-evals.ts"),
    import("../beside-answer.ts"),
  ]);
  const dataset = await orUnknown(context, () => readDataset(resolve(io.cwd, path)));
  if (dataset === undefined) return;
  const policy = flags.policy === undefined ? undefined : await policyIn(context, flags.policy);
  const progress = showCount(io.stderr, "cases");
  const report = await besideAnswer(io, async () => {
    const subject = flags.subject === undefined ? undefined : await subjectIn(resolve(io.cwd, flags.subject));
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
  else show(out, report, placeOf);
}

async function subjectIn(file: string): Promise<Subject> {
  let module: Record<string, unknown>;
  try {
    module = await import(pathToFileURL(file).href);
  } catch (thrown) {
    throw new QmError("invalid_arguments", `the subject ${file} cannot be loaded: ${messageOf(thrown)}`, {
      cause: thrown,
    });
  }
  const subject = module.default ?? module.subject;
  if (typeof subject === "function") return subject as Subject;
  throw new QmError("invalid_arguments", `${file} exports no subject`, {
    hint: "Export a function as default: export default async (given, { surface }) => ({ parts: [], turnState: 'complete' });",
  });
}

function show(
  out: Output,
  { cases, problems, summary }: EvalReport,
  placeOf: (problem: DatasetProblem) => string,
): void {
  for (const problem of problems) out.note(`qm: ${plain(placeOf(problem))}: ${oneLine(problem.message)}`);
  out.table(
    ["case", "", "score", "why"],
    cases.map((result) => [
      result.id,
      { text: result.pass ? "pass" : "fail", paint: result.pass ? out.good : out.bad },
      result.score.toFixed(2),
      whyOf(result),
    ]),
  );
  if (cases.length > 0) out.line();
  const { passed, failed, promptMismatches: others } = summary;
  const amounts = [
    `${passed} passed`,
    `${failed} failed`,
    ...(problems.length > 0 ? [`${counted(problems.length, "problem")} in the dataset`] : []),
    ...(others > 0 ? [`${others} with another prompt than recorded`] : []),
  ];
  out.line(`${counted(summary.cases, "case")}: ${amounts.join(", ")}. Nothing was run.`);
}

function whyOf({ error, scores, promptMismatch }: CaseResult): string {
  const wrong = scores.filter(({ pass }) => !pass).map(({ name, why }) => `${name}: ${why}`);
  const warned = promptMismatch === undefined ? [] : ["the prompt is not the recorded one"];
  return [...(error === undefined ? [] : [error]), ...wrong, ...warned].join("; ") || "-";
}
