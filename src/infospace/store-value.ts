import { getErrorMessage, QmError } from "../core/errors.ts";
import { isRecord, type Json, type JsonObject } from "../core/json.ts";
import { actionName } from "../core/names.ts";
import type { CollectionMember, Infospace, NoteLabel } from "./infospace.ts";
import { formatJsonPath } from "./json-path.ts";
import { describeJson, isList } from "./json-preview.ts";
import { detectTextForm, type LineCounts, parseJsonLines } from "./json-text.ts";
import { findLargePart, type LargePart, parseListText } from "./large-part.ts";
import type { Collection, NoteFacts } from "./note.ts";
import { formatHandle, type ResourceKind } from "./note.ts";
import { type CollectionSampler, createSampler, previewCollection, previewNote } from "./preview.ts";
import type { NoteAuthor } from "./provenance.ts";
import { INFOSPACE } from "./resource-access.ts";

/** What is known of something kept when a model is told what it can do with it. */
export interface NextStepHint {
  readonly handle: string;
  readonly kind: ResourceKind;
  readonly format?: "text" | "json" | "file";
  /** The path of a part of it, for an example. */
  readonly part?: string | undefined;
  /** What makes it long. */
  readonly large?: LargePart | undefined;
}

/** One sentence or two in at most `limit` characters. Names no action that the model does not see. */
export function formatNextStep(
  { handle, kind, format, part, large }: NextStepHint,
  sees: (name: string) => boolean,
  limit: number,
): string {
  const listVisible = (...entries: string[]) => entries.map((entry) => actionName(INFOSPACE, entry)).filter(sees);
  const from = (path?: string) => JSON.stringify({ $from: handle, ...(path === undefined ? {} : { path }) });
  const whole = `Give ${from()}${part === undefined ? "" : ` or ${from(part)}`} as an argument of any action.`;
  const narrow = kind === "collection" ? joinNames(listVisible("filter-structured", "project", "head")) : "";
  const [load] = format === "file" ? [] : listVisible("load");
  const sentences = [
    whole,
    narrow === "" ? "" : `Narrow it with ${narrow}.`,
    large?.isMany === true ? formatSplitCall(handle, large.path, listVisible("split")) : "",
    load === undefined ? "" : `Read it with ${load}.`,
  ];
  let text = "";
  for (const sentence of sentences) {
    const more = text === "" ? sentence : `${text} ${sentence}`;
    if (sentence !== "" && more.length <= limit) text = more;
  }
  return text;
}

/** The call that makes a collection of the part that makes it long. */
function formatSplitCall(handle: string, path: string, [split]: readonly string[]): string {
  const call = JSON.stringify({ target: handle, ...(path === "" ? {} : { path }) });
  return split === undefined ? "" : `Make a collection of it with ${split} ${call}.`;
}

/** A path that leads somewhere in the first item, as short as it can be told. */
function getExamplePath(shape: JsonObject): string | undefined {
  const keys = isRecord(shape.keys) ? Object.keys(shape.keys) : [];
  const plain = keys.find((key) => /^[A-Za-z_][\w-]{0,40}$/.test(key));
  return plain === undefined ? "[0]" : formatJsonPath([0, plain]);
}

function joinNames(names: readonly string[]): string {
  return names.length < 2 ? (names[0] ?? "") : `${names.slice(0, -1).join(", ")} or ${names.at(-1)}`;
}

/** A value as a note or a collection. */
export interface StoredValue {
  readonly kind: ResourceKind;
  readonly resource: NoteFacts | Collection;
  /** What it looks like, in at most so many characters of JSON. */
  preview(limit: number): JsonObject;
  readonly next: NextStepHint;
}

/** Where things are put, by whom, and how much of them is shown later at most. */
interface StoreValueOptions extends NoteLabel {
  readonly infospace: Pick<Infospace, "write" | "collect">;
  readonly maker: NoteAuthor;
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
export async function storeValue(value: unknown, putting: StoreValueOptions): Promise<StoredValue> {
  if (Array.isArray(value)) return storeList(value, putting);
  const isText = typeof value === "string";
  if (!isText) return storeRecord(toJsonValue(value), putting);
  const read = detectTextForm(value);
  switch (read.form) {
    case "lines":
      return storeLines(value, putting);
    case "json":
      return isList(read.value) ? storeList(read.value, putting) : storeRecord(read.value, putting);
    case "text":
      return storeNote(value, putting);
  }
}

function storeList(list: readonly unknown[], putting: StoreValueOptions): Promise<StoredValue> {
  return isRecordList(list) ? storeCollection(toJsonStream(list), putting) : storeNote(toJsonValue(list), putting);
}

function storeLines(text: string, putting: StoreValueOptions): Promise<StoredValue> {
  const { values, counts } = parseJsonLines(text);
  return storeCollection(values, putting, counts);
}

function storeRecord(content: Json, putting: StoreValueOptions): Promise<StoredValue> {
  const [only, ...more] = isRecord(content) ? Object.values(content) : [];
  const list = typeof only === "string" && more.length === 0 ? parseListText(only) : undefined;
  if (list === undefined || (list.form === "json" && !isRecordList(list.value))) return storeNote(content, putting);
  return list.form === "lines" ? storeLines(only as string, putting) : storeList(list.value, putting);
}

/** A collection of what comes, each a note. No more is in memory than a portion. */
export async function storeCollection(
  values: Iterable<Json> | AsyncIterable<Json>,
  { infospace, maker, previewLimit, name, properties, signal, onProgress }: StoreValueOptions,
  counts?: LineCounts,
): Promise<StoredValue> {
  const sampler = createSampler(previewLimit);
  const how = { name, properties, signal, ...(onProgress === undefined ? {} : { onProgress }) };
  const resource = await infospace.collect(maker, sampleMembers(values, sampler), how);
  const skipped = counts === undefined || counts.empty === 0 ? {} : { empty_lines: counts.empty };
  const room = JSON.stringify(skipped).length;
  return {
    kind: "collection",
    resource,
    preview: (limit) => ({ ...previewCollection(resource, sampler, limit - room), ...skipped }),
    next: {
      handle: formatHandle("collection", resource.id),
      kind: "collection",
      part: resource.count === 0 ? undefined : getExamplePath(sampler.preview()),
    },
  };
}

async function storeNote(
  content: Json,
  { infospace, maker, name, properties }: StoreValueOptions,
): Promise<StoredValue> {
  const resource = await infospace.write(maker, content, { name, properties });
  const part = findLargePart(content) ?? toListPart(content);
  return {
    kind: "note",
    resource,
    preview: (limit) => previewNote(resource, content, limit, part),
    next: {
      handle: formatHandle("note", resource.id),
      kind: "note",
      format: resource.format,
      part: part?.path || undefined,
      large: part,
    },
  };
}

async function* sampleMembers(
  values: Iterable<Json> | AsyncIterable<Json>,
  sampler: CollectionSampler,
): AsyncGenerator<CollectionMember> {
  for await (const content of values) {
    sampler.take(content);
    yield { content };
  }
}

/** What a program gave, as JSON. */
export async function* toJsonStream(values: Iterable<unknown> | AsyncIterable<unknown>): AsyncGenerator<Json> {
  let position = 0;
  for await (const value of values) yield toJsonValue(value, position++);
}

/** The JSON of a value, because that is what is kept: a Date is a text by then. */
function toJsonValue(value: unknown, position?: number): Json {
  try {
    if (typeof value === "function" || typeof value === "symbol") throw new TypeError(`it is a ${typeof value}`);
    return JSON.parse(JSON.stringify(value) ?? "null") as Json;
  } catch (thrown) {
    const what = position === undefined ? "the result" : `item ${position} of the result`;
    throw new QmError("invalid_output", `${what} is not JSON: ${getErrorMessage(thrown)}`, { cause: thrown });
  }
}

/** Of a list that stays one, how a collection is made of it all the same. */
function toListPart(content: Json): LargePart | undefined {
  if (!isList(content) || content.length < 2) return undefined;
  return { path: "", steps: [], what: describeJson(content, true), isMany: true };
}

/** Whether its items are worth a note each: here and there one may be missing. */
function isRecordList(list: readonly unknown[]): boolean {
  if (list.length === 1) return isRecord(list[0]);
  let small = 0;
  for (const item of list) if (typeof item !== "string" && (typeof item !== "object" || item === null)) small++;
  return small <= list.length / 2;
}
