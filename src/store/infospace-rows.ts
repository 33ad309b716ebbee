import type { Json, JsonObject } from "../core/json.ts";
import { handleOf } from "../infospace/handle.ts";
import {
  type Collection,
  type Item,
  type Note,
  type NoteFacts,
  type NoteFormat,
  type NoteVersion,
  type Origin,
  type Reach,
  reaches,
  withSources,
} from "../infospace/note.ts";
import { damaged, optional, storedObject } from "./columns.ts";
import { type Query, type Row, sql } from "./sql.ts";

export const originColumns = sql`
  o.tenant, o.user_id, o.session, o.actor, o.turn, o.action, o.call_id, o.made_at, o.sources as origin_sources`;

/** Of `noteTables`: all but the content, which may be long. */
export const noteColumns = sql`
  n.id, n.part_of, n.expires_at, n.format, n.version, n.bytes, n.hash, n.changed_at, n.name, n.properties,
  n.sources, w.reach, ${originColumns}`;
export const noteTables = sql`notes n join origins o on o.id = n.origin join owners w on w.id = n.owner`;

/** Of `collectionTables`. */
export const collectionColumns = sql`
  c.id, c.expires_at, c.complete, c.version, c.count, c.bytes, c.changed_at, c.name, c.properties, c.sources,
  w.reach, ${originColumns}`;
export const collectionTables = sql`
  collections c join origins o on o.id = c.origin join owners w on w.id = c.owner`;

/** Content and, of a file, its bytes. */
export const contentColumns = sql`n.content, f.data`;
export const fileTable = sql`left join note_files f on f.note = n.id and f.version = n.version`;

/**
 * A note that has not expired. Said so that no engine looks rows up by it: nearly all are like that, and it would pass over
 * the index that leads to few.
 */
export const noteIsThere = (now: string): Query => sql`coalesce(n.expires_at, '9999') > ${now}`;
export const collectionIsThere = (now: string): Query => sql`coalesce(c.expires_at, '9999') > ${now}`;

/**
 * A text as every column can hold it, and told apart from every other: whose something is must not be up to what two
 * texts look like when half a surrogate pair is gone. As in JSON, without the quotes.
 */
export function exact(text: string): string;
export function exact(text: string | undefined): string | null;
export function exact(text: string | undefined): string | null {
  return text === undefined ? null : JSON.stringify(text).slice(1, -1);
}

export function factsOf(row: Row): NoteFacts {
  const what = handleOf("note", Number(row.id));
  return {
    ...resourceOf(row, what),
    format: formatOf(row, what),
    hash: String(row.hash),
    ...optional("partOf", row.part_of, Number),
  };
}

export function noteOf(row: Row): Note {
  return { ...factsOf(row), content: contentOf(row, handleOf("note", Number(row.id))) };
}

export function itemOf(row: Row): Item {
  const id = Number(row.id);
  return {
    position: Number(row.position),
    id,
    content: contentOf(row, handleOf("note", id)),
    bytes: Number(row.bytes),
    hash: String(row.hash),
  };
}

export function versionOf(row: Row): NoteVersion {
  return {
    version: Number(row.version),
    format: formatOf(row, handleOf("note", Number(row.id))),
    hash: String(row.hash),
    bytes: Number(row.bytes),
    changedAt: String(row.changed_at),
  };
}

export function collectionOf(row: Row): Collection {
  const what = handleOf("collection", Number(row.id));
  return { ...resourceOf(row, what), count: Number(row.count), complete: Number(row.complete) === 1 };
}

/** Who it is of, without anything else of where it came from. */
export function ownerOf(row: Row, what: string): Pick<Origin, "tenant" | "user" | "session" | "actor"> {
  const text = (column: string) => read(row, column, what);
  return {
    ...optional("tenant", row.tenant === "" ? null : row.tenant, () => text("tenant")),
    ...optional("user", row.user_id === "" ? null : row.user_id, () => text("user_id")),
    session: text("session"),
    actor: text("actor"),
  };
}

function resourceOf(row: Row, what: string) {
  return {
    id: Number(row.id),
    ...optional("name", row.name, () => read(row, "name", what)),
    properties: row.properties === null ? {} : storedObject<JsonObject>(row, "properties", what),
    origin: originOf(row, what),
    reach: reachOf(row, what),
    version: Number(row.version),
    bytes: Number(row.bytes),
    changedAt: String(row.changed_at),
    ...optional("expiresAt", row.expires_at, String),
  };
}

/** Names of actions as a column holds them. */
export function sourcesText(sources: readonly string[] | undefined): string | null {
  return sources === undefined || sources.length === 0 ? null : JSON.stringify(sources);
}

export function storedSources(row: Row, column: string, what: string): readonly string[] {
  if (row[column] === null) return [];
  const value = parsed(String(row[column]), what, column);
  if (Array.isArray(value) && value.every((each) => typeof each === "string")) return value;
  throw damaged(what, column);
}

export function originOf(row: Row, what: string): Origin {
  const sources = [...storedSources(row, "origin_sources", what), ...storedSources(row, "sources", what)];
  return withSources(storedOrigin(row, what), sources);
}

function storedOrigin(row: Row, what: string): Origin {
  return {
    ...ownerOf(row, what),
    action: read(row, "action", what),
    callId: read(row, "call_id", what),
    ...optional("turn", row.turn, () => read(row, "turn", what)),
    at: String(row.made_at),
  };
}

export function reachOf(row: Row, what: string): Reach {
  const known = reaches.find((each) => each === row.reach);
  if (known === undefined) throw damaged(what, "reach");
  return known;
}

const formats = ["text", "json", "file"] as const satisfies readonly NoteFormat[];

function formatOf(row: Row, what: string): NoteFormat {
  const known = formats.find((each) => each === row.format);
  if (known === undefined) throw damaged(what, "format");
  return known;
}

function contentOf(row: Row, what: string): Json {
  if (formatOf(row, what) !== "file") return parsed(String(row.content), what, "content");
  const about = storedObject<JsonObject>(row, "content", what);
  if (!(row.data instanceof Uint8Array)) throw damaged(what, "file");
  const { buffer, byteOffset, byteLength } = row.data;
  return { ...about, base64: Buffer.from(buffer, byteOffset, byteLength).toString("base64") };
}

export function read(row: Row, column: string, what: string): string {
  return String(parsed(`"${row[column]}"`, what, column));
}

function parsed(text: string, what: string, column: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch {
    throw damaged(what, column);
  }
}
