import { type Json, type JsonObject, omitUndefined } from "../core/json.ts";
import { EXPORT_VERSION } from "./export-format.ts";
import type { InfospaceStore } from "./infospace-store.ts";
import type { Collection, Note, NoteFacts } from "./note.ts";
import { DEFAULT_MEDIA_TYPE, formatHandle } from "./note.ts";
import { batchMembers, estimatePageSize } from "./portions.ts";

/** Oldest first. */
type ExportSelection = Readonly<{ notes: readonly Pick<NoteFacts, "id" | "bytes">[]; collections: readonly number[] }>;

/** `history`: whether to include earlier versions. */
export type ExportOptions = Readonly<{ history?: boolean | undefined; signal?: AbortSignal | undefined }>;
const PORTION = { members: 200, bytes: 4 * 1024 * 1024 };
const HANDLES_PER_LINE = 500;

/**
 * Notes and collections as JSON lines (see `exportLineShape`). Holds one portion of contents and the ids written so far in
 * memory. Resources that are removed meanwhile are left out.
 */
export async function* exportLines(store: InfospaceStore, at: string, from: ExportSelection, options: ExportOptions) {
  const { history = false, signal } = options;
  const written = new Set<number>();
  let collections = 0;

  async function* noteLines(note: Note, partOf?: number): AsyncGenerator<string> {
    written.add(note.id);
    if (history) yield* versionLines(store, note);
    yield formatNote(note, partOf);
  }

  async function* earlierLines(collection: Collection): AsyncGenerator<string> {
    const { id, version: present } = collection;
    for (let version = 1; version < present; version++) {
      const earlier = await store.collectionVersion(id, version);
      if (earlier === undefined) return;
      yield* memberLines({ ...collection, version, ...earlier });
      yield formatLine({ kind: "state", of: formatHandle("collection", id), version: version + 1 });
    }
  }

  async function* memberLines(collection: Collection): AsyncGenerator<string> {
    const { id } = collection;
    let handles: string[] = [];
    function* flushItems(): Generator<string> {
      if (handles.length > 0) yield formatLine({ kind: "items", of: formatHandle("collection", id), items: handles });
      handles = [];
    }
    for await (const ids of readPages(store, collection)) {
      signal?.throwIfAborted();
      const fresh = ids.filter((each) => !written.has(each));
      const notes = await readNotes(store, fresh);
      for (const member of ids) {
        const note = written.has(member) ? undefined : notes.get(member);
        if (note?.partOf !== undefined) {
          yield* flushItems();
          yield* noteLines(note, id);
          continue;
        }
        if (note !== undefined) yield* noteLines(note);
        if (!written.has(member)) continue;
        handles.push(formatHandle("note", member));
        if (handles.length === HANDLES_PER_LINE) yield* flushItems();
      }
    }
    yield* flushItems();
  }

  yield formatLine({ quartermaster: "notes", version: EXPORT_VERSION, exported_at: at });
  for await (const portion of batchMembers(from.notes, PORTION)) {
    signal?.throwIfAborted();
    const ids = portion.map(({ id }) => id);
    const notes = await readNotes(store, ids);
    for (const id of ids) {
      const note = notes.get(id);
      if (note !== undefined && !written.has(id)) yield* noteLines(note);
    }
  }
  for (const id of from.collections) {
    signal?.throwIfAborted();
    const collection = await store.collection(id);
    if (collection === undefined) continue;
    collections++;
    yield formatCollection(collection);
    if (history) yield* earlierLines(collection);
    yield* memberLines(collection);
  }
  yield formatLine({ kind: "end", notes: written.size, collections });
}

async function readNotes(store: InfospaceStore, ids: readonly number[]): Promise<ReadonlyMap<number, Note>> {
  return new Map((await store.notes(ids)).map((note) => [note.id, note]));
}

async function* readPages(store: InfospaceStore, collection: Collection): AsyncGenerator<readonly number[]> {
  const { id, version } = collection;
  const limit = estimatePageSize(collection, PORTION);
  for (let from = 0; ; ) {
    const page = await store.items(id, { version, from, limit });
    const last = page.at(-1);
    if (last === undefined) return;
    yield page.map((item) => item.id);
    from = last.position + 1;
  }
}

async function* versionLines(store: InfospaceStore, { id, version: present }: NoteFacts): AsyncGenerator<string> {
  for (const { version } of await store.history(id)) {
    const earlier = version < present ? await store.noteVersion(id, version) : undefined;
    if (earlier === undefined) continue;
    const { format, hash, changedAt, content } = earlier;
    const facts = { kind: "version", of: formatHandle("note", id), version, format, hash, changed_at: changedAt };
    yield formatLine({ ...facts, ...toExportedContent(format, content) });
  }
}

function formatNote(note: Note, partOf: number | undefined): string {
  const { id, format, hash, content } = note;
  const part = partOf === undefined ? {} : { part_of: formatHandle("collection", partOf) };
  const facts = { kind: "note", id: formatHandle("note", id), ...part, format, ...toCommonFields(note), hash };
  return formatLine({ ...facts, ...toExportedContent(format, content) });
}

function formatCollection(collection: Collection): string {
  const { id, count, complete } = collection;
  const handle = formatHandle("collection", id);
  return formatLine({ kind: "collection", id: handle, ...toCommonFields(collection), count, complete });
}

function toCommonFields(resource: Note | Collection): JsonObject {
  const { name, properties, reach, version, changedAt: changed_at, expiresAt: expires_at } = resource;
  const { action, callId: call_id, ...by } = resource.origin;
  const origin = { action, call_id, ...by };
  return omitUndefined({ name, properties, origin, reach, version, changed_at, expires_at });
}

function toExportedContent(format: string, content: Json): JsonObject {
  if (format !== "file") return { content };
  const { media_type = DEFAULT_MEDIA_TYPE, base64 = "" } = content as JsonObject;
  return { media_type, base64 };
}

function formatLine(value: JsonObject): string {
  return `${JSON.stringify(value)}\n`;
}
