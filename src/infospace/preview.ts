import { clip, getOwn, type Json, type JsonObject } from "../core/json.ts";
import { describeJson, fitJson, formatKey, getJsonKind, isList, stripFileBytes } from "./json-preview.ts";
import { findLargePart, type LargePart } from "./large-part.ts";
import type { Collection, NoteFacts, Resource } from "./note.ts";
import { formatHandle, type ResourceKind } from "./note.ts";

export type CollectionSampler = ReturnType<typeof createSampler>;
const MAX_FIELDS = 40;
/** How many further field names are counted. */
const MAX_OTHER_FIELDS = 1_000;
const FIRST_ITEMS = 20;
const NAME_LIMIT = 80;

/** `kinds` has the description of the first value of each kind. */
type SampledField = { count: number; readonly kinds: Map<string, string> };

/** JSON texts: a slice of a string would keep the whole string in memory. `whole` is undefined if it does not fit. */
type SampledItem = Readonly<{ whole: string | undefined; part: string }>;

/**
 * Sees every item of a collection once and describes them afterwards, in constant memory. `limit`: characters of the JSON of
 * the preview.
 */
export function createSampler(limit: number) {
  const fields = new Map<string, SampledField>();
  const others = new Set<string>();
  const kinds = new Map<string, number>();
  const first: SampledItem[] = [];
  let count = 0;
  let room = limit;

  function takeFields(item: JsonObject): void {
    for (const key of Object.keys(item)) {
      const label = fields.has(key) ? key : formatKey(key);
      if (!fields.has(label) && fields.size < MAX_FIELDS) fields.set(label, { count: 0, kinds: new Map() });
      const field = fields.get(label);
      if (field === undefined) {
        if (others.size < MAX_OTHER_FIELDS) others.add(label);
        continue;
      }
      field.count++;
      const value = getOwn(item, key) ?? null;
      const kind = getJsonKind(value);
      if (!field.kinds.has(kind)) field.kinds.set(kind, describeJson(value, false));
    }
  }

  return {
    take(content: Json): void {
      count++;
      const kind = getJsonKind(content);
      kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
      if (kind === "object") takeFields(content as JsonObject);
      if (room <= 0 || first.length === FIRST_ITEMS) return;
      const visible = stripFileBytes(content);
      const all = fitJson(visible, limit);
      const part = fitJson(visible, Math.floor(limit / (first.length === 0 ? 3 : 6)));
      const isWhole = all.whole && visible === content;
      first.push({ whole: isWhole ? JSON.stringify(all.value) : undefined, part: JSON.stringify(part.value) });
      room -= JSON.stringify(part.value).length + 1;
    },
    /**
     * `keys`: the fields with their types, with `?` and a count if not every item has them; `types`: counts by type, if not
     * all are objects; `first`: the first items that fit; `whole`: these are all.
     */
    preview(most = limit): JsonObject {
      const objects = kinds.get("object") ?? 0;
      const types = count === objects ? {} : { types: Object.fromEntries(kinds) };
      const all = first.flatMap((item) => item.whole ?? []);
      if (all.length === count) {
        const whole = { first: all.map(parseJson), whole: true };
        const shape = { ...types, ...fitSampledKeys(fields, others.size, objects, most), ...whole };
        if (measureJson(shape) <= most) return shape;
        if (measureJson(whole) <= most) return whole;
      }
      const keys = fitSampledKeys(fields, others.size, objects, Math.floor(most / 2) - measureJson(types));
      const shape = { ...types, ...keys };
      const beginning = fitFirstItems(first, most - measureJson(shape) - `"first":[],`.length);
      return fitEntries({ ...shape, ...(beginning.length === 0 ? {} : { first: beginning }) }, most);
    },
  };
}

export function previewNote(note: NoteFacts, content: Json, limit: number, part = findLargePart(content)): JsonObject {
  const facts = summarizeResource(note);
  return { ...facts, ...previewContent(note, content, limit - measureJson(facts), part) };
}

export function previewCollection(collection: Collection, sampler: CollectionSampler, limit?: number): JsonObject {
  const facts = summarizeResource(collection);
  return { ...facts, ...sampler.preview(limit === undefined ? undefined : limit - measureJson(facts)) };
}

/** A handle, and the same as `resource_id`, which uniform results call it. */
export function toReference(kind: ResourceKind, id: number) {
  const handle = formatHandle(kind, id);
  return { handle, resource_id: handle };
}

export function summarizeResource(resource: Resource): JsonObject {
  const { id, bytes } = resource;
  if (!("count" in resource)) {
    const { format } = resource;
    return { ...toReference("note", id), kind: "note", format, bytes, ...formatLabel(resource) };
  }
  const { count, complete } = resource;
  const facts = { ...toReference("collection", id), kind: "collection", count, bytes, ...formatLabel(resource) };
  return complete ? facts : { ...facts, complete };
}

function formatLabel({ name, version, expiresAt }: Resource): JsonObject {
  return {
    ...(name === undefined ? {} : { name: clip(name, NAME_LIMIT) }),
    ...(version === 1 ? {} : { version }),
    ...(expiresAt === undefined ? {} : { expires_at: expiresAt }),
  };
}

function previewContent({ format }: NoteFacts, content: Json, limit: number, part: LargePart | undefined): JsonObject {
  if (format === "file") {
    const { media_type = null, size = null } = content as JsonObject;
    return fitEntries({ media_type: fitJson(media_type, 100).value, size }, limit);
  }
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

/** Short fields first: they may say whether there are more pages, and the end of a preview is cut. */
function sortShortFirst(content: JsonObject): JsonObject {
  const isShort = ([, value]: readonly [string, Json]): boolean =>
    typeof value === "string" ? value.length <= SHORT : typeof value !== "object" || value === null;
  const entries = Object.entries(content);
  return Object.fromEntries([...entries.filter(isShort), ...entries.filter((entry) => !isShort(entry))]);
}

/** The part that makes it long, unless the fields already describe it. */
function describeLargePart(content: JsonObject, part: LargePart | undefined): JsonObject {
  if (part === undefined) return {};
  const [name, ...deeper] = part.steps;
  const isDescribed = deeper.length === 0 && part.what === describeJson(getOwn(content, String(name)) ?? null, true);
  return isDescribed ? {} : { inside: { [formatKey(part.path)]: part.what } };
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

export function previewKeys(content: JsonObject, limit: number): JsonObject {
  const names = Object.keys(content);
  const describe = (name: string) => [formatKey(name), describeJson(getOwn(content, name) ?? null, true)] as const;
  const fields = names.slice(0, MAX_FIELDS).map(describe);
  return fitFields(fields, names.length - fields.length, limit);
}

function fitSampledKeys(fields: ReadonlyMap<string, SampledField>, others: number, items: number, limit: number) {
  const described = [...fields].map(([name, { count, kinds }]): [string, string] => {
    const type = [...kinds.values()].join(" | ");
    return [name, count < items ? `${type}? (in ${count} of ${items})` : type];
  });
  return fitFields(described, others, limit);
}

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
  const count = others === MAX_OTHER_FIELDS ? `${MAX_OTHER_FIELDS} or more` : more;
  const keys = fitting.length === 0 ? {} : { keys: Object.fromEntries(fitting) };
  return { ...keys, ...(more === 0 ? {} : { more_keys: count }) };
}

function fitFirstItems(items: readonly SampledItem[], limit: number): readonly Json[] {
  const fitting: Json[] = [];
  let room = limit;
  for (const { part } of items) {
    room -= part.length + 1;
    if (room < 0) break;
    fitting.push(parseJson(part));
  }
  return fitting;
}

function parseJson(text: string): Json {
  return JSON.parse(text) as Json;
}

/** Drops entries from the end until the JSON fits the limit. */
export function fitEntries(shape: JsonObject, limit: number): JsonObject {
  const entries = Object.entries(shape);
  while (entries.length > 0 && measureJson(Object.fromEntries(entries)) > limit) entries.pop();
  return Object.fromEntries(entries);
}

function measureJson(value: Json): number {
  return JSON.stringify(value).length;
}
