import { QmError } from "../core/errors.ts";
import { isRecord, type Json, type JsonObject } from "../core/json.ts";
import { actionName } from "../core/names.ts";
import type { Infospace, NoteLabel } from "./infospace.ts";
import { formatJsonPath } from "./json-path.ts";
import { describeJson, isList } from "./json-preview.ts";
import { detectTextForm, type LineCounts, parseJsonLines, toJson } from "./json-text.ts";
import { findLargePart, type LargePart, parseListText } from "./large-part.ts";
import type { NoteFormat, Resource, ResourceKind } from "./note.ts";
import { type CollectionSampler, createSampler, previewCollection, previewNote } from "./preview.ts";
import type { NoteAuthor } from "./provenance.ts";
import { INFOSPACE } from "./resource-access.ts";

export interface StoredValue {
  readonly resource: Resource;
  /** At most `limit` characters of JSON. */
  preview(limit: number): JsonObject;
  /** The path of a part, for an example. */
  readonly part?: string | undefined;
  readonly large?: LargePart | undefined;
}

interface StoreValueOptions extends NoteLabel {
  readonly infospace: Pick<Infospace, "write" | "collect">;
  readonly maker: NoteAuthor;
  readonly previewLimit: number;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: (handle: string, count: number) => void;
}

type JsonValues = Iterable<Json> | AsyncIterable<Json>;

/**
 * Stores a list of records, lists or texts as a collection, and anything else as one note: a list of numbers would be many
 * times as large as separate notes. A text that is JSON or JSON lines counts as its value, and so does a record whose only
 * field is such a text, as tools that read files return it.
 */
export async function storeValue(value: unknown, options: StoreValueOptions): Promise<StoredValue> {
  if (Array.isArray(value)) return storeList(value, options);
  if (typeof value !== "string") return storeRecord(requireJson(value), options);
  const text = detectTextForm(value);
  if (text.form === "lines") return storeLines(value, options);
  if (text.form === "text") return storeNote(value, options);
  return isList(text.value) ? storeList(text.value, options) : storeRecord(text.value, options);
}

function storeList(list: readonly unknown[], options: StoreValueOptions): Promise<StoredValue> {
  return isRecordList(list) ? storeCollection(toJsonStream(list), options) : storeNote(requireJson(list), options);
}

function storeLines(text: string, options: StoreValueOptions): Promise<StoredValue> {
  const { values, counts } = parseJsonLines(text);
  return storeCollection(values, options, counts);
}

function storeRecord(content: Json, options: StoreValueOptions): Promise<StoredValue> {
  const [only, ...more] = isRecord(content) ? Object.values(content) : [];
  const list = typeof only === "string" && more.length === 0 ? parseListText(only) : undefined;
  if (list === undefined || (list.form === "json" && !isRecordList(list.value))) return storeNote(content, options);
  return list.form === "lines" ? storeLines(only as string, options) : storeList(list.value, options);
}

/** Stores each value as a note of a new collection. Holds one portion in memory. */
export async function storeCollection(values: JsonValues, options: StoreValueOptions, counts?: LineCounts) {
  const { infospace, maker, previewLimit, ...label } = options;
  const sampler = createSampler(previewLimit);
  const resource = await infospace.collect(maker, sampleMembers(values, sampler), label);
  const skipped = counts === undefined || counts.empty === 0 ? {} : { empty_lines: counts.empty };
  const room = JSON.stringify(skipped).length;
  const preview = (limit: number) => ({ ...previewCollection(resource, sampler, limit - room), ...skipped });
  return { resource, preview, part: resource.count === 0 ? undefined : getExamplePath(sampler.preview()) };
}

async function storeNote(content: Json, { infospace, maker, name, properties }: StoreValueOptions) {
  const resource = await infospace.write(maker, content, { name, properties });
  const large = findLargePart(content) ?? toListPart(content);
  const preview = (limit: number) => previewNote(resource, content, limit, large);
  return { resource, preview, part: large?.path || undefined, large };
}

async function* sampleMembers(values: JsonValues, sampler: CollectionSampler) {
  for await (const content of values) {
    sampler.take(content);
    yield { content };
  }
}

export async function* toJsonStream(values: Iterable<unknown> | AsyncIterable<unknown>): AsyncGenerator<Json> {
  let position = 0;
  for await (const value of values) yield requireJson(value, position++);
}

function requireJson(value: unknown, position?: number): Json {
  const what = position === undefined ? "the result" : `item ${position} of the result`;
  const invalid = (reason: string, cause?: unknown) =>
    new QmError("invalid_output", `${what} is not JSON: ${reason}`, { cause });
  if (typeof value === "function" || typeof value === "symbol") throw invalid(`it is a ${typeof value}`);
  return toJson(value, invalid) ?? null;
}

/** A list in a note can be made a collection as a whole. */
function toListPart(content: Json): LargePart | undefined {
  if (!isList(content) || content.length < 2) return undefined;
  return { path: "", steps: [], what: describeJson(content, true), isMany: true };
}

/** Whether at least half of the items are worth a note each. */
function isRecordList(list: readonly unknown[]): boolean {
  if (list.length === 1) return isRecord(list[0]);
  let small = 0;
  for (const item of list) if (typeof item !== "string" && (typeof item !== "object" || item === null)) small++;
  return small <= list.length / 2;
}

function getExamplePath(shape: JsonObject): string | undefined {
  const keys = isRecord(shape.keys) ? Object.keys(shape.keys) : [];
  const plain = keys.find((key) => /^[A-Za-z_][\w-]{0,40}$/.test(key));
  return plain === undefined ? "[0]" : formatJsonPath([0, plain]);
}

type NextStepHint = Pick<StoredValue, "part" | "large"> &
  Readonly<{ handle: string; kind: ResourceKind; format?: NoteFormat | undefined }>;

/** Tells a model how to use a stored result, in at most `limit` characters. Names only actions that it can see. */
export function formatNextStep(hint: NextStepHint, sees: (name: string) => boolean, limit: number): string {
  const { handle, kind, format, part, large } = hint;
  const listVisible = (...entries: string[]) => entries.map((entry) => actionName(INFOSPACE, entry)).filter(sees);
  const from = (path?: string) => JSON.stringify({ $from: handle, path });
  const narrow = kind === "collection" ? joinNames(listVisible("filter-structured", "project", "head")) : "";
  const [load] = format === "file" ? [] : listVisible("load");
  const [split] = large?.isMany === true ? listVisible("split") : [];
  const splitCall = JSON.stringify({ target: handle, path: large?.path || undefined });
  const sentences = [
    `Give ${from()}${part === undefined ? "" : ` or ${from(part)}`} as an argument of any action.`,
    narrow === "" ? "" : `Narrow it with ${narrow}.`,
    split === undefined ? "" : `Make a collection of it with ${split} ${splitCall}.`,
    load === undefined ? "" : `Read it with ${load}.`,
  ];
  let text = "";
  for (const sentence of sentences) {
    const longer = text === "" ? sentence : `${text} ${sentence}`;
    if (sentence !== "" && longer.length <= limit) text = longer;
  }
  return text;
}

function joinNames(names: readonly string[]): string {
  return names.length < 2 ? (names[0] ?? "") : `${names.slice(0, -1).join(", ")} or ${names.at(-1)}`;
}
