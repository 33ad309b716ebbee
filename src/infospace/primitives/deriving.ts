import { setImmediate } from "node:timers/promises";
import { z } from "zod";
import type { CallContext } from "../../core/action.ts";
import type { Effect } from "../../core/effect.ts";
import type { JsonObject } from "../../core/json.ts";
import { actionName } from "../../core/names.ts";
import type { Maker } from "../maker.ts";
import type { Derived } from "../operations/derived.ts";
import { INFOSPACE } from "../resource.ts";
import { createSampler, shownFacts } from "../shown.ts";
import { membersFrom } from "./members.ts";
import type { PrimitiveParts } from "./parts.ts";
import { type Input, sourceOf, type Target } from "./target.ts";

/** They change nothing that is there: all they leave is a collection of the caller's own that nobody has saved. */
export const DERIVES: Effect = "read";

export const resultName = z
  .string()
  .trim()
  .min(1)
  .max(200)
  .optional()
  .describe("A name for the result. The same name again is its next version.");

export const pathShape = z.string().max(512);

export function makerFor({ caller, callId }: CallContext, entry: string): Maker {
  return { caller, callId, action: actionName(INFOSPACE, entry) };
}

/** Between so many items others get their turn, and the call can end. */
const BREATH = 100;

/** What an operation goes over, such that a long one can be stopped: what is in memory already comes without a pause. */
export async function inputsOf(
  { infospace }: PrimitiveParts,
  target: Target,
  context: CallContext,
): Promise<AsyncIterable<Input>> {
  const { inputs } = await sourceOf(infospace, target, context);
  return breathing(inputs, context.signal);
}

async function* breathing(inputs: AsyncIterable<Input>, signal: AbortSignal): AsyncGenerator<Input> {
  let count = 0;
  for await (const input of inputs) {
    if (++count % BREATH === 0) {
      await setImmediate();
      signal.throwIfAborted();
    }
    yield input;
  }
}

/** Collects what is derived, and answers where it is, what became of the input, and what it looks like. */
export async function collected(
  { infospace, previewLimit }: PrimitiveParts,
  context: CallContext,
  { entry, name }: { readonly entry: string; readonly name: string | undefined },
  { items, report }: Derived<JsonObject>,
): Promise<JsonObject> {
  const sampler = createSampler(previewLimit);
  const collection = await infospace.collect(makerFor(context, entry), membersFrom(items, sampler), {
    name,
    signal: context.signal,
  });
  return answer({ ...shownFacts(collection), ...noted(report()) }, (room) => sampler.shown(room), previewLimit);
}

/** What a result looks like gets the room that the facts leave, and half of it in any case. */
export function answer(facts: JsonObject, shown: (room: number) => JsonObject, limit: number): JsonObject {
  return { ...facts, ...shown(Math.max(limit - JSON.stringify(facts).length, Math.floor(limit / 2))) };
}

/** A report without what did not happen: empty lists, and flags that are not raised. */
export function noted(report: JsonObject): JsonObject {
  return Object.fromEntries(
    Object.entries(report).filter(([, value]) => value !== false && !(Array.isArray(value) && value.length === 0)),
  );
}
