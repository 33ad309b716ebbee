import { getErrorMessage, QmError } from "../core/errors.ts";
import type { Rehearsal } from "../replay/rehearsal.ts";
import type { Replay } from "../replay/replay.ts";
import type { RehearsedCall } from "../replay/scripted-call.ts";
import type { Dataset, DatasetCase, DatasetProblem } from "./dataset.ts";
import { type EvalCase, promptHash } from "./eval-case.ts";
import { runScorer, type Score, type Scorer, scorers as standardScorers } from "./scorers.ts";
import { type Envelope, parseEnvelope, repeatCalls, type Subject, sameOutcomes } from "./subject.ts";

export const promptMismatches = ["warn", "error", "ignore"] as const;

/** What another prompt than the recorded one means: a warning, a failed case, or nothing. */
export type PromptMismatch = (typeof promptMismatches)[number];

export interface EvalOptions {
  /** A quartermaster, or whatever else can rehearse. */
  readonly quartermaster: Pick<Replay, "rehearse">;
  /** Decide as this policy says. Absent: as the quartermaster's. */
  readonly policy?: NonNullable<Parameters<Replay["rehearse"]>[1]>["policy"];
  /** Beside those of what cases expect. */
  readonly scorers?: readonly Scorer[];
  /** Absent: `warn`. */
  readonly promptHashMismatch?: PromptMismatch;
  /**
   * What a call is answered that has no recorded result. `fail`: it failed, and so has the case; `refuse`: it may not be
   * made, and the case is judged by its expectations alone. Absent: `fail`.
   */
  readonly unrecorded?: "fail" | "refuse";
  /** How long one case may take. Absent: two minutes. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
  /** Told of every case when it is over. */
  readonly onCase?: (result: CaseResult, progress: { readonly done: number; readonly total: number }) => void;
}

export interface CaseResult {
  readonly id: string;
  readonly file?: string;
  readonly line?: number;
  readonly pass: boolean;
  /** Of all its scores, from 0 to 1. */
  readonly score: number;
  readonly scores: readonly Score[];
  readonly calls: readonly RehearsedCall[];
  /** Calls that there was no recorded result for. */
  readonly unrecorded: readonly Pick<RehearsedCall, "asked" | "args">[];
  readonly turnState?: string;
  /** That the prompt is not the recorded one. */
  readonly promptMismatch?: { readonly recorded: string; readonly now: string };
  /** Why there is nothing to judge. */
  readonly error?: string;
}

export interface EvalReport {
  readonly cases: readonly CaseResult[];
  /** What is no case in the dataset. */
  readonly problems: readonly DatasetProblem[];
  readonly summary: {
    readonly cases: number;
    readonly passed: number;
    readonly failed: number;
    readonly problems: number;
    readonly promptMismatches: number;
    /** The mean of the cases' scores. */
    readonly score: number;
    /** Calls that were really made: none, however the cases went. */
    readonly realCalls: 0;
  };
}

const TIMEOUT_MS = 120_000;

/**
 * Has a subject do the work of every case, one after the other, with recorded results for what it calls, and judges it.
 * Without a subject the recorded calls are made again and must end as they did. A case that goes wrong stops no other.
 */
export async function runEvals(
  dataset: Dataset | readonly EvalCase[],
  subject: Subject | undefined,
  options: EvalOptions,
): Promise<EvalReport> {
  const { cases, problems } = toDataset(dataset);
  const results: CaseResult[] = [];
  for (const each of cases) {
    if (options.signal?.aborted)
      throw new QmError("cancelled", `stopped after ${results.length} of ${cases.length} cases`);
    const result = await runCase(each, subject, options);
    results.push(result);
    options.onCase?.(result, { done: results.length, total: cases.length });
  }
  const passed = results.filter(({ pass }) => pass).length;
  return {
    cases: results,
    problems,
    summary: {
      cases: results.length,
      passed,
      failed: results.length - passed,
      problems: problems.length,
      promptMismatches: results.filter(({ promptMismatch }) => promptMismatch !== undefined).length,
      score: mean(results.map(({ score }) => score)),
      realCalls: 0,
    },
  };
}

function toDataset(given: Dataset | readonly EvalCase[]): {
  readonly cases: readonly (Pick<DatasetCase, "case"> & Partial<DatasetCase>)[];
  readonly problems: readonly DatasetProblem[];
} {
  const dataset = "problems" in given ? given : { cases: given.map((each) => ({ case: each })), problems: [] };
  if (dataset.cases.length > 0 || dataset.problems.length > 0) return dataset;
  throw new QmError("invalid_arguments", "the dataset holds no case", { hint: "`recordCase` makes one of a turn." });
}

async function runCase(
  { case: given, file, line }: Pick<DatasetCase, "case"> & Partial<DatasetCase>,
  subject: Subject | undefined,
  options: EvalOptions,
): Promise<CaseResult> {
  const { unrecorded = "fail", policy, quartermaster } = options;
  const place = { id: given.id, ...(file === undefined ? {} : { file }), ...(line === undefined ? {} : { line }) };
  const limit = createTimeLimit(options);
  let rehearsal: Rehearsal | undefined;
  try {
    rehearsal = await quartermaster.rehearse(given.calls, {
      ...(given.caller === undefined ? {} : { caller: given.caller }),
      ...(policy === undefined ? {} : { policy }),
      unrecorded: unrecorded === "fail" ? "failed" : "refused",
      signal: limit.signal,
    });
    const work =
      subject === undefined
        ? repeatCalls(given, rehearsal)
        : subject(given, { surface: rehearsal.surface, signal: limit.signal });
    const envelope = parseEnvelope(await limit.of(work));
    return { ...place, ...(await judgeCase(given, envelope, rehearsal.calls, subject, options)) };
  } catch (thrown) {
    const calls = rehearsal?.calls ?? [];
    const error = getErrorMessage(thrown);
    return { ...place, pass: false, score: 0, scores: [], calls, unrecorded: listUnscripted(calls), error };
  } finally {
    limit.clear();
  }
}

async function judgeCase(
  given: EvalCase,
  envelope: Envelope,
  calls: readonly RehearsedCall[],
  subject: Subject | undefined,
  { scorers = [], promptHashMismatch = "warn", unrecorded = "fail" }: EvalOptions,
): Promise<Omit<CaseResult, "id">> {
  const judges = [...(subject === undefined ? [sameOutcomes] : []), ...standardScorers, ...scorers];
  const scores: Score[] = [];
  for (const scorer of judges) {
    const score = await runScorer(scorer, { case: given, envelope, calls });
    if (score !== undefined) scores.push(score);
  }
  const missing = listUnscripted(calls);
  if (missing.length > 0 && unrecorded === "fail") scores.push(createFailure("unrecorded", formatUnrecorded(missing)));
  const mismatch = promptHashMismatch === "ignore" ? undefined : findPromptMismatch(given, envelope);
  if (mismatch !== undefined && promptHashMismatch === "error")
    scores.push(
      createFailure("prompt", `the prompt is another one: ${mismatch.now}, recorded was ${mismatch.recorded}`),
    );
  if (scores.length === 0) scores.push(createFailure("expected", "the case expects nothing, so it says nothing"));
  return {
    pass: scores.every(({ pass }) => pass),
    score: mean(scores.map(({ score }) => score)),
    scores,
    calls,
    unrecorded: missing,
    turnState: envelope.turnState,
    ...(mismatch === undefined ? {} : { promptMismatch: mismatch }),
  };
}

function listUnscripted(calls: readonly RehearsedCall[]): CaseResult["unrecorded"] {
  return calls.filter(({ isScripted }) => !isScripted).map(({ asked, args }) => ({ asked, args }));
}

function formatUnrecorded(missing: CaseResult["unrecorded"]): string {
  const names = [...new Set(missing.map(({ asked }) => asked))].join(", ");
  return `there is no recorded result for ${names} with these arguments`;
}

function findPromptMismatch({ prompt }: EvalCase, { prompt: given }: Envelope): CaseResult["promptMismatch"] {
  if (prompt === undefined || given === undefined) return undefined;
  const now = "text" in given ? promptHash(given.text) : given.hash;
  return now === prompt.hash ? undefined : { recorded: prompt.hash, now };
}

function createFailure(name: string, why: string): Score {
  return { name, pass: false, score: 0, why };
}

function mean(values: readonly number[]): number {
  return values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** Ends the wait for a case when its time is up; a subject that ignores its signal is not waited for. */
function createTimeLimit({ timeoutMs = TIMEOUT_MS, signal: outer }: EvalOptions) {
  const controller = new AbortController();
  const { signal } = controller;
  const timer = setTimeout(() => controller.abort(new Error(`it did not end within ${timeoutMs} ms`)), timeoutMs);
  const cancel = (): void => controller.abort(new Error("it was cancelled"));
  outer?.addEventListener("abort", cancel, { once: true });
  if (outer?.aborted) cancel();
  return {
    signal,
    of: <T>(work: T | Promise<T>): Promise<T> =>
      new Promise((resolve, reject) => {
        const abort = (): void => reject(signal.reason);
        if (signal.aborted) abort();
        signal.addEventListener("abort", abort, { once: true });
        Promise.resolve(work).then(resolve, reject);
      }),
    clear(): void {
      clearTimeout(timer);
      outer?.removeEventListener("abort", cancel);
      // Whatever the subject still does is answered that it is over.
      controller.abort(new Error("the case is over"));
    },
  };
}
