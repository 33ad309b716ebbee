import { type ErrorCode, getErrorMessage } from "../../core/errors.ts";
import { clip, type Json } from "../../core/json.ts";
import { createReasonLog, type PrimitiveItem, type PrimitiveItems } from "./operation.ts";

export type MapItemResult =
  | { readonly status: "done"; readonly content: Json }
  /** The action ran and returned nothing. */
  | { readonly status: "empty" }
  | { readonly status: "failed"; readonly code: string; readonly message: string }
  /** The action waits for an approval. */
  | { readonly status: "waiting"; readonly approvalId: string }
  /** The action was not called, because the item does not fit the arguments. */
  | { readonly status: "dropped"; readonly reason: string };

export interface MapOptions {
  readonly concurrency: number;
  /** The position of the first item. The others follow it. */
  readonly from?: number;
  /** The position of each item, if they do not follow one another. */
  readonly positions?: readonly number[];
  readonly limit?: number;
  /** Asked before each item: whether the time is up. */
  readonly stopWhen?: () => boolean;
  /** Start no more after an item has failed or was dropped. */
  readonly stopOnFailure?: boolean;
  readonly signal?: AbortSignal;
}

type MapStopReason = "limit" | "time" | "failure" | "waiting" | "budget" | "cancelled";
export type MappedItem = Readonly<{ position: number; source: PrimitiveItem; content: Json }>;
const MAX_FAILURES = 5;
/** No more items are started while so many wait for people. */
const MAX_WAITING = 16;
const MESSAGE_LIMIT = 300;
/** How many results per running item may wait for a slow one before them. */
const AHEAD = 4;

/**
 * Runs a function for each item, several at a time. `items` yields the finished ones in the order of the input. Every started
 * call is awaited and counted even after a stop, because it may have had an effect. A rejection of `run` counts as
 * a failure of that item.
 */
export function mapItems(
  inputs: PrimitiveItems,
  run: (input: PrimitiveItem, position: number) => Promise<MapItemResult>,
  { concurrency, from = 0, positions, limit = Number.POSITIVE_INFINITY, stopWhen, ...options }: MapOptions,
) {
  const { stopOnFailure = false, signal } = options;
  const getPosition = (index: number): number => positions?.[index] ?? from + index;
  const counts = { done: 0, empty: 0, failed: 0, waiting: 0, dropped: 0 };
  const failures: { readonly position: number; readonly code: string; readonly message: string }[] = [];
  const approvals = new Map<number, string>();
  const overBudget: number[] = [];
  const reasons = createReasonLog();
  let [taken, waiting, hasFailed, isOverBudget] = [0, 0, false, false];
  let stoppedBy: MapStopReason | undefined;

  function findStopReason(): MapStopReason | undefined {
    if (signal?.aborted) return "cancelled";
    if (isOverBudget) return "budget";
    if (stopOnFailure && hasFailed) return "failure";
    if (taken >= limit) return "limit";
    if (waiting >= MAX_WAITING) return "waiting";
    return stopWhen?.() ? "time" : undefined;
  }

  async function attempt(input: PrimitiveItem, position: number): Promise<MapItemResult> {
    let result: MapItemResult;
    try {
      result = await run(input, position);
    } catch (thrown) {
      result = { status: "failed", code: "internal", message: getErrorMessage(thrown) };
    }
    if (result.status === "failed" || result.status === "dropped") hasFailed = true;
    if (hasExceededBudget(result)) isOverBudget = true;
    if (result.status === "waiting") waiting++;
    return result;
  }

  function count(result: MapItemResult, position: number): void {
    counts[result.status]++;
    if (result.status === "dropped") reasons.add(position, result.reason);
    if (result.status === "waiting") approvals.set(position, result.approvalId);
    if (hasExceededBudget(result)) overBudget.push(position);
    if (result.status === "failed" && failures.length < MAX_FAILURES) {
      failures.push({ position, code: result.code, message: clip(result.message, MESSAGE_LIMIT) });
    }
  }

  async function* items(): AsyncGenerator<MappedItem> {
    const source = Symbol.asyncIterator in inputs ? inputs[Symbol.asyncIterator]() : inputs[Symbol.iterator]();
    const open: StartedItem[] = [];
    let running = 0;
    let isAtEnd = false;
    let broken: { readonly thrown: unknown } | undefined;

    async function startNext(): Promise<void> {
      try {
        // Read before asking for a stop reason: without another item nothing was stopped.
        const next = await source.next();
        stoppedBy = next.done ? undefined : findStopReason();
        isAtEnd = next.done === true || stoppedBy !== undefined;
        if (!isAtEnd) start(next.value);
      } catch (thrown) {
        isAtEnd = true;
        if (signal?.aborted) stoppedBy = "cancelled";
        else broken = { thrown };
      }
    }

    function start(input: PrimitiveItem): void {
      const position = getPosition(taken++);
      const started: StartedItem = { input, position, ended: Promise.resolve() };
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
    /** `taken` is the sum of the counts. `next` is the position to continue at after a stop. */
    report() {
      const stop = stoppedBy === undefined ? {} : { stopped_by: stoppedBy, next: getPosition(taken) };
      return { taken, ...counts, failures, reasons: reasons.first(), ...stop };
    },
    /** The approval that each waiting item waits for, by position. */
    approvals,
    /** The positions of the items that were not run, or not to the end, because a budget is used up. */
    overBudget,
  };
}

const hasExceededBudget = (result: MapItemResult): boolean =>
  result.status === "failed" && result.code === ("budget_exceeded" satisfies ErrorCode);

export type MapRun = ReturnType<typeof mapItems>;
type StartedItem = { input: PrimitiveItem; position: number; ended: Promise<void>; result?: MapItemResult };
