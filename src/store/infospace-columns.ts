import { type SqlQuery, sql } from "./sql.ts";

export const originColumns = sql`
  o.tenant, o.user_id, o.session, o.actor, o.turn, o.action, o.call_id, o.made_at, o.sources as origin_sources`;

/** Columns of `noteTables`, without the content, which may be long. */
export const noteColumns = sql`
  n.id, n.part_of, n.expires_at, n.format, n.version, n.bytes, n.hash, n.changed_at, n.name, n.properties,
  n.sources, w.reach, ${originColumns}`;
export const noteTables = sql`notes n join origins o on o.id = n.origin join owners w on w.id = n.owner`;

export const collectionColumns = sql`
  c.id, c.expires_at, c.complete, c.version, c.count, c.bytes, c.changed_at, c.name, c.properties, c.sources,
  w.reach, ${originColumns}`;
export const collectionTables = sql`
  collections c join origins o on o.id = c.origin join owners w on w.id = c.owner`;

export const contentColumns = sql`n.content, f.data`;
export const fileTable = sql`left join note_files f on f.note = n.id and f.version = n.version`;
export const selectCollections = sql`select ${collectionColumns} from ${collectionTables}`;
export const selectNoteFacts = sql`select ${noteColumns} from ${noteTables}`;
export const selectNotes = sql`select ${noteColumns}, ${contentColumns} from ${noteTables} ${fileTable}`;
/** `coalesce` keeps the engine from using the index on `expires_at`: nearly all notes match, other indexes find few. */
export const noteNotExpired = (now: string): SqlQuery => sql`coalesce(n.expires_at, '9999') > ${now}`;
export const collectionNotExpired = (now: string): SqlQuery => sql`coalesce(c.expires_at, '9999') > ${now}`;
