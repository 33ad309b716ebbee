import { z } from "zod";
import type { CallContext } from "../../core/action.ts";
import { yieldToEventLoop } from "../../core/async.ts";
import type { Effect } from "../../core/effect.ts";
import type { JsonObject } from "../../core/json.ts";
import { actionName } from "../../core/names.ts";
import type { Maker } from "../maker.ts";
import type { Derived, Input } from "../operations/derived.ts";
import { INFOSPACE } from "../resource.ts";
import { createSampler, shownFacts } from "../shown.ts";
import { membersFrom } from "./members.ts";
import type { PrimitiveParts } from "./parts.ts";
import { type Source, sourceOf, type Target } from "./target.ts";

/** They change nothing that is there: all they leave is a collection of the caller's own that nobody has saved. */
export const DERIVES: Effect = "read";

/** They may go over a hundred thousand items, and be stopped at any. */
export const DERIVING_MS = 600_000;

// Limits that a model never comes near are checked without being part of what it is shown.
export const givenName = z.string().trim().min(1).max(200);

export const newName = givenName.optional().describe("The same name again is the next version of the same thing.");

export const resultName = z
  .string()
  .trim()
  .refine(({ length }) => length > 0 && length <= 200, "a name has 1 to 200 characters")
  .optional()
  .describe("Names the result.");

/** Its length is checked where it is parsed. */
export const pathShape = z.string();

export function makerFor({ caller, callId }: CallContext, entry: string): Maker {
  return { caller, callId, action: actionName(INFOSPACE, entry) };
}

/** After so many milliseconds of work others get their turn, and the call can end. */
const PACE_MS = 10;

/** What an operation goes over, such that a long one can be stopped: what is in memory already comes without a pause. */
export async function openSource({ infospace }: PrimitiveParts, target: Target, context: CallContext): Promise<Source> {
  const source = await sourceOf(infospace, target, context);
  return { ...source, inputs: breathing(source.inputs, context.signal) };
}

async function* breathing(inputs: AsyncIterable<Input>, signal: AbortSignal): AsyncGenerator<Input> {
  let started = performance.now();
  for await (const input of inputs) {
    if (performance.now() - started > PACE_MS) {
      await yieldToEventLoop();
      signal.throwIfAborted();
      started = performance.now();
    }
    yield input;
  }
}

export interface Deriving {
  readonly entry: string;
  readonly name: string | undefined;
  readonly from: readonly Source[];
}

/**
 * Collects what is derived, and answers where it is, what became of the input, and what it looks like. What fails before it
 * has made anything leaves nothing.
 */
export async function collected(
  { infospace, previewLimit }: PrimitiveParts,
  context: CallContext,
  { entry, name, from }: Deriving,
  { items, report }: Derived<JsonObject>,
): Promise<JsonObject> {
  const sampler = createSampler(previewLimit);
  const { signal } = context;
  // What comes out can be far more than what went in: a join makes a row of every pair.
  const members = membersFrom(breathing(await begun(items), signal), sampler);
  const collection = await infospace.collect(makerFor(context, entry), members, { name, signal });
  const facts = { ...shownFacts(collection), ...noted(report()), ...completeness(from) };
  return answer(facts, (room) => sampler.shown(room), previewLimit);
}

/** The same, with the first already read. */
async function begun(items: AsyncIterable<Input>): Promise<AsyncIterable<Input>> {
  const iterator = items[Symbol.asyncIterator]();
  const first = await iterator.next();
  async function* all(): AsyncGenerator<Input> {
    try {
      for (let next = first; !next.done; next = await iterator.next()) yield next.value;
    } finally {
      await iterator.return?.();
    }
  }
  return all();
}

/** What is made of a collection that was not filled to the end is not made of all that there should be. */
export function completeness(from: readonly Source[]): JsonObject {
  return from.every(({ complete }) => complete) ? {} : { incomplete_input: true };
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
