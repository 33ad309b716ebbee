import { z } from "zod";
import { defineAction } from "../../catalog/define-action.ts";
import type { Action, CallContext } from "../../core/action.ts";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import { getOwn, type Json, type JsonObject, omitUndefined } from "../../core/json.ts";
import { NAME_LIMIT, quoteName } from "../../core/names.ts";
import { getModelData, type Outcome } from "../../core/outcome.ts";
import type { Runtime } from "../../core/runtime.ts";
import type { Infospace } from "../infospace.ts";
import { formatHandle } from "../note.ts";
import { type CollectionSampler, createSampler, summarizeResource } from "../preview.ts";
import { INFOSPACE } from "../resource-access.ts";
import type { ItemSource, PrimitiveOptions } from "./derive.ts";
import { createPrimitiveAuthor, formatAnswer, resolveSource, resultNameShape, targetShape } from "./derive.ts";
import { type MapItemResult, type MapRun, mapItems } from "./map-items.ts";
import type { PrimitiveItems } from "./operation.ts";
import { compileTemplate } from "./template.ts";

export type MapPrimitiveOptions = PrimitiveOptions & Pick<Runtime, "elapsed">;

/** Each answer is written at once: a call may be expensive, and a crash should lose few answers. */
const PORTION = 1;
const MAX_SECONDS = 3600;
/** The property of an answer's note with the position of its item. */
const SOURCE_POSITION = "source_position";
const MAX_ITEMS = 1_000_000_000;

export function mapAction(parts: MapPrimitiveOptions): Action {
  return defineAction(INFOSPACE, {
    entry: "map",
    description:
      "Run an action for every item and collect its answers, in order, as a new collection. Counts what is done, failed, empty, dropped and waiting for a person. If items wait, their answers can be added later.",
    // The policy decides on each call. `map` itself declares the strongest effect that a call can have.
    effect: "stateful",
    runsAction: { argument: "action" },
    timeoutMs: (MAX_SECONDS + 60) * 1000,
    handleArguments: ["target"],
    input: z.lazy(() =>
      z.strictObject({
        target: targetShape,
        action: z.string().min(1).max(NAME_LIMIT).describe("Its name, such as tool__summarize."),
        args: z
          .record(z.string(), z.unknown())
          .optional()
          .describe(
            'Its arguments, with {"$item": "owner.id"} for a part of the item, {"$item": ""} for all of it, {"$handle": true} for its handle. Absent: the item; a text is the only required one, or input.',
          ),
        name: resultNameShape,
        concurrency: z.int().min(1).max(16).default(4),
        offset: z.int().min(0).max(MAX_ITEMS).optional().describe("Begin here: next of an earlier answer."),
        limit: z.int().min(1).max(MAX_ITEMS).optional(),
        positions: z
          .array(z.int().min(0).max(MAX_ITEMS))
          .min(1)
          .max(100)
          .optional()
          .describe("Only these items, from continue_with."),
        into: z.string().optional().describe("Adds the answers here, from continue_with. Continues an incomplete one."),
        max_seconds: z.number().positive().max(MAX_SECONDS).default(50),
        on_error: z.enum(["continue", "stop"]).default("continue"),
      }),
    ),
    examples: [
      { args: { target: "collection__7", action: "tool__translate", args: { text: { $item: "title" }, to: "de" } } },
    ],
    async run({ target, action, args, name, concurrency, max_seconds, on_error, into, ...selection }, context) {
      const { limit } = selection;
      const positions = selection.positions && [...new Set(selection.positions)].sort((a, b) => a - b);
      const [visible] = args === undefined ? await context.listVisible([action]) : [];
      const fill = compileTemplate(args as JsonObject | undefined, visible?.inputSchema);
      const source = await resolveSource(parts.infospace, target, context);
      const offset = selection.offset ?? (await findStart(parts.infospace, into, context));
      // With an item to run, the call itself reports an unknown action.
      if (source.count <= offset && !context.sees(action)) {
        const hint = "Give its full name.";
        throw new QmError("unknown_action", `there is no action ${quoteName(action)} to run`, { hint });
      }
      const ends = parts.elapsed() + max_seconds * 1000;
      const run = mapItems(
        selectItems(source.inputs, offset, positions),
        async (input) => {
          const filled = fill(input);
          if ("missing" in filled) return { status: "dropped", reason: filled.missing };
          return toItemResult(await context.invoke(action, filled.args));
        },
        {
          concurrency,
          from: offset,
          stopOnFailure: on_error === "stop",
          stopWhen: () => parts.elapsed() >= ends,
          signal: context.signal,
          ...omitUndefined({ limit, positions }),
        },
      );
      const input = positions?.length ?? Math.max(source.count - offset, 0);
      return collectResults(parts, context, run, {
        name,
        into,
        action,
        source,
        input,
        isPartial: positions !== undefined,
      });
    },
  });
}

/** The position after all answers of a collection that an abort or a crash left incomplete, or 0. */
async function findStart(
  infospace: Infospace,
  into: string | undefined,
  { caller, signal }: CallContext,
): Promise<number> {
  if (into === undefined) return 0;
  const collection = await infospace.collection(into, caller);
  if (collection.complete) return 0;
  let start = 0;
  // Not only the last item: single positions may have been added since.
  for await (const { id } of infospace.items(collection, { signal })) {
    const { properties } = await infospace.resource(formatHandle("note", id), caller);
    const position = getOwn(properties, SOURCE_POSITION);
    if (typeof position === "number") start = Math.max(start, position + 1);
  }
  return start;
}

/**
 * An aborted call still stores its results, as an incomplete collection, so this does not pass the signal on. A stop that
 * was asked for (limit, time, failure) gives a complete collection and its reason.
 */
async function collectResults(
  { infospace, previewLimit }: MapPrimitiveOptions,
  { dialogue, ...context }: CallContext,
  run: MapRun,
  request: {
    name: string | undefined;
    into: string | undefined;
    action: string;
    source: ItemSource;
    input: number;
    isPartial: boolean;
  },
): Promise<JsonObject> {
  const { name, into, action, source, input, isPartial } = request;
  const sampler = createSampler(previewLimit);
  let handle = "";
  const reportProgress = (): void => {
    const { done, empty, failed, waiting, dropped } = run.report();
    const progress = done + empty + failed + waiting + dropped;
    dialogue?.progress({ progress, total: input, message: `${action} for each: results in ${handle}` });
  };
  const members = toMapMembers(run, sampler, reportProgress);
  const maker = createPrimitiveAuthor(context, "map");
  const isWhole = () => run.report().stopped_by !== "cancelled";
  const collection =
    into === undefined
      ? await infospace.collect(maker, members, {
          name,
          portion: PORTION,
          isWhole,
          onProgress(written, count) {
            handle = written;
            if (count === 0) reportProgress();
          },
        })
      : await infospace.add(maker, into, members, {
          portion: PORTION,
          // Single items do not complete a collection that was interrupted.
          isWhole: () => !isPartial && isWhole(),
        });
  const { taken, ...report } = run.report();
  const counts = { input, ...report, not_run: Math.max(input - taken, 0) };
  const facts = summarizeResource(collection);
  const waits = toContinuation(run, facts.handle ?? null);
  return formatAnswer({ ...facts, ...waits }, counts, [source], sampler.preview, previewLimit);
}

/** Which items wait, and the arguments that run alone those that wait or exceeded a budget. */
function toContinuation({ approvals, overBudget }: MapRun, into: Json): JsonObject {
  const positions = [...approvals.keys(), ...overBudget].sort((a, b) => a - b);
  if (positions.length === 0) return {};
  const waits = approvals.size === 0 ? {} : { waiting_items: Object.fromEntries(approvals) };
  return { ...waits, continue_with: { positions, into } };
}

async function* toMapMembers({ items }: MapRun, sampler: CollectionSampler, onItem: () => void) {
  for await (const { position, source, content } of items) {
    sampler.take(content);
    onItem();
    const from = source.id === undefined ? {} : { source: formatHandle("note", source.id) };
    yield { content, properties: { [SOURCE_POSITION]: position, ...from } };
  }
}

/** Only the data that a model may see: the resulting note can be shown to it. */
function toItemResult(outcome: Outcome): MapItemResult {
  if (outcome.status === "waiting") return { status: "waiting", approvalId: outcome.approval.id };
  if (outcome.status !== "done") return { status: "failed", code: outcome.error.code, message: outcome.error.error };
  const data = getModelData(outcome);
  if (data === null || data === undefined) return { status: "empty" };
  try {
    return { status: "done", content: JSON.parse(JSON.stringify(data)) as Json };
  } catch (thrown) {
    return { status: "failed", code: "invalid_output", message: getErrorMessage(thrown) };
  }
}

/** The items from the offset on, or those at the positions alone. */
async function* selectItems(inputs: PrimitiveItems, offset: number, positions: readonly number[] | undefined) {
  const wanted = positions && new Set(positions);
  let position = 0;
  for await (const input of inputs) {
    if (wanted === undefined ? position >= offset : wanted.delete(position)) yield input;
    if (wanted?.size === 0) return;
    position++;
  }
}
