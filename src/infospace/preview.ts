import { clip, getOwn, type Json, type JsonObject } from "../core/json.ts";
import { describeJson, fitJson, formatKey, getJsonKind, isList, stripFileBytes } from "./json-preview.ts";
import { findLargePart, type LargePart } from "./large-part.ts";
import type { Collection, NoteFacts } from "./note.ts";
import { formatHandle } from "./note.ts";

/** Sees every content of a collection once, and says afterwards what they look like. Its memory does not grow with them. */
export interface CollectionSampler {
  take(content: Json): void;
  /**
   * `keys`: each field with its type, `?` and a count where not every item has it; `types`: how many items are what, where
   * not all are objects; `first`: the first items, as many as fit; `whole` where that is all of them. `within` is for whoever
   * has less room by now.
   */
  preview(within?: number): JsonObject;
}

const FIELDS = 40;
/** Names beyond those shown are told apart up to here. */
const OTHER_FIELDS = 1_000;
const FIRST_ITEMS = 20;
const NAME_LIMIT = 80;

interface SampledField {
  count: number;
  /** What a value of each kind looked like when the first came. */
  readonly kinds: Map<string, string>;
}

/** One of the first items as JSON text, because a part of a text would keep all of that in memory. */
interface SampledItem {
  /** All of it, where that fits. */
  readonly all: string | undefined;
  /** As much of it as its share of the room holds. */
  readonly part: string;
}

/** `limit` is in characters of the JSON that is shown. */
export function createSampler(limit: number): CollectionSampler {
  const fields = new Map<string, SampledField>();
  const others = new Set<string>();
  const kinds = new Map<string, number>();
  const first: SampledItem[] = [];
  let count = 0;
  let room = limit;

  function takeFields(item: JsonObject): void {
    for (const key of Object.keys(item)) {
      let field = fields.get(key);
      if (field === undefined) {
        const label = formatKey(key);
        field = fields.get(label);
        if (field === undefined && fields.size < FIELDS) {
          field = { count: 0, kinds: new Map() };
          fields.set(label, field);
        }
        if (field === undefined) {
          if (others.size < OTHER_FIELDS) others.add(label);
          continue;
        }
      }
      field.count++;
      const value = getOwn(item, key) ?? null;
      const kind = getJsonKind(value);
      if (!field.kinds.has(kind)) field.kinds.set(kind, describeJson(value, false));
    }
  }

  return {
    take(content) {
      count++;
      const kind = getJsonKind(content);
      kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
      if (kind === "object") takeFields(content as JsonObject);
      if (room <= 0 || first.length === FIRST_ITEMS) return;
      const visible = stripFileBytes(content);
      const all = fitJson(visible, limit);
      const part = fitJson(visible, Math.floor(limit / (first.length === 0 ? 3 : 6)));
      const isWhole = all.whole && visible === content;
      first.push({ all: isWhole ? JSON.stringify(all.value) : undefined, part: JSON.stringify(part.value) });
      room -= JSON.stringify(part.value).length + 1;
    },
    preview(most = limit) {
      const objects = kinds.get("object") ?? 0;
      const types = count === objects ? {} : { types: Object.fromEntries(kinds) };
      const all = first.flatMap((item) => item.all ?? []);
      if (all.length === count) {
        const whole = { first: all.map(parseJson), whole: true };
        const shape = { ...types, ...fitSampledKeys(fields, others.size, objects, most), ...whole };
        if (measureJson(shape) <= most) return shape;
        if (measureJson(whole) <= most) return whole;
      }
      const shape = {
        ...types,
        ...fitSampledKeys(fields, others.size, objects, Math.floor(most / 2) - measureJson(types)),
      };
      const beginning = fitFirstItems(first, most - measureJson(shape) - `"first":[],`.length);
      return fitEntries({ ...shape, ...(beginning.length === 0 ? {} : { first: beginning }) }, most);
    },
  };
}

/** A note for a model: its facts and its shape, in at most `limit` characters of JSON. */
export function previewNote(note: NoteFacts, content: Json, limit: number, part = findLargePart(content)): JsonObject {
  const facts = summarizeResource(note);
  return { ...facts, ...previewContent(note, content, limit - measureJson(facts), part) };
}

/** A collection for a model: its facts, and what the sampler saw of it, in at most `limit` characters where that is given. */
export function previewCollection(collection: Collection, sampler: CollectionSampler, limit?: number): JsonObject {
  const facts = summarizeResource(collection);
  return { ...facts, ...sampler.preview(limit === undefined ? undefined : limit - measureJson(facts)) };
}

/** What is known of something kept without looking into it. */
export function summarizeResource(resource: NoteFacts | Collection): JsonObject {
  const { id, bytes } = resource;
  if (!("count" in resource)) {
    return { handle: formatHandle("note", id), kind: "note", format: resource.format, bytes, ...formatLabel(resource) };
  }
  const { count, complete } = resource;
  const facts = { handle: formatHandle("collection", id), kind: "collection", count, bytes, ...formatLabel(resource) };
  return complete ? facts : { ...facts, complete };
}

function formatLabel({ name, version, expiresAt }: NoteFacts | Collection): JsonObject {
  return {
    ...(name === undefined ? {} : { name: clip(name, NAME_LIMIT) }),
    ...(version === 1 ? {} : { version }),
    ...(expiresAt === undefined ? {} : { expires_at: expiresAt }),
  };
}

function previewContent({ format }: NoteFacts, content: Json, limit: number, part: LargePart | undefined): JsonObject {
  if (format === "file") return previewFile(content, limit);
  if (typeof content === "string") return previewText(content, limit);
  if (isList(content)) {
    const size = { items: content.length };
    const sampler = createSampler(limit - measureJson(size));
    for (const item of content) sampler.take(item);
    return { ...size, ...sampler.preview() };
  }
  const all = fitJson(content, limit - `"first":,"whole":true,`.length);
  if (all.whole) return fitEntries({ first: all.value, whole: true }, limit);
  if (getJsonKind(content) !== "object")
    return fitEntries({ first: fitJson(content, limit - `"first":,`.length).value }, limit);
  const record = sortShortFirst(content as JsonObject);
  const inside = describeLargePart(record, part);
  const shape = { ...previewKeys(record, Math.floor(limit * 0.6) - measureJson(inside)), ...inside };
  const room = limit - measureJson(shape) - `"first":,`.length;
  return fitEntries({ ...shape, ...(room < 20 ? {} : { first: fitJson(record, room).value }) }, limit);
}

const SHORT = 80;

/** Its short fields first: whether there is more where it came from is said there, and would be cut at its end. */
function sortShortFirst(content: JsonObject): JsonObject {
  const isShort = ([, value]: readonly [string, Json]): boolean =>
    typeof value === "string" ? value.length <= SHORT : typeof value !== "object" || value === null;
  const entries = Object.entries(content);
  return Object.fromEntries([...entries.filter(isShort), ...entries.filter((entry) => !isShort(entry))]);
}

/** What is in the part that makes it long, where its fields do not say so. */
function describeLargePart(content: JsonObject, part: LargePart | undefined): JsonObject {
  if (part === undefined) return {};
  const [name, ...deeper] = part.steps;
  const isSaid = deeper.length === 0 && part.what === describeJson(getOwn(content, String(name)) ?? null, true);
  return isSaid ? {} : { inside: { [formatKey(part.path)]: part.what } };
}

function previewFile(content: Json, limit: number): JsonObject {
  const { media_type = null, size = null } = content as JsonObject;
  return fitEntries({ media_type: fitJson(media_type, 100).value, size }, limit);
}

function previewText(text: string, limit: number): JsonObject {
  const facts = { lines: countTextLines(text), characters: text.length };
  const { value, whole } = fitJson(text, limit - measureJson(facts) - `"first":,"whole":true,`.length);
  return fitEntries({ ...facts, first: value, ...(whole ? { whole } : {}) }, limit);
}

export function countTextLines(text: string): number {
  let lines = text === "" || text.endsWith("\n") ? 0 : 1;
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) lines++;
  return lines;
}

/** The fields of an object with their types and sizes, as many as fit. */
export function previewKeys(content: JsonObject, limit: number): JsonObject {
  const names = Object.keys(content);
  const fields = names
    .slice(0, FIELDS)
    .map((name): [string, string] => [formatKey(name), describeJson(getOwn(content, name) ?? null, true)]);
  return fitFields(fields, names.length - fields.length, limit);
}

function fitSampledKeys(
  fields: ReadonlyMap<string, SampledField>,
  others: number,
  items: number,
  limit: number,
): JsonObject {
  const described = [...fields].map(([name, { count, kinds }]): [string, string] => {
    const type = [...kinds.values()].join(" | ");
    return [name, count < items ? `${type}? (in ${count} of ${items})` : type];
  });
  return fitFields(described, others, limit);
}

/** As many fields as fit, and how many do not. */
function fitFields(described: readonly (readonly [string, string])[], others: number, limit: number): JsonObject {
  if (described.length === 0) return {};
  let room = limit - `{"keys":{},"more_keys":"1000 or more"}`.length;
  const fitting: (readonly [string, string])[] = [];
  for (const [name, type] of described) {
    room -= JSON.stringify(name).length + JSON.stringify(type).length + 2;
    if (room < 0) break;
    fitting.push([name, type]);
  }
  const more = described.length - fitting.length + others;
  const told = others === OTHER_FIELDS ? `${OTHER_FIELDS} or more` : more;
  const keys = fitting.length === 0 ? {} : { keys: Object.fromEntries(fitting) };
  return { ...keys, ...(more === 0 ? {} : { more_keys: told }) };
}

function fitFirstItems(items: readonly SampledItem[], limit: number): readonly Json[] {
  const shown: Json[] = [];
  let room = limit;
  for (const { part } of items) {
    room -= part.length + 1;
    if (room < 0) break;
    shown.push(parseJson(part));
  }
  return shown;
}

function parseJson(text: string): Json {
  return JSON.parse(text) as Json;
}

/** Whatever it takes to stay within the limit: the last parts go first. */
export function fitEntries(shape: JsonObject, limit: number): JsonObject {
  const entries = Object.entries(shape);
  while (entries.length > 0 && measureJson(Object.fromEntries(entries)) > limit) entries.pop();
  return Object.fromEntries(entries);
}

function measureJson(value: Json): number {
  return JSON.stringify(value).length;
}
