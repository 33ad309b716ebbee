import { getErrorMessage, QmError } from "../../core/errors.ts";
import { clip, getOwn, isRecord, type Json, type JsonObject } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import { type JsonPath, parseJsonPath, readJsonPath } from "../json-path.ts";
import { isList } from "../json-preview.ts";
import { formatHandle } from "../note.ts";
import { createReasonLog, type ItemReason, type PrimitiveItem, type PrimitiveItems } from "./operation.ts";

/** The arguments for one item, or why there are none. */
type TemplateResult = { readonly args: JsonObject } | { readonly missing: string };

const ITEM = "$item";
const HANDLE = "$handle";
/** As other languages write a place into a text. */
const WRITTEN_IN = /\$(?:item|handle)\b|\{\{\s*\$?(?:item|handle)\b|\$\{\s*(?:item|handle)\b/;

/**
 * Arguments with places in them for an item: `{"$item": "owner.id"}` for a part of it, `{"$handle": true}` for its handle.
 * Without any, an item that is an object is the arguments. Throws `invalid_arguments` for a path that is none, and for a text
 * with such a place written into it, which nobody would fill.
 */
export function compileTemplate(written: JsonObject | undefined): (input: PrimitiveItem) => TemplateResult {
  const places = written === undefined ? undefined : parseTemplate(written);
  return (input) => {
    try {
      if (places !== undefined) return { args: fillTemplate(places, input) as JsonObject };
      if (!isRecord(input.content)) return { missing: "it is not an object, so args must say where it goes" };
      return { args: input.content as JsonObject };
    } catch (thrown) {
      if (thrown instanceof QmError) return { missing: thrown.message };
      throw thrown;
    }
  };
}

/** A template that was read once: every place is known, and paths are parsed. */
type TemplateNode =
  | { readonly is: "value"; readonly value: Json }
  | { readonly is: "item"; readonly path: JsonPath }
  | { readonly is: "handle" }
  | { readonly is: "list"; readonly parts: readonly TemplateNode[] }
  | { readonly is: "object"; readonly parts: readonly (readonly [string, TemplateNode])[] };

function parseTemplate(written: Json): TemplateNode {
  if (isList(written)) return { is: "list", parts: written.map(parseTemplate) };
  if (typeof written === "string" && WRITTEN_IN.test(written)) throw embeddedPlaceError(written);
  if (typeof written !== "object" || written === null) return { is: "value", value: written };
  const entries = Object.entries(written);
  if (entries.length === 1) {
    const item = getOwn(written, ITEM);
    if (typeof item === "string") return { is: "item", path: parseJsonPath(item) };
    if (getOwn(written, HANDLE) === true) return { is: "handle" };
  }
  return { is: "object", parts: entries.map(([name, part]) => [name, parseTemplate(part)]) };
}

function fillTemplate(places: TemplateNode, input: PrimitiveItem): Json {
  switch (places.is) {
    case "value":
      return places.value;
    case "handle":
      if (input.id === undefined) throw missing("it is a value that is no note, so it has no handle");
      return formatHandle("note", input.id);
    case "item": {
      const found = readJsonPath(input.content, places.path);
      if (!found.found) throw missing(found.missing);
      return found.value;
    }
    case "list":
      return places.parts.map((part) => fillTemplate(part, input));
    case "object":
      return Object.fromEntries(places.parts.map(([name, part]) => [name, fillTemplate(part, input)]));
  }
}

/** An item that has not what the arguments need. */
function missing(what: string): QmError {
  return new QmError("invalid_arguments", what);
}

function embeddedPlaceError(text: string): QmError {
  const path = /(?:\$|\{\{\s*\$?|\$\{\s*)item\.?([\w.[\]]*)/.exec(text)?.[1]?.replace(/\.$/, "") ?? "";
  return new QmError("invalid_arguments", `nothing is filled in inside a text: ${quoteName(clip(text, 80))}`, {
    hint: `Give the place as the whole value: ${JSON.stringify({ [ITEM]: path })} for a part of the item, {"$handle": true} for its handle.`,
  });
}

/** What came of one item. */
export type MapItemResult =
  | { readonly status: "done"; readonly content: Json }
  /** It ran and answered nothing. */
  | { readonly status: "empty" }
  | { readonly status: "failed"; readonly code: string; readonly message: string }
  /** It has not run yet: a person must agree first. */
  | { readonly status: "waiting"; readonly approvalId: string }
  /** It was not tried, because nothing could be made of the item to try it with. */
  | { readonly status: "dropped"; readonly reason: string };

export interface MapOptions {
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

type MapStopReason = "limit" | "time" | "failure" | "cancelled";

type MapReport = {
  /** Items that were taken: done + empty + failed + waiting + dropped. */
  readonly taken: number;
  readonly done: number;
  readonly empty: number;
  readonly failed: number;
  readonly waiting: number;
  readonly dropped: number;
  readonly failures: readonly { readonly position: number; readonly code: string; readonly message: string }[];
  readonly approval_ids: readonly string[];
  readonly reasons: readonly ItemReason[];
  /** Absent: all were run. */
  readonly stopped_by?: MapStopReason;
  /** Where to go on: the position of the first that was not taken. */
  readonly next?: number;
};

/** What one item was made into, and where it came from. */
export interface MappedItem {
  readonly position: number;
  readonly source: PrimitiveItem;
  readonly content: Json;
}

export interface MapRun {
  /** What is done, in the order of the input, as it comes. To be read once. */
  readonly items: AsyncIterable<MappedItem>;
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
  inputs: PrimitiveItems,
  run: (input: PrimitiveItem, position: number) => Promise<MapItemResult>,
  { concurrency, from = 0, limit = Number.POSITIVE_INFINITY, stopWhen, stopOnFailure = false, signal }: MapOptions,
): MapRun {
  const counts = { done: 0, empty: 0, failed: 0, waiting: 0, dropped: 0 };
  const failures: MapReport["failures"][number][] = [];
  const approvals: string[] = [];
  const reasons = createReasonLog();
  let taken = 0;
  let stoppedBy: MapStopReason | undefined;
  let hasFailed = false;

  function findStopReason(): MapStopReason | undefined {
    if (signal?.aborted) return "cancelled";
    if (stopOnFailure && hasFailed) return "failure";
    if (taken >= limit) return "limit";
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
    return result;
  }

  function count(result: MapItemResult, position: number): void {
    counts[result.status]++;
    if (result.status === "dropped") reasons.add(position, result.reason);
    if (result.status === "waiting" && approvals.length < APPROVALS) approvals.push(result.approvalId);
    if (result.status === "failed" && failures.length < FAILURES) {
      failures.push({ position, code: result.code, message: clip(result.message, MESSAGE_LIMIT) });
    }
  }

  async function* items(): AsyncGenerator<MappedItem> {
    const source = toIterator(inputs);
    const open: StartedItem[] = [];
    let running = 0;
    let isAtEnd = false;
    let broken: { readonly thrown: unknown } | undefined;

    async function startNext(): Promise<void> {
      try {
        // Read first, because without one more nothing has stopped it.
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
      const position = from + taken++;
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

interface StartedItem {
  readonly input: PrimitiveItem;
  readonly position: number;
  ended: Promise<void>;
  result?: MapItemResult;
}

function toIterator(inputs: PrimitiveItems): Iterator<PrimitiveItem> | AsyncIterator<PrimitiveItem> {
  return Symbol.asyncIterator in inputs ? inputs[Symbol.asyncIterator]() : inputs[Symbol.iterator]();
}
