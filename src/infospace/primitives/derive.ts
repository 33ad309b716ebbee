import { z } from "zod";
import { defineAction } from "../../catalog/define-action.ts";
import type { Action, CallContext, Effect, Example } from "../../core/action.ts";
import { yieldToEventLoop } from "../../core/async.ts";
import type { SayListener } from "../../core/caller.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import { actionName } from "../../core/names.ts";
import type { Infospace } from "../infospace.ts";
import { createSampler, summarizeResource } from "../preview.ts";
import type { NoteAuthor } from "../provenance.ts";
import { INFOSPACE } from "../resource-access.ts";
import type { NoteSearch } from "../search/note-search.ts";
import { type DerivedItems, type PrimitiveItem, streamMembers, toItems } from "./operation.ts";

export interface PrimitiveOptions {
  readonly infospace: Infospace;
  readonly search: NoteSearch;
  /** Characters of preview in an answer. */
  readonly previewLimit: number;
  /** Characters of an answer that a model is shown. */
  readonly valueLimit: number;
  readonly onSay?: SayListener | undefined;
}

export type PrimitiveFactory = (parts: PrimitiveOptions) => readonly Action[];

/** Derivations change no existing note: they only add an unsaved collection of the caller's own. */
export const DERIVE_EFFECT: Effect = "read";
export const deriveTraits = { effect: DERIVE_EFFECT, timeoutMs: 600_000, handleArguments: ["target"] } as const;

/** A handle, or values (a `$from` has been replaced by its values already). */
export const targetShape = z.union([z.string(), z.array(z.unknown())]).describe("A handle or a list.");
export const otherShape = z.union([z.string(), z.array(z.unknown())]);
/** `parseJsonPath` checks the length. */
export const pathShape = z.string();
export const nameShape = z.string().trim().min(1).max(200);
export const newNameShape = nameShape.optional().describe("The same name again is the next version of the same thing.");
/** A refinement is checked without taking room in the schema that a model reads. */
export const resultNameShape = z
  .string()
  .trim()
  .refine(({ length }) => length > 0 && length <= 200, "a name has 1 to 200 characters")
  .optional()
  .describe("Names the result.");

/** A list of at most ten items, whose shape is checked but left out of the schema that a model reads. */
export function createListShape<Item extends z.ZodType>(item: Item) {
  return z.array(z.unknown()).pipe(z.array(item).min(1).max(10));
}

type PrimitiveTarget = z.output<typeof targetShape>;

/** `complete` is false if the collection was not filled to the end. */
export type ItemSource = Readonly<{ count: number; complete: boolean; inputs: AsyncIterable<PrimitiveItem> }>;

/** The items of a collection or list. A single note is a list of one. */
export async function resolveSource(infospace: Infospace, target: PrimitiveTarget, { caller, signal }: CallContext) {
  if (typeof target !== "string")
    return { count: target.length, complete: true, inputs: toItems(target as readonly Json[]) };
  const resource = await infospace.resource(target, caller);
  if (!("count" in resource)) return { count: 1, complete: true, inputs: readNote(infospace, target, caller) };
  const { count, complete } = resource;
  return { count, complete, inputs: infospace.items(resource, { signal }) };
}

async function* readNote(infospace: Infospace, target: string, caller: CallContext["caller"]) {
  const { id, content } = await infospace.note(target, caller);
  yield { id, content };
}

/** `resolveSource` that can be aborted even if all items are in memory. */
export async function openSource({ infospace }: PrimitiveOptions, target: PrimitiveTarget, context: CallContext) {
  const source = await resolveSource(infospace, target, context);
  return { ...source, inputs: yieldRegularly(source.inputs, context.signal) };
}

const MAX_BLOCKING_MS = 10;

async function* yieldRegularly(inputs: AsyncIterable<PrimitiveItem>, signal: AbortSignal) {
  let started = performance.now();
  for await (const input of inputs) {
    if (performance.now() - started > MAX_BLOCKING_MS) {
      await yieldToEventLoop();
      signal.throwIfAborted();
      started = performance.now();
    }
    yield input;
  }
}

interface Derivation<Shape extends z.ZodRawShape> {
  readonly entry: string;
  readonly description: string;
  readonly aliases?: readonly string[];
  readonly handleArguments?: readonly string[];
  readonly examples: readonly Example[];
  /** Arguments beside `target` and `name`. */
  readonly fields: Shape;
  derive(
    args: z.output<z.ZodObject<Shape>> & { readonly target: PrimitiveTarget },
    open: (target: PrimitiveTarget) => Promise<AsyncIterable<PrimitiveItem>>,
  ): Promise<DerivedItems>;
}

/** An action that makes a new collection out of the items of its target. */
export function defineDerivation<Shape extends z.ZodRawShape>(
  parts: PrimitiveOptions,
  { fields, derive, ...declared }: Derivation<Shape>,
): Action {
  return defineAction(INFOSPACE, {
    ...deriveTraits,
    ...declared,
    input: z.lazy(() => z.strictObject({ target: targetShape, ...fields, name: resultNameShape })),
    async run(args, context) {
      const from: ItemSource[] = [];
      const derived = await derive(args as Parameters<typeof derive>[0], async (target) => {
        const source = await openSource(parts, target, context);
        from.push(source);
        return source.inputs;
      });
      const { name } = args as { readonly name?: string | undefined };
      return collectDerived(parts, context, { entry: declared.entry, name, from }, derived);
    },
  });
}

/**
 * Stores the derived items as a collection and returns its handle, the report and a preview. An operation that fails before
 * its first item leaves no collection.
 */
export async function collectDerived(
  { infospace, previewLimit }: PrimitiveOptions,
  context: CallContext,
  { entry, name, from }: { entry: string; name: string | undefined; from: readonly ItemSource[] },
  { items, report }: DerivedItems,
): Promise<JsonObject> {
  const sampler = createSampler(previewLimit);
  const { signal } = context;
  // The output can be far longer than the input: a join makes a row for every pair.
  const members = streamMembers(yieldRegularly(await readAhead(items), signal), sampler);
  const collection = await infospace.collect(createPrimitiveAuthor(context, entry), members, { name, signal });
  return formatAnswer(summarizeResource(collection), report(), from, sampler.preview, previewLimit);
}

/** The same items, with the first already read. */
async function readAhead(items: AsyncIterable<PrimitiveItem>): Promise<AsyncIterable<PrimitiveItem>> {
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

export function createPrimitiveAuthor({ caller, callId }: CallContext, entry: string): NoteAuthor {
  return { caller, callId, action: actionName(INFOSPACE, entry) };
}

/**
 * Facts of the result, the report without empty lists and false, and a preview. The preview gets the room that they leave,
 * and at least half of the limit.
 */
export function formatAnswer(
  facts: JsonObject,
  report: JsonObject,
  from: readonly Pick<ItemSource, "complete">[],
  preview: (room: number) => JsonObject,
  limit: number,
): JsonObject {
  const isEmpty = (value: Json) => value === false || (Array.isArray(value) && value.length === 0);
  const reported = Object.fromEntries(Object.entries(report).filter(([, value]) => !isEmpty(value)));
  const incomplete = from.every(({ complete }) => complete) ? {} : { incomplete_input: true };
  const all = { ...facts, ...reported, ...incomplete };
  return { ...all, ...preview(Math.max(limit - JSON.stringify(all).length, Math.floor(limit / 2))) };
}
