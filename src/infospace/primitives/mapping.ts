import { z } from "zod";
import { defineAction } from "../../catalog/define.ts";
import type { Action, CallContext } from "../../core/action.ts";
import { messageOf, QmError } from "../../core/errors.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import { NAME_LIMIT, quoted } from "../../core/names.ts";
import { modelData, type Outcome } from "../../core/outcome.ts";
import type { Runtime } from "../../core/runtime.ts";
import { handleOf } from "../handle.ts";
import type { Member } from "../infospace.ts";
import type { Input, Inputs } from "../operations/derived.ts";
import { type ItemResult, type MapRun, mapItems } from "../operations/map.ts";
import { INFOSPACE } from "../resource.ts";
import { createSampler, type Sampler, shownFacts } from "../shown.ts";
import { answer, completeness, makerFor, noted, resultName } from "./deriving.ts";
import type { PrimitiveParts } from "./parts.ts";
import { type Source, sourceOf, targetShape } from "./target.ts";
import { templateOf } from "./template.ts";

export type MapParts = PrimitiveParts & Pick<Runtime, "elapsed">;

/** A call may be dear, and what it answered is not to be lost with the process. */
const PORTION = 8;
/** The time that was asked for ends it, and not the time that every action has. */
const MOST_SECONDS = 3600;
const MOST_ITEMS = 1_000_000_000;

/** Running an action for each item of a collection. */
export const mapping = (parts: MapParts): readonly Action[] => [mapAction(parts)];

function mapAction(parts: MapParts): Action {
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
      name: resultName,
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
      const template = templateOf(args as JsonObject | undefined);
      const source = await sourceOf(parts.infospace, target, context);
      // With an item the call itself says so.
      if (source.count <= offset && !context.sees(action)) throw unknownAction(action);
      const ends = parts.elapsed() + max_seconds * 1000;
      const run = mapItems(
        skipping(source.inputs, offset),
        async (input) => {
          const made = template(input);
          if ("missing" in made) return { status: "dropped", reason: made.missing };
          return resultOf(await context.invoke(action, made.args));
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
      return gathered(parts, context, run, { name, action, source, input: Math.max(source.count - offset, 0) });
    },
  });
}

/**
 * Not stopped with the call: what was done is written down all the same, as a collection that is not complete. One that
 * ends because of what was asked for is complete, and says why it ended.
 */
async function gathered(
  { infospace, previewLimit }: MapParts,
  { dialogue, ...context }: CallContext,
  run: MapRun,
  { name, action, source, input }: Asked,
): Promise<JsonObject> {
  const sampler = createSampler(previewLimit);
  let handle = "";
  const told = (): void => {
    const { done, empty, failed, waiting, dropped } = run.report();
    const progress = done + empty + failed + waiting + dropped;
    dialogue?.progress({ progress, total: input, message: `${action} for each: results in ${handle}` });
  };
  const collection = await infospace.collect(makerFor(context, "map"), members(run, sampler, told), {
    name,
    portion: PORTION,
    isWhole: () => run.report().stopped_by !== "cancelled",
    onProgress(written, count) {
      handle = written;
      if (count === 0) told();
    },
  });
  const { taken, ...report } = run.report();
  const counts = { input, ...noted(report), not_run: Math.max(input - taken, 0) };
  const facts = { ...shownFacts(collection), ...counts, ...completeness([source]) };
  return answer(facts, (room) => sampler.shown(room), previewLimit);
}

interface Asked {
  readonly name: string | undefined;
  readonly action: string;
  readonly source: Source;
  readonly input: number;
}

function unknownAction(action: string): QmError {
  return new QmError("unknown_action", `there is no action ${quoted(action)} to run`, {
    hint: "Give its whole name, as a search for actions answers it.",
  });
}

async function* members({ items }: MapRun, sampler: Sampler, told: () => void): AsyncGenerator<Member> {
  for await (const { position, source, content } of items) {
    sampler.take(content);
    told();
    const from = source.id === undefined ? {} : { source: handleOf("note", source.id) };
    yield { content, properties: { source_position: position, ...from } };
  }
}

/**
 * What a model may see of a result, never more: what becomes a note is shown to it. An action that answers is done, also
 * where its answer tells of failures inside, as that of a map over maps does.
 */
function resultOf(outcome: Outcome): ItemResult {
  switch (outcome.status) {
    case "done": {
      const data = modelData(outcome);
      if (data === null || data === undefined) return { status: "empty" };
      try {
        return { status: "done", content: JSON.parse(JSON.stringify(data)) as Json };
      } catch (thrown) {
        return { status: "failed", code: "invalid_output", message: messageOf(thrown) };
      }
    }
    case "waiting":
      return { status: "waiting", approvalId: outcome.approval.id };
    default:
      return { status: "failed", code: outcome.error.code, message: outcome.error.error };
  }
}

async function* skipping(inputs: Inputs, count: number): AsyncGenerator<Input> {
  let position = 0;
  for await (const input of inputs) if (position++ >= count) yield input;
}
