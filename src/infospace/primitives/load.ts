import type { Caller } from "../../core/caller.ts";
import { QmError } from "../../core/errors.ts";
import { isRecord, type Json, type JsonObject } from "../../core/json.ts";
import type { Infospace } from "../infospace.ts";
import { type JsonPath, parseJsonPath } from "../json-path.ts";
import { fitJson, isList, stripFileBytes } from "../json-preview.ts";
import type { Collection, Note } from "../note.ts";
import { formatHandle } from "../note.ts";
import { type PartQuery, readNthItem, requireOrder, requireValue } from "../note-reader.ts";
import { previewKeys, summarizeResource } from "../preview.ts";
import { LOAD } from "../resource-access.ts";

type LoadOptions = Readonly<{ infospace: Infospace; valueLimit: number }>;
type LoadRequest = PartQuery & { readonly target: string };
const DEFAULT_ITEMS = 5;
/** The longest position in characters. */
const LAST_POSITION = 999_999_999_999;
/** The share of an answer that the part itself gets at least, by leaving out facts around it. */
const MIN_SHARE = 0.3;

/**
 * Reads a part that fits one answer of at most `valueLimit` characters of JSON, so that a model is shown all of it. The
 * answer always says `total` and `more`.
 */
export async function loadResource(parts: LoadOptions, request: LoadRequest, caller: Caller, signal: AbortSignal) {
  const { infospace, valueLimit } = parts;
  const { from = 0, to = from, path, version } = request;
  requireOrder(from, to);
  const resource = await infospace.resource(request.target, caller);
  const target = formatHandle("count" in resource ? "collection" : "note", resource.id);
  const versionFact = version === undefined ? {} : { version };
  if ("count" in resource) {
    const collection = version === undefined ? resource : await infospace.collection(target, caller, version);
    const part = createPart(valueLimit, { ...summarizeResource(collection), ...versionFact }, { ...request, target });
    if (path === undefined) return loadItems(part, infospace, collection, signal);
    return loadValue(part, await readItemPath(infospace, collection, parseJsonPath(path), target));
  }
  const note = await infospace.note(target, caller, version);
  const part = createPart(valueLimit, { ...summarizeResource(note), ...versionFact }, { ...request, target });
  if (note.format === "file" && path === undefined) return loadFile(part, note);
  return loadValue(part, path === undefined ? note.content : requireValue(note.content, parseJsonPath(path), target));
}

function createPart(limit: number, facts: JsonObject, request: LoadRequest) {
  const { target, version, path, from = 0 } = request;
  const formatNext = (position: number) => `${LOAD} ${JSON.stringify({ target, version, path, from: position })}`;
  return { limit, facts, request, from, formatNext };
}

type Part = ReturnType<typeof createPart>;

async function loadItems(part: Part, infospace: Infospace, collection: Collection, signal: AbortSignal) {
  const { from, formatNext } = part;
  const { to = from + DEFAULT_ITEMS } = part.request;
  const items: JsonObject[] = [];
  const total = collection.count;
  const last = Math.max(from, Math.min(to, LAST_POSITION));
  const frame = createFrame(part, { from, to: last, total, items }, formatNext(last));
  let { room } = frame;
  let next = from;
  for await (const { id, position, content } of infospace.items(collection, { from, to, signal })) {
    const handle = formatHandle("note", id);
    const visible = stripFileBytes(content);
    const { value, whole } = fitJson(visible, room - handle.length - `{"handle":"","value":,"cut":true},`.length);
    // Only the first item is shown in part: the next call shows the others.
    if (!whole && items.length > 0) break;
    const item = { handle, value, ...(whole && visible === content ? {} : { cut: true }) };
    items.push(item);
    room -= JSON.stringify(item).length + 1;
    next = position + 1;
  }
  const more = await hasMoreItems(infospace, collection, next);
  return frame.around({ from, to: next, total, more, items }, formatNext(next));
}

/** Removed notes leave gaps in the positions, so the count does not tell. */
async function hasMoreItems(infospace: Infospace, collection: Collection, position: number): Promise<boolean> {
  for await (const _ of infospace.items(collection, { from: position, to: position + 1 })) return true;
  if (position < collection.count) return true;
  for await (const _ of infospace.items(collection, { from: position + 1 })) return true;
  return false;
}

/** A slice of a text or list. Any other value whole, or its fields. */
function loadValue(part: Part, value: Json): JsonObject {
  if (typeof value === "string") return loadText(part, value);
  if (isList(value)) return loadList(part, value);
  const { from, to, target } = part.request;
  if (from !== undefined || to !== undefined) {
    const hint = "Leave them out, or give the path of a text or a list in it.";
    const message = `${target} is neither a text nor a list there, so it has no from and to`;
    throw new QmError("invalid_arguments", message, { hint });
  }
  const total = isRecord(value) ? Object.keys(value).length : 1;
  const next = `Give the path of the part that is needed to ${LOAD}.`;
  const frame = createFrame(part, { total, value: null }, next);
  const { value: fitted, whole } = fitJson(value, frame.room);
  if (whole) return frame.around({ total, more: false, value: fitted }, next);
  return frame.around({ total, more: true, ...previewKeys(value as JsonObject, frame.room) }, next);
}

function loadText(part: Part, text: string): JsonObject {
  const { from, formatNext } = part;
  const total = text.length;
  const frame = createFrame(part, { from, to: Math.max(from, total), total, text: "" }, formatNext(total));
  let end = Math.min(part.request.to ?? total, total, from + frame.room);
  // Escapes take room as well.
  while (end > from && JSON.stringify(text.slice(from, end)).length > frame.room) {
    end = from + Math.floor((end - from) * 0.8);
  }
  if (end < total && end - from > 1 && /[\uD800-\uDBFF]/.test(text.charAt(end - 1))) end--;
  const more = end < total;
  const slice = { from, to: Math.max(end, from), total, more, text: text.slice(from, end) };
  return frame.around(slice, formatNext(end));
}

function loadList(part: Part, list: readonly Json[]): JsonObject {
  const { from, formatNext } = part;
  const { to = from + DEFAULT_ITEMS } = part.request;
  const items: Json[] = [];
  const total = list.length;
  const longest = { from, to: Math.max(from, total), total, items, cut: true };
  const frame = createFrame(part, longest, formatNext(total));
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
  return frame.around({ from, to: end, total, more, items, ...(cut ? { cut } : {}) }, formatNext(end));
}

/** Returns bytes only if a range was asked for. */
function loadFile(part: Part, { content }: Note): JsonObject {
  const { from, formatNext } = part;
  const { to } = part.request;
  const { media_type = null, base64 = "" } = content as JsonObject;
  const bytes = Buffer.from(String(base64), "base64");
  const total = bytes.byteLength;
  const file = { media_type, size: total, total };
  const frame = createFrame(part, { ...file, from, to: Math.max(from, total), base64: "" }, formatNext(total));
  if (part.request.from === undefined && to === undefined)
    return frame.around({ ...file, more: total > 0 }, formatNext(0));
  const end = Math.min(to ?? total, total, from + Math.floor((frame.room * 3) / 4));
  const more = end < total;
  const slice = bytes.subarray(from, end).toString("base64");
  return frame.around({ ...file, from, to: Math.max(end, from), more, base64: slice }, formatNext(end));
}

async function readItemPath(infospace: Infospace, collection: Collection, path: JsonPath, target: string) {
  const [first, ...steps] = path.steps;
  if (typeof first !== "number") {
    const hint = "Write [0] for the first note, [0].id for its id.";
    throw new QmError("invalid_arguments", `${target} is a collection, so its path begins with a position`, { hint });
  }
  const item = await readNthItem(infospace, collection, first);
  if (item !== undefined) return requireValue(item.content, { ...path, steps }, target);
  throw new QmError("not_found", `${target} has ${collection.count} notes, so there is no [${first}]`);
}

/** `longest` and `next` are as long as they can become. If they leave little room, the frame has fewer facts. */
function createFrame({ limit, facts }: Part, longest: JsonObject, next: string) {
  const { handle = null } = facts;
  // Something may be put around the answer, so it stays a little below the limit.
  const reserve = Math.min(96, Math.floor(limit / 16));
  const frames = [
    { shown: facts, hasNext: true },
    { shown: { handle }, hasNext: true },
    { shown: { handle }, hasNext: false },
  ].map(({ shown, hasNext }) => {
    const formatNext = (text: string): JsonObject => (hasNext ? { next: text } : {});
    return {
      room: limit - reserve - JSON.stringify({ ...shown, ...longest, more: false, ...formatNext(next) }).length,
      around: (part: JsonObject, text: string) => ({ ...shown, ...part, ...(part.more ? formatNext(text) : {}) }),
    };
  });
  const enough = Math.floor(limit * MIN_SHARE);
  return frames.find(({ room }) => room >= enough) ?? (frames.at(-1) as (typeof frames)[number]);
}
