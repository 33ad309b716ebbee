import type { Caller } from "../../core/caller.ts";
import { QmError } from "../../core/errors.ts";
import { isRecord, type Json, type JsonObject } from "../../core/json.ts";
import { VALUE_LIMIT } from "../../core/outcome.ts";
import { fitted, isList, withoutBytes } from "../content.ts";
import { handleOf } from "../handle.ts";
import type { Infospace } from "../infospace.ts";
import type { Collection, Note } from "../note.ts";
import { type Path, parsePath, valueAt } from "../path.ts";
import { nthContent } from "../reading.ts";
import { LOAD } from "../resource.ts";
import { objectKeys, shownFacts } from "../shown.ts";

/** What is asked for of a note or a collection. */
export interface Loading {
  readonly target: string;
  readonly from?: number | undefined;
  readonly to?: number | undefined;
  readonly path?: string | undefined;
  readonly version?: number | undefined;
}

/** An answer longer than what a model is shown would be kept again instead of being read. */
const ANSWER_LIMIT = VALUE_LIMIT - 96;
const ITEMS = 5;
/** For what stands around a part: positions, and how to go on. */
const AROUND = 250;

/** A part of it that fits one answer, and how to go on. Always says `total` and `more`. */
export async function load(
  infospace: Infospace,
  asked: Loading,
  caller: Caller,
  signal: AbortSignal,
): Promise<JsonObject> {
  const { target, from = 0, to, path, version } = asked;
  if (to !== undefined && to < from) throw reversed(from, to);
  const resource = await infospace.resource(target, caller);
  const then = version === undefined ? {} : { version };
  if ("count" in resource) {
    const found = { ...asked, target: handleOf("collection", resource.id) };
    const collection = version === undefined ? resource : await infospace.collection(found.target, caller, version);
    const facts = { ...shownFacts(collection), ...then };
    if (path === undefined) return loadItems(infospace, collection, facts, found, signal);
    return loadValue(facts, await itemAt(infospace, collection, parsePath(path), found.target), found);
  }
  const found = { ...asked, target: handleOf("note", resource.id) };
  const note = await infospace.note(found.target, caller, version);
  const facts = { ...shownFacts(note), ...then };
  if (note.format === "file" && path === undefined) return loadFile(facts, note, found);
  return loadValue(facts, path === undefined ? note.content : at(note.content, parsePath(path), found.target), found);
}

async function loadItems(
  infospace: Infospace,
  collection: Collection,
  facts: JsonObject,
  { target, version, from = 0, to = from + ITEMS }: Loading,
  signal: AbortSignal,
): Promise<JsonObject> {
  const items: JsonObject[] = [];
  let room = roomBeside(facts);
  let next = from;
  for await (const { id, position, content } of infospace.items(collection, { from, to, signal })) {
    const handle = handleOf("note", id);
    const visible = withoutBytes(content);
    const { value, whole } = fitted(visible, room - handle.length - `{"handle":"","value":,"cut":true},`.length);
    // The first is shown in part rather than not at all; the others have their turn.
    if (!whole && items.length > 0) break;
    const item = { handle, value, ...(whole && visible === content ? {} : { cut: true }) };
    items.push(item);
    room -= JSON.stringify(item).length + 1;
    next = position + 1;
  }
  const more = await hasFrom(infospace, collection, next);
  return {
    ...facts,
    from,
    to: next,
    total: collection.count,
    more,
    items,
    ...(more ? { next: goOn({ target, version, from: next }) } : {}),
  };
}

/** Where notes were removed there are gaps, so that the count does not tell. */
async function hasFrom(infospace: Infospace, collection: Collection, position: number): Promise<boolean> {
  const next = infospace.items(collection, { from: position, to: position + 1 });
  for await (const _ of next) return true;
  if (position < collection.count) return true;
  for await (const _ of infospace.items(collection, { from: position + 1 })) return true;
  return false;
}

/** A slice of a text or a list; of anything else all of it, or what it is made of. */
function loadValue(facts: JsonObject, value: Json, asked: Loading): JsonObject {
  if (typeof value === "string") return loadText(facts, value, asked);
  if (isList(value)) return loadList(facts, value, asked);
  if (asked.from !== undefined || asked.to !== undefined) throw notSliceable(asked.target);
  const total = isRecord(value) ? Object.keys(value).length : 1;
  const room = roomBeside(facts);
  const { value: shown, whole } = fitted(value, room);
  if (whole) return { ...facts, total, more: false, value: shown };
  const keys = objectKeys(value as JsonObject, room);
  return { ...facts, total, more: true, ...keys, next: `Give the path of the part that is needed to ${LOAD}.` };
}

function loadText(facts: JsonObject, text: string, asked: Loading): JsonObject {
  const { target, version, from = 0, to = text.length, path } = asked;
  const total = text.length;
  const room = roomBeside(facts, path);
  let end = Math.min(to, total, from + room);
  // Escapes take room as well.
  while (end > from && JSON.stringify(text.slice(from, end)).length > room) {
    end = from + Math.floor((end - from) * 0.8);
  }
  if (end < total && end - from > 1 && /[\uD800-\uDBFF]/.test(text.charAt(end - 1))) end--;
  const more = end < total;
  return {
    ...facts,
    from,
    to: Math.max(end, from),
    total,
    more,
    text: text.slice(from, end),
    ...(more ? { next: goOn({ target, version, path, from: end }) } : {}),
  };
}

function loadList(
  facts: JsonObject,
  list: readonly Json[],
  { target, version, from = 0, to = from + ITEMS, path }: Loading,
): JsonObject {
  const items: Json[] = [];
  let cut = false;
  let room = roomBeside(facts, path);
  for (const item of list.slice(from, to)) {
    const { value, whole } = fitted(item, room);
    if (!whole && items.length > 0) break;
    cut = !whole;
    items.push(value);
    room -= JSON.stringify(value).length + 1;
    if (cut) break;
  }
  const end = from + items.length;
  const more = end < list.length;
  return {
    ...facts,
    from,
    to: end,
    total: list.length,
    more,
    items,
    ...(cut ? { cut } : {}),
    ...(more ? { next: goOn({ target, version, path, from: end }) } : {}),
  };
}

/** Bytes are of no use to most readers: they come when a part of them is asked for. */
function loadFile(facts: JsonObject, { content }: Note, { target, version, from, to }: Loading): JsonObject {
  const { media_type = null, base64 = "" } = content as JsonObject;
  const bytes = Buffer.from(String(base64), "base64");
  const total = bytes.byteLength;
  const told = { ...facts, media_type, size: total, total };
  if (from === undefined && to === undefined) {
    return { ...told, more: total > 0, ...(total > 0 ? { next: goOn({ target, version, from: 0 }) } : {}) };
  }
  const start = from ?? 0;
  const end = Math.min(to ?? total, total, start + Math.floor((roomBeside(told) * 3) / 4));
  const more = end < total;
  return {
    ...told,
    from: start,
    to: Math.max(end, start),
    more,
    base64: bytes.subarray(start, end).toString("base64"),
    ...(more ? { next: goOn({ target, version, from: end }) } : {}),
  };
}

async function itemAt(infospace: Infospace, collection: Collection, path: Path, target: string): Promise<Json> {
  const [first, ...steps] = path.steps;
  if (typeof first !== "number") {
    throw new QmError("invalid_arguments", `${target} is a collection, and its path begins with a position`, {
      hint: "Write [0] for the first note, [0].id for its id.",
    });
  }
  const content = await nthContent(infospace, collection, first);
  if (content !== undefined) return at(content, { ...path, steps }, target);
  throw new QmError("not_found", `${target} has ${collection.count} notes, so there is no [${first}]`);
}

function at(content: Json, path: Path, target: string): Json {
  const found = valueAt(content, path);
  if (found.found) return found.value;
  throw new QmError("not_found", `${target} has no ${JSON.stringify(path.text)}: ${found.missing}`, {
    details: { handle: target, path: path.text },
  });
}

/** A path is said again, with whatever escapes it takes. */
function roomBeside(facts: JsonObject, path = ""): number {
  return ANSWER_LIMIT - JSON.stringify(facts).length - AROUND - 3 * path.length;
}

function goOn({ target, version, path, from }: Loading): string {
  return `${LOAD} ${JSON.stringify({ target, version, path, from })}`;
}

function reversed(from: number, to: number): QmError {
  return new QmError("invalid_arguments", `the slice ends at ${to}, before it begins at ${from}`, {
    hint: "from is the position of the first, to the position after the last.",
  });
}

function notSliceable(target: string): QmError {
  return new QmError("invalid_arguments", `${target} is neither a text nor a list there, so it has no from and to`, {
    hint: "Leave them out, or give the path of a text or a list in it.",
  });
}
