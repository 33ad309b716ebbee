import { z } from "zod";
import type { Action, CallContext, Effect } from "../../core/action.ts";
import { yieldToEventLoop } from "../../core/async.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import { actionName } from "../../core/names.ts";
import type { Infospace } from "../infospace.ts";
import { createSampler, summarizeResource } from "../preview.ts";
import type { NoteAuthor } from "../provenance.ts";
import { INFOSPACE } from "../resource-access.ts";
import type { NoteSearch } from "../search/note-search.ts";
import { streamMembers } from "./members.ts";
import type { DerivedItems, PrimitiveItem } from "./operation.ts";

/** What an operation goes over: a collection by its handle, or values as they are (a `$from` is values by then). */
export const targetShape = z.union([z.string(), z.array(z.unknown())]).describe("A handle or a list.");

/** The second of two. */
export const otherShape = z.union([z.string(), z.array(z.unknown())]);

type PrimitiveTarget = z.output<typeof targetShape>;

export interface ItemSource {
  /** How many there are, where that was known before. */
  readonly count: number;
  /** False: it is a collection that was not filled to the end. */
  readonly complete: boolean;
  readonly inputs: AsyncIterable<PrimitiveItem>;
}

/** A single note is a list of one. */
export async function resolveSource(
  infospace: Infospace,
  target: PrimitiveTarget,
  { caller, signal }: CallContext,
): Promise<ItemSource> {
  if (typeof target !== "string") {
    return { count: target.length, complete: true, inputs: iterateValues(target as readonly Json[]) };
  }
  const resource = await infospace.resource(target, caller);
  if (!("count" in resource)) return { count: 1, complete: true, inputs: readSingle(infospace, target, caller) };
  const { count, complete } = resource;
  return { count, complete, inputs: infospace.items(resource, { signal }) };
}

async function* iterateValues(values: readonly Json[]): AsyncGenerator<PrimitiveItem> {
  for (const content of values) yield { content };
}

async function* readSingle(
  infospace: Infospace,
  target: string,
  caller: CallContext["caller"],
): AsyncGenerator<PrimitiveItem> {
  const { id, content } = await infospace.note(target, caller);
  yield { id, content };
}

/** What primitives work with. */
export interface PrimitiveOptions {
  readonly infospace: Infospace;
  readonly search: NoteSearch;
  /** How many characters of what it made a primitive shows. */
  readonly previewLimit: number;
  /** How many characters of an answer a model is shown: what says how far it goes must be no longer. */
  readonly valueLimit: number;
}

/** Several primitives of a kind. */
export type PrimitiveFactory = (parts: PrimitiveOptions) => readonly Action[];

/** They change nothing that is there: all they leave is a collection of the caller's own that nobody has saved. */
export const DERIVE_EFFECT: Effect = "read";

/** They may go over a hundred thousand items, and be stopped at any. */
export const DERIVE_TIMEOUT_MS = 600_000;

// Limits that a model never comes near are checked without being part of what it is shown.
export const nameShape = z.string().trim().min(1).max(200);

export const newNameShape = nameShape.optional().describe("The same name again is the next version of the same thing.");

export const resultNameShape = z
  .string()
  .trim()
  .refine(({ length }) => length > 0 && length <= 200, "a name has 1 to 200 characters")
  .optional()
  .describe("Names the result.");

/** Its length is checked where it is parsed. */
export const pathShape = z.string();

export function createPrimitiveAuthor({ caller, callId }: CallContext, entry: string): NoteAuthor {
  return { caller, callId, action: actionName(INFOSPACE, entry) };
}

/** After so many milliseconds of work others get their turn, and the call can end. */
const PACE_MS = 10;

/** What an operation goes over, such that a long one can be stopped: what is in memory already comes without a pause. */
export async function openSource(
  { infospace }: PrimitiveOptions,
  target: PrimitiveTarget,
  context: CallContext,
): Promise<ItemSource> {
  const source = await resolveSource(infospace, target, context);
  return { ...source, inputs: yieldRegularly(source.inputs, context.signal) };
}

async function* yieldRegularly(
  inputs: AsyncIterable<PrimitiveItem>,
  signal: AbortSignal,
): AsyncGenerator<PrimitiveItem> {
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

interface DeriveOptions {
  readonly entry: string;
  readonly name: string | undefined;
  readonly from: readonly ItemSource[];
}

/**
 * Collects what is derived, and answers where it is, what became of the input, and what it looks like. What fails before it
 * has made anything leaves nothing.
 */
export async function collectDerived(
  { infospace, previewLimit }: PrimitiveOptions,
  context: CallContext,
  { entry, name, from }: DeriveOptions,
  { items, report }: DerivedItems<JsonObject>,
): Promise<JsonObject> {
  const sampler = createSampler(previewLimit);
  const { signal } = context;
  // What comes out can be far more than what went in: a join makes a row of every pair.
  const members = streamMembers(yieldRegularly(await startReading(items), signal), sampler);
  const collection = await infospace.collect(createPrimitiveAuthor(context, entry), members, { name, signal });
  const facts = { ...summarizeResource(collection), ...omitEmptyFacts(report()), ...reportIncomplete(from) };
  return formatAnswer(facts, (room) => sampler.preview(room), previewLimit);
}

/** The same, with the first already read. */
async function startReading(items: AsyncIterable<PrimitiveItem>): Promise<AsyncIterable<PrimitiveItem>> {
  const iterator = items[Symbol.asyncIterator]();
  const first = await iterator.next();
  async function* all(): AsyncGenerator<PrimitiveItem> {
    try {
      for (let next = first; !next.done; next = await iterator.next()) yield next.value;
    } finally {
      await iterator.return?.();
    }
  }
  return all();
}

/** What is made of a collection that was not filled to the end is not made of all that there should be. */
export function reportIncomplete(from: readonly ItemSource[]): JsonObject {
  return from.every(({ complete }) => complete) ? {} : { incomplete_input: true };
}

/** What a result looks like gets the room that the facts leave, and half of it in any case. */
export function formatAnswer(facts: JsonObject, shown: (room: number) => JsonObject, limit: number): JsonObject {
  return { ...facts, ...shown(Math.max(limit - JSON.stringify(facts).length, Math.floor(limit / 2))) };
}

/** A report without what did not happen: empty lists, and flags that are not raised. */
export function omitEmptyFacts(report: JsonObject): JsonObject {
  return Object.fromEntries(
    Object.entries(report).filter(([, value]) => value !== false && !(Array.isArray(value) && value.length === 0)),
  );
}
