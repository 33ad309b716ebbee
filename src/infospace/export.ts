import type { JsonObject } from "../core/json.ts";
import { EXPORT_VERSION, exportedContent, exportedOrigin, lineOf } from "./export-lines.ts";
import { handleOf } from "./handle.ts";
import type { InfospaceStore } from "./infospace-store.ts";
import type { Collection, Note, NoteFacts } from "./note.ts";
import { portions } from "./portions.ts";

/** What is to be in an export, oldest first. */
export interface Selection {
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
  selection: Selection,
  { history = false, signal }: ExportOptions,
): AsyncGenerator<string> {
  const written = new Set<number>();
  let collections = 0;

  async function* noteLines(note: Note, partOf?: number): AsyncGenerator<string> {
    written.add(note.id);
    if (history) yield* versionLines(store, note);
    yield lineOf(noteLine(note, partOf));
  }

  /** What it held, version by version: with the same handles for what stayed. */
  async function* earlierLines(collection: Collection): AsyncGenerator<string> {
    const { id, version: present } = collection;
    for (let version = 1; version < present; version++) {
      const held = await store.collectionVersion(id, version);
      if (held === undefined) return;
      yield* memberLines({ ...collection, version, ...held });
      yield lineOf({ kind: "state", of: handleOf("collection", id), version: version + 1 });
    }
  }

  async function* memberLines(collection: Collection): AsyncGenerator<string> {
    const { id } = collection;
    let waiting: string[] = [];
    function* listed(): Generator<string> {
      if (waiting.length > 0) yield lineOf({ kind: "items", of: handleOf("collection", id), items: waiting });
      waiting = [];
    }
    for await (const ids of pagesOf(store, collection)) {
      signal?.throwIfAborted();
      const fresh = await store.notes(ids.filter((each) => !written.has(each)));
      const notes = new Map(fresh.map((each) => [each.id, each]));
      for (const member of ids) {
        const note = written.has(member) ? undefined : notes.get(member);
        if (note?.partOf !== undefined) {
          yield* listed();
          yield* noteLines(note, id);
          continue;
        }
        if (note !== undefined) yield* noteLines(note);
        if (!written.has(member)) continue;
        waiting.push(handleOf("note", member));
        if (waiting.length === ITEMS_A_LINE) yield* listed();
      }
    }
    yield* listed();
  }

  yield lineOf({ quartermaster: "notes", version: EXPORT_VERSION, exported_at: at });
  for await (const portion of portions(each(selection.notes), PORTION)) {
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
    yield lineOf(collectionLine(collection));
    if (history) yield* earlierLines(collection);
    yield* memberLines(collection);
  }
  yield lineOf({ kind: "end", notes: written.size, collections });
}

async function* each<T>(list: readonly T[]): AsyncGenerator<T> {
  yield* list;
}

/** The ids of what a collection holds, in order, as many at a time as are likely to be a portion. */
async function* pagesOf(store: InfospaceStore, collection: Collection): AsyncGenerator<readonly number[]> {
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
    yield lineOf({
      kind: "version",
      of: handleOf("note", id),
      version,
      format,
      hash,
      changed_at: changedAt,
      ...exportedContent(format, content),
    });
  }
}

function noteLine(note: Note, partOf: number | undefined): JsonObject {
  const { id, format, hash, content } = note;
  return {
    kind: "note",
    id: handleOf("note", id),
    ...(partOf === undefined ? {} : { part_of: handleOf("collection", partOf) }),
    format,
    ...commonLine(note),
    hash,
    ...exportedContent(format, content),
  };
}

function collectionLine(collection: Collection): JsonObject {
  const { id, count, complete } = collection;
  return { kind: "collection", id: handleOf("collection", id), ...commonLine(collection), count, complete };
}

function commonLine({ name, properties, origin, reach, version, changedAt, expiresAt }: Note | Collection): JsonObject {
  return {
    ...(name === undefined ? {} : { name }),
    properties,
    origin: exportedOrigin(origin),
    reach,
    version,
    changed_at: changedAt,
    ...(expiresAt === undefined ? {} : { expires_at: expiresAt }),
  };
}
