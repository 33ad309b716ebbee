import type { Json, JsonObject } from "../core/json.ts";
import {
  type Collection,
  type CollectionItem,
  formatHandle,
  mergeSources,
  type Note,
  type NoteFacts,
  type NoteFormat,
  type NoteOrigin,
  type NoteVersion,
  noteVisibilities,
} from "../infospace/note.ts";
import type { SqlRow } from "./sql.ts";
import { damagedRowError, optionalField, readJsonObject, readKnownText } from "./sql-rows.ts";

/** Escapes as in JSON, without quotes. Unlike `toStorableText`, different texts stay different: owners depend on it. */
export function escapeText(text: string): string;
export function escapeText(text: string | undefined): string | null;
export function escapeText(text: string | undefined): string | null {
  return text === undefined ? null : JSON.stringify(text).slice(1, -1);
}

export function readNoteFactsRow(row: SqlRow): NoteFacts {
  const what = formatHandle("note", Number(row.id));
  return {
    ...readResourceRow(row, what),
    format: readFormatColumn(row, what),
    hash: String(row.hash),
    ...optionalField("partOf", row.part_of, Number),
  };
}

export const readNoteRow = (row: SqlRow): Note => ({
  ...readNoteFactsRow(row),
  content: readContentColumn(row, formatHandle("note", Number(row.id))),
});

export function readItemRow(row: SqlRow): CollectionItem {
  const id = Number(row.id);
  return {
    position: Number(row.position),
    id,
    content: readContentColumn(row, formatHandle("note", id)),
    bytes: Number(row.bytes),
    hash: String(row.hash),
  };
}

export const readVersionRow = (row: SqlRow): NoteVersion => ({
  version: Number(row.version),
  format: readFormatColumn(row, formatHandle("note", Number(row.id))),
  hash: String(row.hash),
  bytes: Number(row.bytes),
  changedAt: String(row.changed_at),
});

export function readCollectionRow(row: SqlRow): Collection {
  const what = formatHandle("collection", Number(row.id));
  return { ...readResourceRow(row, what), count: Number(row.count), complete: Number(row.complete) === 1 };
}

export function readOwnerRow(row: SqlRow, what: string): Pick<NoteOrigin, "tenant" | "user" | "session" | "actor"> {
  const text = (column: string) => unescapeColumn(row, column, what);
  return {
    ...optionalField("tenant", row.tenant === "" ? null : row.tenant, () => text("tenant")),
    ...optionalField("user", row.user_id === "" ? null : row.user_id, () => text("user_id")),
    session: text("session"),
    actor: text("actor"),
  };
}

const readResourceRow = (row: SqlRow, what: string) => ({
  id: Number(row.id),
  ...optionalField("name", row.name, () => unescapeColumn(row, "name", what)),
  properties: row.properties === null ? {} : readJsonObject<JsonObject>(row, "properties", what),
  origin: readOriginRow(row, what),
  reach: readKnownText(row, "reach", noteVisibilities, what),
  version: Number(row.version),
  bytes: Number(row.bytes),
  changedAt: String(row.changed_at),
  ...optionalField("expiresAt", row.expires_at, String),
});

export const formatSources = (sources: readonly string[] | undefined): string | null =>
  sources === undefined || sources.length === 0 ? null : JSON.stringify(sources);

export function readSources(row: SqlRow, column: string, what: string): readonly string[] {
  if (row[column] === null) return [];
  const value = parseColumn(String(row[column]), what, column);
  if (Array.isArray(value) && value.every((each) => typeof each === "string")) return value;
  throw damagedRowError(what, column);
}

export function readOriginRow(row: SqlRow, what: string): NoteOrigin {
  const sources = [...readSources(row, "origin_sources", what), ...readSources(row, "sources", what)];
  const origin = {
    ...readOwnerRow(row, what),
    action: unescapeColumn(row, "action", what),
    callId: unescapeColumn(row, "call_id", what),
    ...optionalField("turn", row.turn, () => unescapeColumn(row, "turn", what)),
    at: String(row.made_at),
  };
  return mergeSources(origin, sources);
}

const formats = ["text", "json", "file"] as const satisfies readonly NoteFormat[];
const readFormatColumn = (row: SqlRow, what: string): NoteFormat => readKnownText(row, "format", formats, what);

function readContentColumn(row: SqlRow, what: string): Json {
  if (readFormatColumn(row, what) !== "file") return parseColumn(String(row.content), what, "content");
  const about = readJsonObject<JsonObject>(row, "content", what);
  if (!(row.data instanceof Uint8Array)) throw damagedRowError(what, "file");
  const { buffer, byteOffset, byteLength } = row.data;
  return { ...about, base64: Buffer.from(buffer, byteOffset, byteLength).toString("base64") };
}

export const unescapeColumn = (row: SqlRow, column: string, what: string): string =>
  String(parseColumn(`"${row[column]}"`, what, column));

function parseColumn(text: string, what: string, column: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch {
    throw damagedRowError(what, column);
  }
}
