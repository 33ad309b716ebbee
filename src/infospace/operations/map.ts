import { messageOf } from "../../core/errors.ts";
import { clip, type Json } from "../../core/json.ts";
import type { Input } from "./derived.ts";
import { createReasons, type Inputs, type Reason } from "./derived.ts";

/** What came of one item. */
export type ItemResult =
  | { readonly status: "done"; readonly content: Json }
  /** It ran and answered nothing. */
  | { readonly status: "empty" }
  | { readonly status: "failed"; readonly code: string; readonly message: string }
  /** It has not run yet: a person must agree first. */
  | { readonly status: "waiting"; readonly approvalId: string }
  /** It was not tried, because nothing could be made of the item to try it with. */
  | { readonly status: "dropped"; readonly reason: string };

export interface Mapping {
  /** How many run at the same time. */
  readonly concurrency: number;
  /** The position of the first; 0 when absent. */
  readonly from?: number;
  /** How many are run at most. */
  readonly limit?: number;
  /** Asked before each: whether to start no more. */
  readonly stopWhen?: () => boolean;
  /** Start no more once one has failed or was dropped. */
  readonly stopOnFailure?: boolean;
  readonly signal?: AbortSignal;
}

export type StoppedBy = "limit" | "time" | "failure" | "cancelled";

export type MapReport = {
  /** Items that were taken: done + empty + failed + waiting + dropped. */
  readonly taken: number;
  readonly done: number;
  readonly empty: number;
  readonly failed: number;
  readonly waiting: number;
  readonly dropped: number;
  readonly failures: readonly { readonly position: number; readonly code: string; readonly message: string }[];
  readonly approval_ids: readonly string[];
  readonly reasons: readonly Reason[];
  /** Absent: all were run. */
  readonly stopped_by?: StoppedBy;
  /** Where to go on: the position of the first that was not taken. */
  readonly next?: number;
};

/** What one item was made into, and where it came from. */
export interface Mapped {
  readonly position: number;
  readonly source: Input;
  readonly content: Json;
}

export interface MapRun {
  /** What is done, in the order of the input, as it comes. To be read once. */
  readonly items: AsyncIterable<Mapped>;
  report(): MapReport;
}

const FAILURES = 5;
const APPROVALS = 50;
const MESSAGE_LIMIT = 300;
/** How far results may run ahead of a slow one that comes before them, in items for each that runs. */
const AHEAD = 4;

/**
 * Runs something for each item, several at a time. Whatever was started is waited for and counted, also when no more are
 * started: it may have had an effect. `run` should not reject; where it does, that item has failed.
 */
export function mapItems(
  inputs: Inputs,
  run: (input: Input, position: number) => Promise<ItemResult>,
  { concurrency, from = 0, limit = Number.POSITIVE_INFINITY, stopWhen, stopOnFailure = false, signal }: Mapping,
): MapRun {
  const counts = { done: 0, empty: 0, failed: 0, waiting: 0, dropped: 0 };
  const failures: MapReport["failures"][number][] = [];
  const approvals: string[] = [];
  const reasons = createReasons();
  let taken = 0;
  let stoppedBy: StoppedBy | undefined;
  let hasFailed = false;

  function stopping(): StoppedBy | undefined {
    if (signal?.aborted) return "cancelled";
    if (stopOnFailure && hasFailed) return "failure";
    if (taken >= limit) return "limit";
    return stopWhen?.() ? "time" : undefined;
  }

  async function attempt(input: Input, position: number): Promise<ItemResult> {
    let result: ItemResult;
    try {
      result = await run(input, position);
    } catch (thrown) {
      result = { status: "failed", code: "internal", message: messageOf(thrown) };
    }
    if (result.status === "failed" || result.status === "dropped") hasFailed = true;
    return result;
  }

  function count(result: ItemResult, position: number): void {
    counts[result.status]++;
    if (result.status === "dropped") reasons.add(position, result.reason);
    if (result.status === "waiting" && approvals.length < APPROVALS) approvals.push(result.approvalId);
    if (result.status === "failed" && failures.length < FAILURES) {
      failures.push({ position, code: result.code, message: clip(result.message, MESSAGE_LIMIT) });
    }
  }

  async function* items(): AsyncGenerator<Mapped> {
    const source = iteratorOf(inputs);
    const open: Started[] = [];
    let running = 0;
    let isAtEnd = false;
    let broken: { readonly thrown: unknown } | undefined;

    async function startNext(): Promise<void> {
      try {
        // Read first, because without one more nothing has stopped it.
        const next = await source.next();
        stoppedBy = next.done ? undefined : stopping();
        isAtEnd = next.done === true || stoppedBy !== undefined;
        if (!isAtEnd) start(next.value);
      } catch (thrown) {
        isAtEnd = true;
        if (signal?.aborted) stoppedBy = "cancelled";
        else broken = { thrown };
      }
    }

    function start(input: Input): void {
      const position = from + taken++;
      const started: Started = { input, position, ended: Promise.resolve() };
      running++;
      started.ended = attempt(input, position).then((result) => {
        started.result = result;
        running--;
      });
      open.push(started);
    }

    try {
      for (;;) {
        while (!isAtEnd && running < concurrency && open.length < concurrency * AHEAD) await startNext();
        const [first] = open;
        if (first === undefined) break;
        if (first.result === undefined) {
          await Promise.race(open.filter(({ result }) => result === undefined).map(({ ended }) => ended));
          continue;
        }
        open.shift();
        const { input, position, result } = first;
        count(result, position);
        if (result.status === "done") yield { position, source: input, content: result.content };
      }
      if (broken !== undefined) throw broken.thrown;
    } finally {
      await Promise.all(open.map(({ ended }) => ended));
      await source.return?.();
    }
  }

  return {
    items: items(),
    report: () => ({
      taken,
      ...counts,
      failures,
      approval_ids: approvals,
      reasons: reasons.first(),
      ...(stoppedBy === undefined ? {} : { stopped_by: stoppedBy, next: from + taken }),
    }),
  };
}

interface Started {
  readonly input: Input;
  readonly position: number;
  ended: Promise<void>;
  result?: ItemResult;
}

function iteratorOf(inputs: Inputs): Iterator<Input> | AsyncIterator<Input> {
  return Symbol.asyncIterator in inputs ? inputs[Symbol.asyncIterator]() : inputs[Symbol.iterator]();
}
