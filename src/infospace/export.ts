import { z } from "zod";
import { isRecord, type Json, type JsonObject } from "../core/json.ts";
import type { InfospaceStore } from "./infospace-store.ts";
import { batchMembers } from "./infospace-store.ts";
import {
  type Collection,
  formatHandle,
  type Note,
  type NoteFacts,
  type NoteOrigin,
  noteVisibilities,
  parseHandle,
} from "./note.ts";

/** The version of the form that exports have. */
const EXPORT_VERSION = 1;

/** What the first line of an export says of the others. */
export const exportHeaderShape = z.object({
  quartermaster: z.literal("notes"),
  version: z.literal(EXPORT_VERSION),
});

const noteHandle = z.string().refine((text) => parseHandle(text)?.kind === "note", "it is not the handle of a note");
const collectionHandle = z
  .string()
  .refine((text) => parseHandle(text)?.kind === "collection", "it is not the handle of a collection");
const objectShape = z.custom<JsonObject>(isRecord, "it is not an object");

/** What a note says: `content`, or of a file the bytes. */
const contentFields = {
  format: z.enum(["text", "json", "file"]).optional(),
  hash: z.string().optional(),
  content: z.unknown().optional(),
  media_type: z.string().optional(),
  base64: z.string().optional(),
};

const resourceFields = {
  name: z.string().optional(),
  properties: objectShape.default({}),
  origin: objectShape.optional(),
  reach: z.enum(noteVisibilities).default("session"),
  changed_at: z.string().optional(),
  expires_at: z.iso.datetime({ offset: true }).optional(),
};

const noteShape = z.object({
  kind: z.literal("note"),
  id: noteHandle.optional(),
  part_of: collectionHandle.optional(),
  ...resourceFields,
  ...contentFields,
});
const versionShape = z.object({
  kind: z.literal("version"),
  of: noteHandle,
  version: z.int().min(1),
  ...contentFields,
});
const collectionShape = z.object({
  kind: z.literal("collection"),
  id: collectionHandle,
  complete: z.boolean().default(true),
  ...resourceFields,
});
const stateShape = z.object({ kind: z.literal("state"), of: collectionHandle, version: z.int().min(2) });
const itemsShape = z.object({ kind: z.literal("items"), of: collectionHandle, items: z.array(noteHandle) });
const endShape = z.object({ kind: z.literal("end"), notes: z.int().min(0), collections: z.int().min(0) });

/**
 * Every line after the first. A collection's line comes before what it holds, which follows in order: notes with `part_of`
 * that were made for it, and `items` with the handles of notes of earlier lines. Where a collection comes with what it held
 * before, that comes first, and `state` begins what it held from then on. The earlier versions of a note come before it. The
 * last line counts them, so that a file that was cut off is not taken for a whole one.
 */
export const exportLineShape = z.discriminatedUnion("kind", [
  noteShape,
  versionShape,
  collectionShape,
  stateShape,
  itemsShape,
  endShape,
]);

export type ExportLine = z.output<typeof exportLineShape>;
export type NoteLine = z.output<typeof noteShape>;
export type VersionLine = z.output<typeof versionShape>;
export type CollectionLine = z.output<typeof collectionShape>;

/** A line as it is written. */
function formatLine(value: JsonObject): string {
  return `${JSON.stringify(value)}\n`;
}

function toExportedOrigin({ callId, ...origin }: NoteOrigin): JsonObject {
  const { action, ...rest } = origin;
  return { action, call_id: callId, ...rest };
}

/** The content of a line: of a file its bytes and what they are. */
function toExportedContent(format: string, content: Json): JsonObject {
  if (format !== "file") return { content };
  const { media_type = "application/octet-stream", base64 = "" } = content as JsonObject;
  return { media_type, base64 };
}

/** What is to be in an export, oldest first. */
export interface ExportSelection {
  readonly notes: readonly Pick<NoteFacts, "id" | "bytes">[];
  readonly collections: readonly number[];
}

export interface ExportOptions {
  /** Also what notes said, and what collections held, before. */
  readonly history?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
}

interface ExportParts {
  readonly store: InfospaceStore;
  readonly at: string;
}

/** How much is read at a time. */
const PORTION = { members: 200, bytes: 4 * 1024 * 1024 };
/** How many handles a line may have. */
const ITEMS_A_LINE = 500;

/**
 * Notes and collections as JSON lines, each with its end. No more is in memory than a portion of contents, and the numbers of
 * what is written already. What is gone by the time its turn comes is left out.
 */
export async function* exportLines(
  { store, at }: ExportParts,
  selection: ExportSelection,
  { history = false, signal }: ExportOptions,
): AsyncGenerator<string> {
  const written = new Set<number>();
  let collections = 0;

  async function* noteLines(note: Note, partOf?: number): AsyncGenerator<string> {
    written.add(note.id);
    if (history) yield* versionLines(store, note);
    yield formatLine(noteLine(note, partOf));
  }

  /** What it held, version by version: with the same handles for what stayed. */
  async function* earlierLines(collection: Collection): AsyncGenerator<string> {
    const { id, version: present } = collection;
    for (let version = 1; version < present; version++) {
      const held = await store.collectionVersion(id, version);
      if (held === undefined) return;
      yield* memberLines({ ...collection, version, ...held });
      yield formatLine({ kind: "state", of: formatHandle("collection", id), version: version + 1 });
    }
  }

  async function* memberLines(collection: Collection): AsyncGenerator<string> {
    const { id } = collection;
    let waiting: string[] = [];
    function* flushItems(): Generator<string> {
      if (waiting.length > 0) yield formatLine({ kind: "items", of: formatHandle("collection", id), items: waiting });
      waiting = [];
    }
    for await (const ids of readPages(store, collection)) {
      signal?.throwIfAborted();
      const fresh = await store.notes(ids.filter((each) => !written.has(each)));
      const notes = new Map(fresh.map((each) => [each.id, each]));
      for (const member of ids) {
        const note = written.has(member) ? undefined : notes.get(member);
        if (note?.partOf !== undefined) {
          yield* flushItems();
          yield* noteLines(note, id);
          continue;
        }
        if (note !== undefined) yield* noteLines(note);
        if (!written.has(member)) continue;
        waiting.push(formatHandle("note", member));
        if (waiting.length === ITEMS_A_LINE) yield* flushItems();
      }
    }
    yield* flushItems();
  }

  yield formatLine({ quartermaster: "notes", version: EXPORT_VERSION, exported_at: at });
  for await (const portion of batchMembers(each(selection.notes), PORTION)) {
    signal?.throwIfAborted();
    const notes = new Map((await store.notes(portion.map(({ id }) => id))).map((note) => [note.id, note]));
    for (const { id } of portion) {
      const note = notes.get(id);
      if (note !== undefined && !written.has(id)) yield* noteLines(note);
    }
  }
  for (const id of selection.collections) {
    signal?.throwIfAborted();
    const collection = await store.collection(id);
    if (collection === undefined) continue;
    collections++;
    yield formatLine(collectionLine(collection));
    if (history) yield* earlierLines(collection);
    yield* memberLines(collection);
  }
  yield formatLine({ kind: "end", notes: written.size, collections });
}

async function* each<T>(list: readonly T[]): AsyncGenerator<T> {
  yield* list;
}

/** The ids of what a collection holds, in order, as many at a time as are likely to be a portion. */
async function* readPages(store: InfospaceStore, collection: Collection): AsyncGenerator<readonly number[]> {
  const { id, version, count, bytes } = collection;
  const fitting = Math.floor((PORTION.bytes * count) / Math.max(1, bytes));
  const limit = Math.max(1, Math.min(PORTION.members, fitting));
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
    yield formatLine({
      kind: "version",
      of: formatHandle("note", id),
      version,
      format,
      hash,
      changed_at: changedAt,
      ...toExportedContent(format, content),
    });
  }
}

function noteLine(note: Note, partOf: number | undefined): JsonObject {
  const { id, format, hash, content } = note;
  return {
    kind: "note",
    id: formatHandle("note", id),
    ...(partOf === undefined ? {} : { part_of: formatHandle("collection", partOf) }),
    format,
    ...commonLine(note),
    hash,
    ...toExportedContent(format, content),
  };
}

function collectionLine(collection: Collection): JsonObject {
  const { id, count, complete } = collection;
  return { kind: "collection", id: formatHandle("collection", id), ...commonLine(collection), count, complete };
}

function commonLine({ name, properties, origin, reach, version, changedAt, expiresAt }: Note | Collection): JsonObject {
  return {
    ...(name === undefined ? {} : { name }),
    properties,
    origin: toExportedOrigin(origin),
    reach,
    version,
    changed_at: changedAt,
    ...(expiresAt === undefined ? {} : { expires_at: expiresAt }),
  };
}
