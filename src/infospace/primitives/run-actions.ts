import { z } from "zod";
import { defineAction } from "../../catalog/define-action.ts";
import type { Action, CallContext } from "../../core/action.ts";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import { NAME_LIMIT, quoteName } from "../../core/names.ts";
import { getModelData, type Outcome } from "../../core/outcome.ts";
import type { Runtime } from "../../core/runtime.ts";
import type { CollectionMember } from "../infospace.ts";
import { formatHandle } from "../note.ts";
import { type CollectionSampler, createSampler, summarizeResource } from "../preview.ts";
import type { NoteAuthor } from "../provenance.ts";
import { INFOSPACE } from "../resource-access.ts";
import { storeValue } from "../store-value.ts";
import type { PrimitiveFactory, PrimitiveOptions } from "./derive.ts";
import {
  createPrimitiveAuthor,
  formatAnswer,
  type ItemSource,
  newNameShape,
  omitEmptyFacts,
  reportIncomplete,
  resolveSource,
  resultNameShape,
  targetShape,
} from "./derive.ts";
import { compileTemplate, type MapItemResult, type MapRun, mapItems } from "./map-items.ts";
import { streamMembers } from "./members.ts";
import type { PrimitiveItem, PrimitiveItems } from "./operation.ts";

/** Running other actions and keeping what they answer. */
export const applyActions: PrimitiveFactory = (parts) => [applyAction(parts)];

function applyAction(parts: PrimitiveOptions): Action {
  return defineAction(INFOSPACE, {
    entry: "apply",
    description: "Run any action and keep its result as a note or a collection, however short. Answers its handle.",
    // What it runs is decided on by itself. Of itself it says the most that it can do, so that nobody takes it for reading.
    effect: "stateful",
    input: z.strictObject({
      action: z.string().min(1).max(NAME_LIMIT),
      args: z.record(z.string(), z.unknown()).default({}),
      name: newNameShape,
    }),
    examples: [{ args: { action: "web__fetch", args: { url: "https://example.com" }, name: "page" } }],
    async run({ action, args, name }, context) {
      const outcome = await context.settled(await context.invoke(action, args));
      if (outcome.status !== "done") throw toError(outcome);
      return storeOutcome(parts, outcome, createPrimitiveAuthor(context, "apply"), name, context);
    },
  });
}

/** What came bit by bit is kept already; with a name its notes are collected under that. */
async function storeOutcome(
  { infospace, previewLimit }: PrimitiveOptions,
  outcome: DoneOutcome,
  maker: NoteAuthor,
  name: string | undefined,
  { caller, signal }: CallContext,
): Promise<JsonObject> {
  const { action, kept: already } = outcome;
  if (already === undefined) {
    const made = await storeValue(getModelData(outcome), { infospace, maker, previewLimit, name, signal });
    return { action, ...made.preview(previewLimit - JSON.stringify({ action }).length) };
  }
  const shown = getModelData(outcome) as JsonObject;
  if (name === undefined || already.count === undefined) return { action, ...shown };
  const collection = await infospace.collection(already.handle, caller);
  const members = streamMembers(infospace.items(collection, { signal }));
  return { action, ...shown, ...summarizeResource(await infospace.collect(maker, members, { name, signal })) };
}

type DoneOutcome = Extract<Outcome, { readonly status: "done" }>;

/** The same failure, as if it had been called by itself. */
function toError(outcome: Exclude<Outcome, DoneOutcome>): QmError {
  if (outcome.status === "waiting") {
    const { id } = outcome.approval;
    return new QmError("conflict", `${outcome.action} waits for a person to agree: ${outcome.reason}`, {
      details: { approval_id: id },
    });
  }
  const { code, error, hint, ...details } = outcome.error;
  return new QmError(code, error, { ...(hint === undefined ? {} : { hint }), details, content: outcome.content });
}

export type MapPrimitiveOptions = PrimitiveOptions & Pick<Runtime, "elapsed">;

/** A call may be dear, and what it answered is not to be lost with the process. */
const PORTION = 8;
/** The time that was asked for ends it, and not the time that every action has. */
const MOST_SECONDS = 3600;
const MOST_ITEMS = 1_000_000_000;

/** Running an action for each item of a collection. */
export const mapActions = (parts: MapPrimitiveOptions): readonly Action[] => [mapAction(parts)];

function mapAction(parts: MapPrimitiveOptions): Action {
  return defineAction(INFOSPACE, {
    entry: "map",
    description:
      "Run an action for every item and collect its answers, in order, as a new collection. Counts what is done, failed, empty, dropped and waiting for a person.",
    // Each call is decided on by itself. Of itself it says the most that one of them can do, so that nobody takes it for
    // something that only reads.
    effect: "stateful",
    timeoutMs: (MOST_SECONDS + 60) * 1000,
    handleArguments: ["target"],
    input: z.strictObject({
      target: targetShape,
      action: z.string().min(1).max(NAME_LIMIT).describe("Its name, such as tool__summarize."),
      args: z
        .record(z.string(), z.unknown())
        .optional()
        .describe(
          'Its arguments, with {"$item": "owner.id"} for a part of the item, {"$item": ""} for all of it, {"$handle": true} for its handle. Absent: the item.',
        ),
      name: resultNameShape,
      concurrency: z.int().min(1).max(16).default(4),
      offset: z.int().min(0).max(MOST_ITEMS).default(0).describe("Position to begin at: next of an earlier answer."),
      limit: z.int().min(1).max(MOST_ITEMS).optional(),
      max_seconds: z.number().positive().max(MOST_SECONDS).default(50),
      on_error: z.enum(["continue", "stop"]).default("continue"),
    }),
    examples: [
      { args: { target: "collection__7", action: "tool__translate", args: { text: { $item: "title" }, to: "de" } } },
    ],
    async run({ target, action, args, name, concurrency, offset, limit, max_seconds, on_error }, context) {
      const template = compileTemplate(args as JsonObject | undefined);
      const source = await resolveSource(parts.infospace, target, context);
      // With an item the call itself says so.
      if (source.count <= offset && !context.sees(action)) throw unknownActionError(action);
      const ends = parts.elapsed() + max_seconds * 1000;
      const run = mapItems(
        skipItems(source.inputs, offset),
        async (input) => {
          const made = template(input);
          if ("missing" in made) return { status: "dropped", reason: made.missing };
          return toItemResult(await context.invoke(action, made.args));
        },
        {
          concurrency,
          from: offset,
          stopOnFailure: on_error === "stop",
          stopWhen: () => parts.elapsed() >= ends,
          signal: context.signal,
          ...(limit === undefined ? {} : { limit }),
        },
      );
      return collectResults(parts, context, run, { name, action, source, input: Math.max(source.count - offset, 0) });
    },
  });
}

/**
 * Not stopped with the call: what was done is written down all the same, as a collection that is not complete. One that
 * ends because of what was asked for is complete, and says why it ended.
 */
async function collectResults(
  { infospace, previewLimit }: MapPrimitiveOptions,
  { dialogue, ...context }: CallContext,
  run: MapRun,
  { name, action, source, input }: MapRequest,
): Promise<JsonObject> {
  const sampler = createSampler(previewLimit);
  let handle = "";
  const reportProgress = (): void => {
    const { done, empty, failed, waiting, dropped } = run.report();
    const progress = done + empty + failed + waiting + dropped;
    dialogue?.progress({ progress, total: input, message: `${action} for each: results in ${handle}` });
  };
  const collection = await infospace.collect(
    createPrimitiveAuthor(context, "map"),
    toMapMembers(run, sampler, reportProgress),
    {
      name,
      portion: PORTION,
      isWhole: () => run.report().stopped_by !== "cancelled",
      onProgress(written, count) {
        handle = written;
        if (count === 0) reportProgress();
      },
    },
  );
  const { taken, ...report } = run.report();
  const counts = { input, ...omitEmptyFacts(report), not_run: Math.max(input - taken, 0) };
  const facts = { ...summarizeResource(collection), ...counts, ...reportIncomplete([source]) };
  return formatAnswer(facts, (room) => sampler.preview(room), previewLimit);
}

interface MapRequest {
  readonly name: string | undefined;
  readonly action: string;
  readonly source: ItemSource;
  readonly input: number;
}

function unknownActionError(action: string): QmError {
  return new QmError("unknown_action", `there is no action ${quoteName(action)} to run`, {
    hint: "Give its whole name, as a search for actions answers it.",
  });
}

async function* toMapMembers(
  { items }: MapRun,
  sampler: CollectionSampler,
  told: () => void,
): AsyncGenerator<CollectionMember> {
  for await (const { position, source, content } of items) {
    sampler.take(content);
    told();
    const from = source.id === undefined ? {} : { source: formatHandle("note", source.id) };
    yield { content, properties: { source_position: position, ...from } };
  }
}

/**
 * What a model may see of a result, never more: what becomes a note is shown to it. An action that answers is done, also
 * where its answer tells of failures inside, as that of a map over maps does.
 */
function toItemResult(outcome: Outcome): MapItemResult {
  switch (outcome.status) {
    case "done": {
      const data = getModelData(outcome);
      if (data === null || data === undefined) return { status: "empty" };
      try {
        return { status: "done", content: JSON.parse(JSON.stringify(data)) as Json };
      } catch (thrown) {
        return { status: "failed", code: "invalid_output", message: getErrorMessage(thrown) };
      }
    }
    case "waiting":
      return { status: "waiting", approvalId: outcome.approval.id };
    default:
      return { status: "failed", code: outcome.error.code, message: outcome.error.error };
  }
}

async function* skipItems(inputs: PrimitiveItems, count: number): AsyncGenerator<PrimitiveItem> {
  let position = 0;
  for await (const input of inputs) if (position++ >= count) yield input;
}
