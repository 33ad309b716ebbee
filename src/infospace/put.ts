import { messageOf, QmError } from "../core/errors.ts";
import { isRecord, type Json, type JsonObject } from "../core/json.ts";
import { described, isList } from "./content.ts";
import { handleOf, type ResourceKind } from "./handle.ts";
import type { Infospace, Label, Member } from "./infospace.ts";
import { jsonLinesOf, type LineCounts } from "./json-lines.ts";
import { type LargePart, largePart, listInText } from "./large-part.ts";
import type { Maker } from "./maker.ts";
import { type Next, partOfFirst } from "./next-step.ts";
import type { Collection, NoteFacts } from "./note.ts";
import { createSampler, type Sampler, shownCollection, shownNote } from "./shown.ts";
import { textForm } from "./text-form.ts";

/** A value as a note or a collection. */
export interface Put {
  readonly kind: ResourceKind;
  readonly resource: NoteFacts | Collection;
  /** What it looks like, in at most so many characters of JSON. */
  shown(limit: number): JsonObject;
  readonly next: Next;
}

/** Where things are put, by whom, and how much of them is shown later at most. */
export interface Putting extends Label {
  readonly infospace: Pick<Infospace, "write" | "collect">;
  readonly maker: Maker;
  readonly previewLimit: number;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: (handle: string, count: number) => void;
}

/**
 * A list of records, lists or texts becomes a collection with a note for each item; one of numbers, or with a single text in
 * it, stays a list: a note for each would be many times as large as what it says. A text that is JSON, or
 * JSON lines, becomes what it says, and so does a record that has nothing but a text with a list in it, as those have that
 * read files; everything else is one note.
 */
export async function put(value: unknown, putting: Putting): Promise<Put> {
  if (Array.isArray(value)) return putList(value, putting);
  if (typeof value !== "string") return putRecord(asJson(value), putting);
  const read = textForm(value);
  switch (read.form) {
    case "lines":
      return putLines(value, putting);
    case "json":
      return isList(read.value) ? putList(read.value, putting) : putRecord(read.value, putting);
    case "text":
      return putOne(value, putting);
  }
}

function putList(list: readonly unknown[], putting: Putting): Promise<Put> {
  return isRecords(list) ? putAll(jsonOf(list), putting) : putOne(asJson(list), putting);
}

function putLines(text: string, putting: Putting): Promise<Put> {
  const { values, counts } = jsonLinesOf(text);
  return putAll(values, putting, counts);
}

function putRecord(content: Json, putting: Putting): Promise<Put> {
  const [only, ...more] = isRecord(content) ? Object.values(content) : [];
  const list = typeof only === "string" && more.length === 0 ? listInText(only) : undefined;
  if (list === undefined || (list.form === "json" && !isRecords(list.value))) return putOne(content, putting);
  return list.form === "lines" ? putLines(only as string, putting) : putList(list.value, putting);
}

/** A collection of what comes, each a note. No more is in memory than a portion. */
export async function putAll(
  values: Iterable<Json> | AsyncIterable<Json>,
  { infospace, maker, previewLimit, name, properties, signal, onProgress }: Putting,
  counts?: LineCounts,
): Promise<Put> {
  const sampler = createSampler(previewLimit);
  const how = { name, properties, signal, ...(onProgress === undefined ? {} : { onProgress }) };
  const resource = await infospace.collect(maker, sampled(values, sampler), how);
  const skipped = counts === undefined || counts.empty === 0 ? {} : { empty_lines: counts.empty };
  const room = JSON.stringify(skipped).length;
  return {
    kind: "collection",
    resource,
    shown: (limit) => ({ ...shownCollection(resource, sampler, limit - room), ...skipped }),
    next: {
      handle: handleOf("collection", resource.id),
      kind: "collection",
      part: resource.count === 0 ? undefined : partOfFirst(sampler.shown()),
    },
  };
}

async function putOne(content: Json, { infospace, maker, name, properties }: Putting): Promise<Put> {
  const resource = await infospace.write(maker, content, { name, properties });
  const part = largePart(content) ?? listPart(content);
  return {
    kind: "note",
    resource,
    shown: (limit) => shownNote(resource, content, limit, part),
    next: {
      handle: handleOf("note", resource.id),
      kind: "note",
      format: resource.format,
      part: part?.path || undefined,
      large: part,
    },
  };
}

async function* sampled(values: Iterable<Json> | AsyncIterable<Json>, sampler: Sampler): AsyncGenerator<Member> {
  for await (const content of values) {
    sampler.take(content);
    yield { content };
  }
}

/** What a program gave, as JSON. */
export async function* jsonOf(values: Iterable<unknown> | AsyncIterable<unknown>): AsyncGenerator<Json> {
  let position = 0;
  for await (const value of values) yield asJson(value, position++);
}

/** The JSON of a value, because that is what is kept: a Date is a text by then. */
function asJson(value: unknown, position?: number): Json {
  try {
    if (typeof value === "function" || typeof value === "symbol") throw new TypeError(`it is a ${typeof value}`);
    return JSON.parse(JSON.stringify(value) ?? "null") as Json;
  } catch (thrown) {
    const what = position === undefined ? "the result" : `item ${position} of the result`;
    throw new QmError("invalid_output", `${what} is not JSON: ${messageOf(thrown)}`, { cause: thrown });
  }
}

/** Of a list that stays one, how a collection is made of it all the same. */
function listPart(content: Json): LargePart | undefined {
  if (!isList(content) || content.length < 2) return undefined;
  return { path: "", steps: [], what: described(content, true), isMany: true };
}

/** Whether its items are worth a note each: here and there one may be missing. */
function isRecords(list: readonly unknown[]): boolean {
  if (list.length === 1) return isRecord(list[0]);
  let small = 0;
  for (const item of list) if (typeof item !== "string" && (typeof item !== "object" || item === null)) small++;
  return small <= list.length / 2;
}
