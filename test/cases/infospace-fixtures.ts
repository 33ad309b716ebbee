import assert from "node:assert/strict";
import { hash } from "node:crypto";
import type { Json } from "../../src/core/json.ts";
import type { InfospaceStore, NewNote, OwnerScope, Retention } from "../../src/infospace/infospace-store.ts";
import type { Collection, CollectionItem, NoteFacts, NoteOrigin } from "../../src/infospace/note.ts";
import { createSqlInfospaceStore } from "../../src/store/infospace.ts";
import { migrate } from "../../src/store/migrations.ts";
import type { SqlDriver } from "../../src/store/sql.ts";

export const START = "2026-01-02T03:00:00.000Z";
export const LATER = "2026-01-02T03:30:00.000Z";
export const EXPIRES = "2026-01-02T04:00:00.000Z";
export const AFTER = "2026-01-02T04:00:00.001Z";
export const NEXT_DAY = "2026-01-03T04:00:00.000Z";

export const transient: Retention = { reach: "session", expiresAt: EXPIRES };
export const me: OwnerScope = { actor: "main", session: "s", user: "eve", tenant: "acme" };

export function origin(rest: Partial<NoteOrigin> = {}): NoteOrigin {
  const { actor, session } = me;
  return { action: "web__fetch", callId: "c", actor, session, user: "eve", tenant: "acme", at: START, ...rest };
}

export function note(content: Json, rest: Partial<NewNote> = {}): NewNote {
  const text = JSON.stringify(content);
  const format = typeof content === "string" ? "text" : "json";
  return { format, text, bytes: Buffer.byteLength(text), hash: hash("sha256", text), ...rest };
}

export function file(bytes: Uint8Array): NewNote {
  const text = JSON.stringify({ media_type: "image/png", size: bytes.length });
  return { format: "file", text, file: bytes, bytes: bytes.length, hash: hash("sha256", bytes) };
}

export const notes = (...contents: readonly Json[]): readonly NewNote[] => contents.map((content) => note(content));

export const createNumberedNotes = (count: number, from = 0): readonly NewNote[] =>
  Array.from({ length: count }, (_, index) => note({ n: from + index }));

/** A store with a manual clock. */
export async function openInfospace(db: SqlDriver) {
  await migrate(db);
  const clock = { at: START };
  const store = createSqlInfospaceStore(db, () => new Date(clock.at));
  return { store, clock };
}

export async function createFilledCollection(
  store: InfospaceStore,
  contents: readonly Json[],
  { standing = transient, from = origin() }: { readonly standing?: Retention; readonly from?: NoteOrigin } = {},
): Promise<Collection> {
  const id = await store.addCollection(from, {}, standing);
  await store.append(id, notes(...contents), from);
  await store.complete(id);
  return requireCollection(store, id);
}

export async function requireCollection(store: InfospaceStore, id: number): Promise<Collection> {
  const collection = await store.collection(id);
  assert(collection !== undefined, `collection ${id} is not there`);
  return collection;
}

export async function requireNote(store: InfospaceStore, id: number): Promise<NoteFacts> {
  const facts = await store.noteFacts(id);
  assert(facts !== undefined, `note ${id} is not there`);
  return facts;
}

/** Reads a collection page by page. */
export async function readAllItems(
  store: InfospaceStore,
  id: number,
  { limit = 2, version }: { readonly limit?: number; readonly version?: number } = {},
): Promise<readonly CollectionItem[]> {
  const all: CollectionItem[] = [];
  for (let from = 0; ; from = (all.at(-1)?.position ?? 0) + 1) {
    const page = await store.items(id, { from, limit, version });
    if (page.length === 0) return all;
    assert(page.length <= limit);
    all.push(...page);
  }
}

export async function readContents(store: InfospaceStore, id: number, version?: number): Promise<readonly Json[]> {
  return (await readAllItems(store, id, { limit: 500, ...(version === undefined ? {} : { version }) })).map(
    ({ content }) => content,
  );
}
