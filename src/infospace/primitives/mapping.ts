import { z } from "zod";
import { defineAction } from "../../catalog/define.ts";
import type { Action, CallContext } from "../../core/action.ts";
import { messageOf } from "../../core/errors.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import { NAME_LIMIT } from "../../core/names.ts";
import { modelData, type Outcome } from "../../core/outcome.ts";
import type { Runtime } from "../../core/runtime.ts";
import { handleOf } from "../handle.ts";
import type { Member } from "../infospace.ts";
import type { Inputs } from "../operations/derived.ts";
import { type ItemResult, type MapRun, mapItems } from "../operations/map.ts";
import { INFOSPACE } from "../resource.ts";
import { createSampler, type Sampler, shownFacts } from "../shown.ts";
import { answer, makerFor, noted, resultName } from "./deriving.ts";
import type { PrimitiveParts } from "./parts.ts";
import { type Input, sourceOf, targetShape } from "./target.ts";
import { templateOf } from "./template.ts";

export type MapParts = PrimitiveParts & Pick<Runtime, "elapsed">;

/** A call may be dear, and what it answered is not to be lost with the process. */
const PORTION = 8;
/** The time that was asked for ends it, and not the time that every action has. */
const MOST_SECONDS = 3600;

/** Running an action for each item of a collection. */
export const mapping = (parts: MapParts): readonly Action[] => [mapAction(parts)];

function mapAction(parts: MapParts): Action {
  return defineAction(INFOSPACE, {
    entry: "map",
    description:
      "Run an action for every item of target and collect what it answers, in order, as a new collection. Counts what is done, failed, empty and waiting for a person; what there is is kept when it is stopped.",
    // Each call is decided on by itself. Of itself it says the most that one of them can do, so that nobody takes it for
    // something that only reads.
    effect: "stateful",
    timeoutMs: (MOST_SECONDS + 60) * 1000,
    input: z.object({
      target: targetShape,
      action: z.string().min(1).max(NAME_LIMIT).describe("The action to run, such as tool__summarize."),
      args: z
        .record(z.string(), z.json())
        .optional()
        .describe(
          'Its arguments. {"$item": "owner.id"} stands for that part of the item, {"$item": ""} for all of it, {"$handle": true} for its handle. Absent: the item itself.',
        ),
      name: resultName,
      concurrency: z.int().min(1).max(16).default(4).describe("How many run at the same time."),
      offset: z.int().min(0).default(0).describe("The position to begin at, such as next of an earlier answer."),
      limit: z.int().min(1).optional().describe("Items at most."),
      max_seconds: z.number().positive().max(MOST_SECONDS).default(50).describe("After this no more are started."),
      on_error: z.enum(["continue", "stop"]).default("continue"),
    }),
    examples: [
      { args: { target: "collection__7", action: "tool__translate", args: { text: { $item: "title" }, to: "de" } } },
    ],
    async run({ target, action, args, name, concurrency, offset, limit, max_seconds, on_error }, context) {
      const template = templateOf(args as JsonObject | undefined);
      const source = await sourceOf(parts.infospace, target, context);
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
      return gathered(parts, context, run, { name, action, input: Math.max(source.count - offset, 0) });
    },
  });
}

/** Not stopped with the call: what was done is written down all the same. */
async function gathered(
  { infospace, previewLimit }: MapParts,
  { dialogue, ...context }: CallContext,
  run: MapRun,
  { name, action, input }: { readonly name: string | undefined; readonly action: string; readonly input: number },
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
    onProgress(written, count) {
      handle = written;
      if (count === 0) told();
    },
  });
  const { taken, ...report } = run.report();
  const facts = { ...shownFacts(collection), input, ...noted(report), not_run: Math.max(input - taken, 0) };
  return answer(facts, (room) => sampler.shown(room), previewLimit);
}

async function* members({ items }: MapRun, sampler: Sampler, told: () => void): AsyncGenerator<Member> {
  for await (const { position, source, content } of items) {
    sampler.take(content);
    told();
    const from = source.id === undefined ? {} : { source: handleOf("note", source.id) };
    yield { content, properties: { source_position: position, ...from } };
  }
}

/** What a model may see of a result, never more: what becomes a note is shown to it. */
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
