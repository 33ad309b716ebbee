import type { Caller } from "../core/caller.ts";
import { QmError } from "../core/errors.ts";
import type { Json } from "../core/json.ts";
import { quoteName } from "../core/names.ts";
import type { Infospace } from "./infospace.ts";
import type { InfospaceStore } from "./infospace-store.ts";
import { type JsonPath, parseJsonPath, readJsonPath } from "./json-path.ts";
import { getJsonKind, isList } from "./json-preview.ts";
import type { Collection, CollectionItem, NoteVersion } from "./note.ts";

/** Which part of it. */
export interface PartQuery {
  /** Where in it: `items[0].id`. Of a collection the first step is the position of a note. */
  readonly path?: string | undefined;
  /** Of a list, or of a text in characters: the position of the first; 0 when absent. */
  readonly from?: number | undefined;
  /** The position after the last. */
  readonly to?: number | undefined;
  /** As it was then. Absent: as it is. */
  readonly version?: number | undefined;
}

export interface ItemsQuery extends Omit<PartQuery, "path"> {
  readonly signal?: AbortSignal | undefined;
}

/** A state of a note or collection. Of an earlier one of a collection only what it held is known, as far as that is there. */
export type NoteVersionEntry = Pick<NoteVersion, "version"> &
  Partial<NoteVersion> & { readonly count?: number; readonly isPresent: boolean };

interface ReadContext {
  readonly store: InfospaceStore;
  readonly infospace: Infospace;
  readonly caller: Caller;
}

/** What it says, or the part of it. Of a collection, what its notes say, in order. */
export async function readPart({ infospace, caller }: ReadContext, handle: string, query: PartQuery): Promise<Json> {
  const path = parseJsonPath(query.path ?? "");
  requireRange(query);
  const resource = await infospace.resource(handle, caller);
  if (!("count" in resource)) {
    const { content } = await infospace.note(handle, caller, query.version);
    return sliceValue(getValue(content, path, handle), query);
  }
  const collection = await infospace.collection(handle, caller, query.version);
  const [first, ...steps] = path.steps;
  if (first === undefined) return collectContents(infospace.items(collection, toItemRange(query)));
  const item = typeof first === "number" ? await readNthItem(infospace, collection, first) : undefined;
  if (item === undefined)
    throw missing(handle, path.text, `it holds ${collection.count} notes, which have positions: [0]`);
  return sliceValue(getValue(item.content, { ...path, steps }, handle), query);
}

/**
 * The note that is at this place in order, from the end where negative. Only that is read, unless notes were removed: then
 * positions leave some out, and those before it are counted.
 */
export async function readNthItem(
  infospace: Pick<Infospace, "items">,
  collection: Collection,
  index: number,
): Promise<CollectionItem | undefined> {
  const { count } = collection;
  let left = index < 0 ? count + index : index;
  if (left < 0 || left >= count) return undefined;
  const there = await readFirst(infospace.items(collection, { from: left, to: left + 1 }));
  if (there !== undefined && (await readFirst(infospace.items(collection, { from: count }))) === undefined)
    return there;
  for await (const item of infospace.items(collection)) if (left-- === 0) return item;
  return undefined;
}

async function readFirst(items: AsyncIterable<CollectionItem>): Promise<CollectionItem | undefined> {
  for await (const item of items) return item;
  return undefined;
}

export async function* readItems(
  { infospace, caller }: ReadContext,
  handle: string,
  query: ItemsQuery,
): AsyncGenerator<CollectionItem> {
  requireRange(query);
  yield* infospace.items(await infospace.collection(handle, caller, query.version), toItemRange(query));
}

/** Every state it had, the first one first. */
export async function listVersions(
  { store, infospace, caller }: ReadContext,
  handle: string,
): Promise<readonly NoteVersionEntry[]> {
  const resource = await infospace.resource(handle, caller);
  const { version, bytes, changedAt } = resource;
  if ("count" in resource) {
    const earlier: NoteVersionEntry[] = [];
    for (let each = 1; each < version; each++) {
      earlier.push({ version: each, ...(await store.collectionVersion(resource.id, each)), isPresent: false });
    }
    return [...earlier, { version, bytes, changedAt, count: resource.count, isPresent: true }];
  }
  const { format, hash } = resource;
  const earlier = (await store.history(resource.id)).filter((each) => each.version < version);
  return [
    ...earlier.map((each) => ({ ...each, isPresent: false })),
    { version, format, hash, bytes, changedAt, isPresent: true },
  ];
}

async function collectContents(items: AsyncIterable<CollectionItem>): Promise<readonly Json[]> {
  const all: Json[] = [];
  for await (const { content } of items) all.push(content);
  return all;
}

function getValue(content: Json, path: JsonPath, handle: string): Json {
  const found = readJsonPath(content, path);
  if (found.found) return found.value;
  throw missing(handle, path.text, found.missing);
}

function sliceValue(value: Json, query: PartQuery): Json {
  const { from, to } = query;
  if (from === undefined && to === undefined) return value;
  if (typeof value === "string" || isList(value)) return value.slice(from, to);
  throw new QmError("invalid_arguments", `from and to go over lists and texts, and it is a ${getJsonKind(value)}`, {
    hint: "Leave them out, or give the path of a list or a text in it.",
  });
}

function toItemRange({ from, to, signal }: ItemsQuery) {
  return {
    ...(from === undefined ? {} : { from }),
    ...(to === undefined ? {} : { to }),
    ...(signal === undefined ? {} : { signal }),
  };
}

function requireRange(query: PartQuery): void {
  for (const key of ["from", "to", "version"] as const) {
    const value = query[key];
    if (value !== undefined && (!Number.isSafeInteger(value) || value < 0))
      throw new QmError("invalid_arguments", `${key} must be a whole number of at least 0`);
  }
  const { from = 0, to = from } = query;
  if (to < from)
    throw new QmError("invalid_arguments", `it would end at ${to}, before it begins at ${from}`, {
      hint: "from is the position of the first, to the position after the last.",
    });
}

function missing(handle: string, path: string, why: string): QmError {
  return new QmError("not_found", `${handle} has no ${quoteName(path)}: ${why}`, { details: { handle, path } });
}
