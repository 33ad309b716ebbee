import { clip, getOwn, type Json, type JsonObject } from "../core/json.ts";
import { described, fitted, isList, kindOf, shownKey, withoutBytes } from "./content.ts";
import { handleOf } from "./handle.ts";
import { type LargePart, largePart } from "./large-part.ts";
import type { Collection, NoteFacts } from "./note.ts";

/** Sees every content of a collection once, and says afterwards what they look like. Its memory does not grow with them. */
export interface Sampler {
  take(content: Json): void;
  /**
   * `keys`: each field with its type, `?` and a count where not every item has it; `types`: how many items are what, where
   * not all are objects; `first`: the first items, as many as fit; `whole` where that is all of them. `within` is for whoever
   * has less room by now.
   */
  shown(within?: number): JsonObject;
}

const FIELDS = 40;
/** Names beyond those shown are told apart up to here. */
const OTHER_FIELDS = 1_000;
const FIRST_ITEMS = 20;
const NAME_LIMIT = 80;

interface Field {
  count: number;
  /** What a value of each kind looked like when the first came. */
  readonly kinds: Map<string, string>;
}

/** One of the first items as JSON text, because a part of a text would keep all of that in memory. */
interface First {
  /** All of it, where that fits. */
  readonly all: string | undefined;
  /** As much of it as its share of the room holds. */
  readonly part: string;
}

/** `limit` is in characters of the JSON that is shown. */
export function createSampler(limit: number): Sampler {
  const fields = new Map<string, Field>();
  const others = new Set<string>();
  const kinds = new Map<string, number>();
  const first: First[] = [];
  let count = 0;
  let room = limit;

  function takeFields(item: JsonObject): void {
    for (const key of Object.keys(item)) {
      let field = fields.get(key);
      if (field === undefined) {
        const label = shownKey(key);
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
      const kind = kindOf(value);
      if (!field.kinds.has(kind)) field.kinds.set(kind, described(value, false));
    }
  }

  return {
    take(content) {
      count++;
      const kind = kindOf(content);
      kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
      if (kind === "object") takeFields(content as JsonObject);
      if (room <= 0 || first.length === FIRST_ITEMS) return;
      const visible = withoutBytes(content);
      const all = fitted(visible, limit);
      const part = fitted(visible, Math.floor(limit / (first.length === 0 ? 3 : 6)));
      const isWhole = all.whole && visible === content;
      first.push({ all: isWhole ? JSON.stringify(all.value) : undefined, part: JSON.stringify(part.value) });
      room -= JSON.stringify(part.value).length + 1;
    },
    shown(most = limit) {
      const objects = kinds.get("object") ?? 0;
      const types = count === objects ? {} : { types: Object.fromEntries(kinds) };
      const all = first.flatMap((item) => item.all ?? []);
      if (all.length === count) {
        const whole = { first: all.map(parsed), whole: true };
        const shape = { ...types, ...keysWithin(fields, others.size, objects, most), ...whole };
        if (sizeOf(shape) <= most) return shape;
        if (sizeOf(whole) <= most) return whole;
      }
      const shape = { ...types, ...keysWithin(fields, others.size, objects, Math.floor(most / 2) - sizeOf(types)) };
      const beginning = firstWithin(first, most - sizeOf(shape) - `"first":[],`.length);
      return within({ ...shape, ...(beginning.length === 0 ? {} : { first: beginning }) }, most);
    },
  };
}

/** A note for a model: its facts and its shape, in at most `limit` characters of JSON. */
export function shownNote(note: NoteFacts, content: Json, limit: number, part = largePart(content)): JsonObject {
  const facts = shownFacts(note);
  return { ...facts, ...noteShape(note, content, limit - sizeOf(facts), part) };
}

/** A collection for a model: its facts, and what the sampler saw of it, in at most `limit` characters where that is given. */
export function shownCollection(collection: Collection, sampler: Sampler, limit?: number): JsonObject {
  const facts = shownFacts(collection);
  return { ...facts, ...sampler.shown(limit === undefined ? undefined : limit - sizeOf(facts)) };
}

/** What is known of something kept without looking into it. */
export function shownFacts(resource: NoteFacts | Collection): JsonObject {
  const { id, bytes } = resource;
  if (!("count" in resource)) {
    return { handle: handleOf("note", id), kind: "note", format: resource.format, bytes, ...standing(resource) };
  }
  const { count, complete } = resource;
  const facts = { handle: handleOf("collection", id), kind: "collection", count, bytes, ...standing(resource) };
  return complete ? facts : { ...facts, complete };
}

function standing({ name, version, expiresAt }: NoteFacts | Collection): JsonObject {
  return {
    ...(name === undefined ? {} : { name: clip(name, NAME_LIMIT) }),
    ...(version === 1 ? {} : { version }),
    ...(expiresAt === undefined ? {} : { expires_at: expiresAt }),
  };
}

function noteShape({ format }: NoteFacts, content: Json, limit: number, part: LargePart | undefined): JsonObject {
  if (format === "file") return fileShape(content, limit);
  if (typeof content === "string") return textShape(content, limit);
  if (isList(content)) {
    const size = { items: content.length };
    const sampler = createSampler(limit - sizeOf(size));
    for (const item of content) sampler.take(item);
    return { ...size, ...sampler.shown() };
  }
  const all = fitted(content, limit - `"first":,"whole":true,`.length);
  if (all.whole) return within({ first: all.value, whole: true }, limit);
  if (kindOf(content) !== "object") return within({ first: fitted(content, limit - `"first":,`.length).value }, limit);
  const record = shortFirst(content as JsonObject);
  const inside = insideOf(record, part);
  const shape = { ...objectKeys(record, Math.floor(limit * 0.6) - sizeOf(inside)), ...inside };
  const room = limit - sizeOf(shape) - `"first":,`.length;
  return within({ ...shape, ...(room < 20 ? {} : { first: fitted(record, room).value }) }, limit);
}

const SHORT = 80;

/** Its short fields first: whether there is more where it came from is said there, and would be cut at its end. */
function shortFirst(content: JsonObject): JsonObject {
  const isShort = ([, value]: readonly [string, Json]): boolean =>
    typeof value === "string" ? value.length <= SHORT : typeof value !== "object" || value === null;
  const entries = Object.entries(content);
  return Object.fromEntries([...entries.filter(isShort), ...entries.filter((entry) => !isShort(entry))]);
}

/** What is in the part that makes it long, where its fields do not say so. */
function insideOf(content: JsonObject, part: LargePart | undefined): JsonObject {
  if (part === undefined) return {};
  const [name, ...deeper] = part.steps;
  const isSaid = deeper.length === 0 && part.what === described(getOwn(content, String(name)) ?? null, true);
  return isSaid ? {} : { inside: { [shownKey(part.path)]: part.what } };
}

function fileShape(content: Json, limit: number): JsonObject {
  const { media_type = null, size = null } = content as JsonObject;
  return within({ media_type: fitted(media_type, 100).value, size }, limit);
}

function textShape(text: string, limit: number): JsonObject {
  const facts = { lines: linesOf(text), characters: text.length };
  const { value, whole } = fitted(text, limit - sizeOf(facts) - `"first":,"whole":true,`.length);
  return within({ ...facts, first: value, ...(whole ? { whole } : {}) }, limit);
}

export function linesOf(text: string): number {
  let lines = text === "" || text.endsWith("\n") ? 0 : 1;
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) lines++;
  return lines;
}

/** The fields of an object with their types and sizes, as many as fit. */
export function objectKeys(content: JsonObject, limit: number): JsonObject {
  const names = Object.keys(content);
  const fields = names
    .slice(0, FIELDS)
    .map((name): [string, string] => [shownKey(name), described(getOwn(content, name) ?? null, true)]);
  return fieldsWithin(fields, names.length - fields.length, limit);
}

function keysWithin(fields: ReadonlyMap<string, Field>, others: number, items: number, limit: number): JsonObject {
  const described = [...fields].map(([name, { count, kinds }]): [string, string] => {
    const type = [...kinds.values()].join(" | ");
    return [name, count < items ? `${type}? (in ${count} of ${items})` : type];
  });
  return fieldsWithin(described, others, limit);
}

/** As many fields as fit, and how many do not. */
function fieldsWithin(described: readonly (readonly [string, string])[], others: number, limit: number): JsonObject {
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

function firstWithin(items: readonly First[], limit: number): readonly Json[] {
  const shown: Json[] = [];
  let room = limit;
  for (const { part } of items) {
    room -= part.length + 1;
    if (room < 0) break;
    shown.push(parsed(part));
  }
  return shown;
}

function parsed(text: string): Json {
  return JSON.parse(text) as Json;
}

/** Whatever it takes to stay within the limit: the last parts go first. */
export function within(shape: JsonObject, limit: number): JsonObject {
  const entries = Object.entries(shape);
  while (entries.length > 0 && sizeOf(Object.fromEntries(entries)) > limit) entries.pop();
  return Object.fromEntries(entries);
}

function sizeOf(value: Json): number {
  return JSON.stringify(value).length;
}
