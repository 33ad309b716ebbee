import type { Caller } from "../core/caller.ts";
import { QmError } from "../core/errors.ts";
import { type Json, omitUndefined } from "../core/json.ts";
import { quoteName } from "../core/names.ts";
import type { Infospace } from "./infospace.ts";
import type { InfospaceStore } from "./infospace-store.ts";
import { type JsonPath, parseJsonPath, readJsonPath } from "./json-path.ts";
import { getJsonKind, isList } from "./json-preview.ts";
import type { Collection, CollectionItem, NoteVersion } from "./note.ts";

export interface PartQuery {
  /** Such as `items[0].id`. In a collection the first step is the position of a note. */
  readonly path?: string | undefined;
  /** The first item of a list, or character of a text. Default 0. */
  readonly from?: number | undefined;
  /** The position after the last. */
  readonly to?: number | undefined;
  /** Default: the current version. */
  readonly version?: number | undefined;
}

export type ItemsQuery = Omit<PartQuery, "path"> & { readonly signal?: AbortSignal | undefined };

/** One version of a note or collection. Earlier versions of a collection have only a count and a size. */
export type NoteVersionEntry = Pick<NoteVersion, "version"> &
  Partial<NoteVersion> & { readonly count?: number; readonly isPresent: boolean };

type ReadContext = Readonly<{ store: InfospaceStore; infospace: Infospace; caller: Caller }>;

/** The content of a note, or the contents of a collection's notes, whole or in part. */
export async function readPart({ infospace, caller }: ReadContext, handle: string, query: PartQuery): Promise<Json> {
  const path = parseJsonPath(query.path ?? "");
  requireRange(query);
  const resource = await infospace.resource(handle, caller);
  if (!("count" in resource)) {
    const { content } = await infospace.note(handle, caller, query.version);
    return sliceValue(requireValue(content, path, handle), query);
  }
  const collection = await infospace.collection(handle, caller, query.version);
  const [first, ...steps] = path.steps;
  if (first === undefined) return collectContents(infospace.items(collection, toItemRange(query)));
  const item = typeof first === "number" ? await readNthItem(infospace, collection, first) : undefined;
  if (item === undefined)
    throw missingPartError(handle, path.text, `it holds ${collection.count} notes, which have positions: [0]`);
  return sliceValue(requireValue(item.content, { ...path, steps }, handle), query);
}

/** The n-th note, from the end if negative. Removed notes leave gaps in the positions; only then are items counted. */
export async function readNthItem(infospace: Pick<Infospace, "items">, collection: Collection, index: number) {
  const { count } = collection;
  let left = index < 0 ? count + index : index;
  if (left < 0 || left >= count) return undefined;
  const item = await readFirst(infospace.items(collection, { from: left, to: left + 1 }));
  const hasGaps = async () => (await readFirst(infospace.items(collection, { from: count }))) !== undefined;
  if (item !== undefined && !(await hasGaps())) return item;
  for await (const item of infospace.items(collection)) if (left-- === 0) return item;
  return undefined;
}

async function readFirst(items: AsyncIterable<CollectionItem>): Promise<CollectionItem | undefined> {
  for await (const item of items) return item;
  return undefined;
}

export async function* readItems({ infospace, caller }: ReadContext, handle: string, query: ItemsQuery) {
  requireRange(query);
  yield* infospace.items(await infospace.collection(handle, caller, query.version), toItemRange(query));
}

/** All versions, oldest first. */
export async function listVersions({ store, infospace, caller }: ReadContext, handle: string) {
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
  const present = { version, format, hash, bytes, changedAt, isPresent: true };
  return [...earlier.map((each) => ({ ...each, isPresent: false })), present];
}

export async function collectContents(items: AsyncIterable<CollectionItem>): Promise<readonly Json[]> {
  const contents: Json[] = [];
  for await (const { content } of items) contents.push(content);
  return contents;
}

/** The value at a path. Throws `not_found` with the reason. */
export function requireValue(content: Json, path: JsonPath, handle: string): Json {
  const found = readJsonPath(content, path);
  if (found.found) return found.value;
  throw missingPartError(handle, path.text, found.missing);
}

function sliceValue(value: Json, { from, to }: PartQuery): Json {
  if (from === undefined && to === undefined) return value;
  if (typeof value === "string" || isList(value)) return value.slice(from, to);
  throw new QmError("invalid_arguments", `from and to need a list or a text, and it is a ${getJsonKind(value)}`, {
    hint: "Leave them out, or give the path of a list or a text in it.",
  });
}

function toItemRange({ from, to, signal }: ItemsQuery) {
  return omitUndefined({ from, to, signal });
}

function requireRange(query: PartQuery): void {
  for (const key of ["from", "to", "version"] as const) {
    const value = query[key];
    if (value !== undefined && (!Number.isSafeInteger(value) || value < 0))
      throw new QmError("invalid_arguments", `${key} must be a whole number of at least 0`);
  }
  const { from = 0, to = from } = query;
  requireOrder(from, to);
}

export function requireOrder(from: number, to: number): void {
  if (to >= from) return;
  const hint = "from is the position of the first, to the position after the last.";
  throw new QmError("invalid_arguments", `the slice ends at ${to}, before it begins at ${from}`, { hint });
}

function missingPartError(handle: string, path: string, why: string): QmError {
  return new QmError("not_found", `${handle} has no ${quoteName(path)}: ${why}`, { details: { handle, path } });
}
