import { withTimeout } from "../core/async.ts";
import { getErrorMessage, QmError } from "../core/errors.ts";
import { omitUndefined } from "../core/json.ts";
import type { Rehearsal } from "../replay/rehearsal.ts";
import type { Replay } from "../replay/replay.ts";
import type { RehearsedCall } from "../replay/scripted-call.ts";
import type { Dataset, DatasetCase, DatasetProblem } from "./dataset.ts";
import { type EvalCase, promptHash } from "./eval-case.ts";
import { runScorer, type Score, type Scorer, scorers as standardScorers } from "./scorers.ts";
import { type Envelope, parseEnvelope, repeatCalls, type Subject, sameOutcomes } from "./subject.ts";

/** The effect of a prompt that differs from the recorded one: a warning, a failed case, or none. */
export type PromptMismatch = "warn" | "error" | "ignore";

export interface EvalOptions {
  /** A quartermaster, or anything else that can rehearse. */
  readonly quartermaster: Pick<Replay, "rehearse">;
  /** The policy to decide by. Default: the quartermaster's. */
  readonly policy?: NonNullable<Parameters<Replay["rehearse"]>[1]>["policy"];
  /** Further scorers, beside those of the expectations. */
  readonly scorers?: readonly Scorer[];
  /** Default: `warn`. */
  readonly promptHashMismatch?: PromptMismatch;
  /**
   * The answer to a call without a recorded result. `fail`: the call and the case fail. `refuse`: the call is refused, and
   * the case is scored by its expectations alone. Default: `fail`.
   */
  readonly unrecorded?: "fail" | "refuse";
  /** The time limit of one case. Default: two minutes. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
  readonly onCase?: (result: CaseResult, progress: { readonly done: number; readonly total: number }) => void;
}

export interface CaseResult {
  readonly id: string;
  readonly file?: string;
  readonly line?: number;
  readonly pass: boolean;
  /** The mean of its scores, from 0 to 1. */
  readonly score: number;
  readonly scores: readonly Score[];
  readonly calls: readonly RehearsedCall[];
  readonly unrecorded: readonly Pick<RehearsedCall, "asked" | "args">[];
  readonly turnState?: string;
  /** Present if the prompt differs from the recorded one. */
  readonly promptMismatch?: { readonly recorded: string; readonly now: string };
  /** Why the case could not be scored. */
  readonly error?: string;
}

export interface EvalReport {
  readonly cases: readonly CaseResult[];
  readonly problems: readonly DatasetProblem[];
  /** `score` is the mean of the cases' scores. An evaluation makes no real calls. */
  readonly summary: EvalCounts & Readonly<{ score: number; realCalls: 0 }>;
}

type EvalCounts = Readonly<Record<"cases" | "passed" | "failed" | "problems" | "promptMismatches", number>>;
type Cases = Dataset | readonly EvalCase[];
type LocatedCase = Pick<DatasetCase, "case"> & Partial<DatasetCase>;

/**
 * Lets a subject work on every case, one after the other, answers its calls with recorded results, and scores it. Without
 * a subject, the recorded calls are repeated and must end as they did. A failing case does not stop the others.
 */
export async function runEvals(
  dataset: Cases,
  subject: Subject | undefined,
  options: EvalOptions,
): Promise<EvalReport> {
  const problems = "problems" in dataset ? dataset.problems : [];
  const cases: readonly LocatedCase[] = "cases" in dataset ? dataset.cases : dataset.map((each) => ({ case: each }));
  if (cases.length === 0 && problems.length === 0)
    throw new QmError("invalid_arguments", "the dataset has no cases", { hint: "Create one with `recordCase`." });
  const results: CaseResult[] = [];
  for (const each of cases) {
    const { length: done } = results;
    if (options.signal?.aborted) throw new QmError("cancelled", `stopped after ${done} of ${cases.length} cases`);
    const result = await runCase(each, subject, options);
    results.push(result);
    options.onCase?.(result, { done: results.length, total: cases.length });
  }
  const passed = results.filter(({ pass }) => pass).length;
  const summary = {
    cases: results.length,
    passed,
    failed: results.length - passed,
    problems: problems.length,
    promptMismatches: results.filter(({ promptMismatch }) => promptMismatch !== undefined).length,
    score: mean(results.map(({ score }) => score)),
    realCalls: 0,
  } as const;
  return { cases: results, problems, summary };
}

async function runCase(located: LocatedCase, subject: Subject | undefined, options: EvalOptions): Promise<CaseResult> {
  const { case: evalCase, file, line } = located;
  const { unrecorded = "fail", policy, quartermaster, timeoutMs: ms = 120_000, signal: outer } = options;
  const { id, calls, caller } = evalCase;
  const location = { id, ...omitUndefined({ file, line }) };
  const limit = {
    ms,
    signal: outer,
    timeoutError: () => new Error(`it did not end within ${ms} ms`),
    abortError: () => new Error("it was cancelled"),
  };
  const ended = new AbortController();
  let rehearsal: Rehearsal | undefined;
  try {
    const envelope = await withTimeout(limit, async (limited) => {
      const signal = AbortSignal.any([limited, ended.signal]);
      const status = unrecorded === "fail" ? "failed" : "refused";
      const settings = { ...omitUndefined({ caller, policy }), unrecorded: status, signal } as const;
      rehearsal = await quartermaster.rehearse(calls, settings);
      if (subject === undefined) return repeatCalls(evalCase, rehearsal);
      return parseEnvelope(await subject(evalCase, { surface: rehearsal.surface, signal }));
    });
    return { ...location, ...(await scoreCase(evalCase, envelope, rehearsal?.calls ?? [], subject, options)) };
  } catch (thrown) {
    const made = rehearsal?.calls ?? [];
    const error = getErrorMessage(thrown);
    return { ...location, pass: false, score: 0, scores: [], calls: made, unrecorded: listUnscripted(made), error };
  } finally {
    // Cancels later calls of a subject that is still running.
    ended.abort(new Error("the case is over"));
  }
}

async function scoreCase(
  evalCase: EvalCase,
  envelope: Envelope,
  calls: readonly RehearsedCall[],
  subject: Subject | undefined,
  { scorers = [], promptHashMismatch = "warn", unrecorded = "fail" }: EvalOptions,
): Promise<Omit<CaseResult, "id">> {
  const scores: Score[] = [];
  for (const scorer of [...(subject === undefined ? [sameOutcomes] : []), ...standardScorers, ...scorers]) {
    const score = await runScorer(scorer, { case: evalCase, envelope, calls });
    if (score !== undefined) scores.push(score);
  }
  const addFailure = (name: string, why: string) => scores.push({ name, pass: false, score: 0, why });
  const missing = listUnscripted(calls);
  if (missing.length > 0 && unrecorded === "fail") {
    const names = [...new Set(missing.map(({ asked }) => asked))].join(", ");
    addFailure("unrecorded", `there is no recorded result for ${names} with these arguments`);
  }
  const promptMismatch = promptHashMismatch === "ignore" ? undefined : findPromptMismatch(evalCase, envelope);
  if (promptMismatch !== undefined && promptHashMismatch === "error")
    addFailure("prompt", `the prompt has changed: ${promptMismatch.now}, recorded was ${promptMismatch.recorded}`);
  if (scores.length === 0) addFailure("expected", "the case has no expectations");
  return {
    pass: scores.every(({ pass }) => pass),
    score: mean(scores.map(({ score }) => score)),
    scores,
    calls,
    unrecorded: missing,
    turnState: envelope.turnState,
    ...omitUndefined({ promptMismatch }),
  };
}

function listUnscripted(calls: readonly RehearsedCall[]): CaseResult["unrecorded"] {
  return calls.filter(({ isScripted }) => !isScripted).map(({ asked, args }) => ({ asked, args }));
}

function findPromptMismatch({ prompt: recorded }: EvalCase, { prompt }: Envelope): CaseResult["promptMismatch"] {
  if (recorded === undefined || prompt === undefined) return undefined;
  const now = "text" in prompt ? promptHash(prompt.text) : prompt.hash;
  return now === recorded.hash ? undefined : { recorded: recorded.hash, now };
}

function mean(values: readonly number[]): number {
  return values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length;
}
