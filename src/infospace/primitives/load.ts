import type { Caller } from "../../core/caller.ts";
import { QmError } from "../../core/errors.ts";
import { isRecord, type Json, type JsonObject } from "../../core/json.ts";
import type { Infospace } from "../infospace.ts";
import { type JsonPath, parseJsonPath, readJsonPath } from "../json-path.ts";
import { fitJson, isList, stripFileBytes } from "../json-preview.ts";
import type { Collection, Note } from "../note.ts";
import { formatHandle } from "../note.ts";
import { readNthItem } from "../note-reader.ts";
import { previewKeys, summarizeResource } from "../preview.ts";
import { LOAD } from "../resource-access.ts";

/** What is asked for of a note or a collection. */
export interface LoadRequest {
  readonly target: string;
  readonly from?: number | undefined;
  readonly to?: number | undefined;
  readonly path?: string | undefined;
  readonly version?: number | undefined;
}

export interface LoadResourceOptions {
  readonly infospace: Infospace;
  /** How many characters of JSON an answer has at most: of what is longer a model is shown less than the answer says. */
  readonly valueLimit: number;
}

const ITEMS = 5;
/** As long as a position can be written. */
const LAST_POSITION = 999_999_999_999;
/** The share of an answer that is for the part itself, where what stands around it can be shorter. */
const SHARE = 0.3;

/** A part of it that fits one answer, and how to go on. Always says `total` and `more`. */
export async function loadResource(
  { infospace, valueLimit }: LoadResourceOptions,
  asked: LoadRequest,
  caller: Caller,
  signal: AbortSignal,
): Promise<JsonObject> {
  const { target, from = 0, to, path, version } = asked;
  if (to !== undefined && to < from) throw reversedRangeError(from, to);
  const resource = await infospace.resource(target, caller);
  const then = version === undefined ? {} : { version };
  if ("count" in resource) {
    const found = { ...asked, target: formatHandle("collection", resource.id) };
    const collection = version === undefined ? resource : await infospace.collection(found.target, caller, version);
    const facts = { ...summarizeResource(collection), ...then };
    if (path === undefined) return loadItems({ infospace, valueLimit }, collection, facts, found, signal);
    return loadValue(
      valueLimit,
      facts,
      await readItemPath(infospace, collection, parseJsonPath(path), found.target),
      found,
    );
  }
  const found = { ...asked, target: formatHandle("note", resource.id) };
  const note = await infospace.note(found.target, caller, version);
  const facts = { ...summarizeResource(note), ...then };
  if (note.format === "file" && path === undefined) return loadFile(valueLimit, facts, note, found);
  const value = path === undefined ? note.content : at(note.content, parseJsonPath(path), found.target);
  return loadValue(valueLimit, facts, value, found);
}

async function loadItems(
  { infospace, valueLimit }: LoadResourceOptions,
  collection: Collection,
  known: JsonObject,
  { target, version, from = 0, to = from + ITEMS }: LoadRequest,
  signal: AbortSignal,
): Promise<JsonObject> {
  const items: JsonObject[] = [];
  const total = collection.count;
  const most = Math.max(from, Math.min(to, LAST_POSITION));
  const frame = createFrame(
    valueLimit,
    known,
    { from, to: most, total, items },
    formatNextCall({ target, version, from: most }),
  );
  let { room } = frame;
  let next = from;
  for await (const { id, position, content } of infospace.items(collection, { from, to, signal })) {
    const handle = formatHandle("note", id);
    const visible = stripFileBytes(content);
    const { value, whole } = fitJson(visible, room - handle.length - `{"handle":"","value":,"cut":true},`.length);
    // The first is shown in part rather than not at all; the others have their turn.
    if (!whole && items.length > 0) break;
    const item = { handle, value, ...(whole && visible === content ? {} : { cut: true }) };
    items.push(item);
    room -= JSON.stringify(item).length + 1;
    next = position + 1;
  }
  const more = await hasMoreItems(infospace, collection, next);
  return frame.around({ from, to: next, total, more, items }, more, formatNextCall({ target, version, from: next }));
}

/** Where notes were removed there are gaps, so that the count does not tell. */
async function hasMoreItems(infospace: Infospace, collection: Collection, position: number): Promise<boolean> {
  const next = infospace.items(collection, { from: position, to: position + 1 });
  for await (const _ of next) return true;
  if (position < collection.count) return true;
  for await (const _ of infospace.items(collection, { from: position + 1 })) return true;
  return false;
}

/** A slice of a text or a list; of anything else all of it, or what it is made of. */
function loadValue(limit: number, facts: JsonObject, value: Json, asked: LoadRequest): JsonObject {
  if (typeof value === "string") return loadText(limit, facts, value, asked);
  if (isList(value)) return loadList(limit, facts, value, asked);
  if (asked.from !== undefined || asked.to !== undefined) throw notSliceableError(asked.target);
  const total = isRecord(value) ? Object.keys(value).length : 1;
  const next = `Give the path of the part that is needed to ${LOAD}.`;
  const frame = createFrame(limit, facts, { total, value: null }, next);
  const { value: shown, whole } = fitJson(value, frame.room);
  if (whole) return frame.around({ total, more: false, value: shown }, false, next);
  return frame.around({ total, more: true, ...previewKeys(value as JsonObject, frame.room) }, true, next);
}

function loadText(limit: number, facts: JsonObject, text: string, asked: LoadRequest): JsonObject {
  const { target, version, from = 0, to = text.length, path } = asked;
  const total = text.length;
  const goingOn = (at: number): string => formatNextCall({ target, version, path, from: at });
  const frame = createFrame(limit, facts, { from, to: Math.max(from, total), total, text: "" }, goingOn(total));
  let end = Math.min(to, total, from + frame.room);
  // Escapes take room as well.
  while (end > from && JSON.stringify(text.slice(from, end)).length > frame.room) {
    end = from + Math.floor((end - from) * 0.8);
  }
  if (end < total && end - from > 1 && /[\uD800-\uDBFF]/.test(text.charAt(end - 1))) end--;
  const more = end < total;
  const part = { from, to: Math.max(end, from), total, more, text: text.slice(from, end) };
  return frame.around(part, more, goingOn(end));
}

function loadList(
  limit: number,
  facts: JsonObject,
  list: readonly Json[],
  { target, version, from = 0, to = from + ITEMS, path }: LoadRequest,
): JsonObject {
  const items: Json[] = [];
  const total = list.length;
  const goingOn = (at: number): string => formatNextCall({ target, version, path, from: at });
  const longest = { from, to: Math.max(from, total), total, items, cut: true };
  const frame = createFrame(limit, facts, longest, goingOn(total));
  let cut = false;
  let { room } = frame;
  for (const item of list.slice(from, to)) {
    const { value, whole } = fitJson(item, room);
    if (!whole && items.length > 0) break;
    cut = !whole;
    items.push(value);
    room -= JSON.stringify(value).length + 1;
    if (cut) break;
  }
  const end = from + items.length;
  const more = end < total;
  return frame.around({ from, to: end, total, more, items, ...(cut ? { cut } : {}) }, more, goingOn(end));
}

/** Bytes are of no use to most readers: they come when a part of them is asked for. */
function loadFile(
  limit: number,
  facts: JsonObject,
  { content }: Note,
  { target, version, from, to }: LoadRequest,
): JsonObject {
  const { media_type = null, base64 = "" } = content as JsonObject;
  const bytes = Buffer.from(String(base64), "base64");
  const total = bytes.byteLength;
  const file = { media_type, size: total, total };
  const goingOn = (at: number): string => formatNextCall({ target, version, from: at });
  const start = from ?? 0;
  const longest = { ...file, from: start, to: Math.max(start, total), base64: "" };
  const frame = createFrame(limit, facts, longest, goingOn(total));
  if (from === undefined && to === undefined) return frame.around({ ...file, more: total > 0 }, total > 0, goingOn(0));
  const end = Math.min(to ?? total, total, start + Math.floor((frame.room * 3) / 4));
  const part = { from: start, to: Math.max(end, start), more: end < total };
  const slice = bytes.subarray(start, end).toString("base64");
  return frame.around({ ...file, ...part, base64: slice }, end < total, goingOn(end));
}

async function readItemPath(
  infospace: Infospace,
  collection: Collection,
  path: JsonPath,
  target: string,
): Promise<Json> {
  const [first, ...steps] = path.steps;
  if (typeof first !== "number") {
    throw new QmError("invalid_arguments", `${target} is a collection, and its path begins with a position`, {
      hint: "Write [0] for the first note, [0].id for its id.",
    });
  }
  const item = await readNthItem(infospace, collection, first);
  if (item !== undefined) return at(item.content, { ...path, steps }, target);
  throw new QmError("not_found", `${target} has ${collection.count} notes, so there is no [${first}]`);
}

function at(content: Json, path: JsonPath, target: string): Json {
  const found = readJsonPath(content, path);
  if (found.found) return found.value;
  throw new QmError("not_found", `${target} has no ${JSON.stringify(path.text)}: ${found.missing}`, {
    details: { handle: target, path: path.text },
  });
}

/** What stands around a part in an answer, and the room that it leaves. */
interface AnswerFrame {
  readonly room: number;
  around(part: JsonObject, more: boolean, next: string): JsonObject;
}

/** `longest` and `next` are as long as they can become. Where they leave little room, less is said around the part. */
function createFrame(limit: number, facts: JsonObject, longest: JsonObject, next: string): AnswerFrame {
  const { handle = null } = facts;
  const frames = [
    { said: facts, isNextSaid: true },
    { said: { handle }, isNextSaid: true },
    { said: { handle }, isNextSaid: false },
  ].map(({ said, isNextSaid }): AnswerFrame => {
    const last = (text: string): JsonObject => (isNextSaid ? { next: text } : {});
    return {
      room: limit - getReserve(limit) - JSON.stringify({ ...said, ...longest, more: false, ...last(next) }).length,
      around: (part, more, text) => ({ ...said, ...part, ...(more ? last(text) : {}) }),
    };
  });
  const enough = Math.floor(limit * SHARE);
  return frames.find(({ room }) => room >= enough) ?? (frames.at(-1) as AnswerFrame);
}

/** An answer just as long as the limit would be cut where something is put around it. */
function getReserve(limit: number): number {
  return Math.min(96, Math.floor(limit / 16));
}

function formatNextCall({ target, version, path, from }: LoadRequest): string {
  return `${LOAD} ${JSON.stringify({ target, version, path, from })}`;
}

function reversedRangeError(from: number, to: number): QmError {
  return new QmError("invalid_arguments", `the slice ends at ${to}, before it begins at ${from}`, {
    hint: "from is the position of the first, to the position after the last.",
  });
}

function notSliceableError(target: string): QmError {
  return new QmError("invalid_arguments", `${target} is neither a text nor a list there, so it has no from and to`, {
    hint: "Leave them out, or give the path of a text or a list in it.",
  });
}
