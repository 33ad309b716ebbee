import type { ActionOwner, ActionProvenance } from "../core/action.ts";
import { QmError } from "../core/errors.ts";
import { canonicalJson } from "../core/json.ts";
import {
  type DocumentCall,
  type NewDocument,
  type RagSource,
  type RagStore,
  SOURCE_LIMIT,
  type SourceContents,
  type StoredChunk,
} from "../providers/rag/rag-store.ts";
import { bindList, joinQueries, type Sql, type SqlRow, splitIntoBatches, sql, toStorableText } from "./sql.ts";
import { readJsonObject } from "./sql-rows.ts";

const CHUNK_BATCH = 100;
const SOURCE_COLUMNS = sql`id, tenant, name, description, owner, made_from, contents, version, documents, chunks,
  characters, indexed_at`;

/** Indexed documents in SQL. A source is replaced in one transaction. */
export const createSqlRagStore = (db: Sql, now: () => Date): RagStore => ({
  async list(tenant) {
    const rows = await db.all(sql`
      select ${SOURCE_COLUMNS} from rag_sources where tenant = ${toStorableText(tenant)} order by name, id`);
    return rows.map(toSource);
  },
  async documents(sources) {
    const rows = await db.all(sql`
      select id, source_id, document, hash, characters, read_by,
        (select count(*) from rag_chunks where document_id = rag_documents.id) as chunks
      from rag_documents where source_id in (${bindList(sources)}) order by id`);
    return rows.map((row) => ({
      id: Number(row.id),
      sourceId: Number(row.source_id),
      document: String(row.document),
      hash: String(row.hash),
      characters: Number(row.characters),
      chunks: Number(row.chunks),
      read: readCall(row),
    }));
  },
  save: ({ former, source, put, removed }) =>
    db.transaction(async (tx) => {
      const id = await claimSource(tx, former, source, now());
      for (const batch of splitIntoBatches(removed)) {
        await tx.all(sql`delete from rag_chunks where document_id in (${bindList(batch)})`);
        await tx.all(sql`delete from rag_documents where source_id = ${id} and id in (${bindList(batch)})`);
      }
      for (const document of put) await putDocument(tx, id, document);
      const [row] = await tx.all(sql`
        update rag_sources set
          documents = (select count(*) from rag_documents where source_id = ${id}),
          characters = (select coalesce(sum(characters), 0) from rag_documents where source_id = ${id}),
          chunks = (select count(*) from rag_chunks where source_id = ${id})
        where id = ${id} returning ${SOURCE_COLUMNS}`);
      return toSource(row as SqlRow);
    }),
  drop: (source) =>
    db.transaction(async (tx) => {
      await tx.all(sql`delete from rag_chunks where source_id = ${source}`);
      await tx.all(sql`delete from rag_documents where source_id = ${source}`);
      await tx.all(sql`delete from rag_sources where id = ${source}`);
    }),
  async mark(sources) {
    const rows = await db.all(sql`
      select id, version, indexed_at from rag_sources where id in (${bindList(sources)}) order by id`);
    return rows.map(({ id, version, indexed_at }) => `${id} ${version} ${indexed_at}`).join(", ");
  },
  async chunkMarks(sources) {
    const rows = await db.all(sql`
      select id, document_id, mark from rag_chunks where source_id in (${bindList(sources)})`);
    return rows.map((row) => ({ id: Number(row.id), documentId: Number(row.document_id), mark: String(row.mark) }));
  },
  async chunks(ids) {
    const found: StoredChunk[] = [];
    for (const batch of splitIntoBatches(ids)) {
      const rows = await db.all(sql`
        select c.id, c.source_id, c.document_id, c.mark, c.heading, c.text, c.line_from, c.line_to, c.offset_from, c.offset_to,
          d.document, d.title
        from rag_chunks c join rag_documents d on d.id = c.document_id where c.id in (${bindList(batch)})`);
      found.push(...rows.map(toChunk));
    }
    return found;
  },
});

async function claimSource(
  tx: Sql,
  former: Pick<RagSource, "id" | "version"> | undefined,
  source: Pick<RagSource, "name" | "description" | "owner" | "madeFrom" | "contents">,
  at: Date,
): Promise<number> {
  const description = toStorableText(source.description);
  if (former === undefined) await checkRoom(tx, source.owner.tenant);
  const [madeFrom, contents] = [JSON.stringify(source.madeFrom), JSON.stringify(source.contents)];
  const rows =
    former === undefined
      ? await tx.all(sql`
          insert into rag_sources (tenant, name, description, owner, made_from, contents, version, documents, chunks,
            characters, indexed_at)
          values (${toStorableText(source.owner.tenant)}, ${source.name}, ${description}, ${canonicalJson(source.owner)},
            ${madeFrom}, ${contents}, 1, 0, 0, 0, ${at.toISOString()})
          on conflict (tenant, owner, name) do nothing returning id`)
      : await tx.all(sql`
          update rag_sources set description = ${description}, made_from = ${madeFrom}, contents = ${contents},
            version = version + 1, indexed_at = ${at.toISOString()}
          where id = ${former.id} and version = ${former.version} returning id`);
  const [row] = rows;
  if (row !== undefined) return Number(row.id);
  throw new QmError("conflict", `another call has indexed or dropped the source ${source.name} in the meantime`, {
    hint: "Index it again.",
  });
}

async function checkRoom(tx: Sql, tenant: string): Promise<void> {
  const [row] = await tx.all(sql`select count(*) as sources from rag_sources where tenant = ${toStorableText(tenant)}`);
  if (Number(row?.sources) < SOURCE_LIMIT) return;
  throw new QmError("quota_exceeded", `there are already ${SOURCE_LIMIT} sources`, {
    hint: "Drop sources that are no longer needed, or index more documents in an existing one.",
  });
}

async function putDocument(tx: Sql, source: number, document: NewDocument): Promise<void> {
  const { hash, chunks } = document;
  const [row] = await tx.all(sql`
    insert into rag_documents (source_id, document, title, hash, characters, read_by)
    values (${source}, ${toStorableText(document.document)}, ${toStorableText(document.title)}, ${hash},
      ${document.characters}, ${JSON.stringify(document.read)}) returning id`);
  const id = Number(row?.id);
  const values = chunks.map(
    ({ heading, text, lines, offset }, at) => sql`(${source}, ${id}, ${`${hash.slice(0, 16)} ${at}`},
      ${toStorableText(heading)}, ${toStorableText(text)}, ${lines[0]}, ${lines[1]}, ${offset[0]}, ${offset[1]})`,
  );
  for (const batch of splitIntoBatches(values, CHUNK_BATCH)) {
    await tx.all(sql`
      insert into rag_chunks (source_id, document_id, mark, heading, text, line_from, line_to, offset_from, offset_to)
      values ${joinQueries(batch, ", ")}`);
  }
}

function toSource(row: SqlRow): RagSource {
  const what = `the source ${String(row.name)}`;
  return {
    id: Number(row.id),
    name: String(row.name),
    description: String(row.description),
    owner: readJsonObject<ActionOwner & { readonly tenant: string }>(row, "owner", what),
    madeFrom: readJsonObject<ActionProvenance>(row, "made_from", what),
    contents: readJsonObject<SourceContents>(row, "contents", what),
    version: Number(row.version),
    documents: Number(row.documents),
    chunks: Number(row.chunks),
    characters: Number(row.characters),
    indexedAt: String(row.indexed_at),
  };
}

const readCall = (row: SqlRow): DocumentCall => readJsonObject<DocumentCall>(row, "read_by", "an indexed document");

const toChunk = (row: SqlRow): StoredChunk => ({
  id: Number(row.id),
  sourceId: Number(row.source_id),
  documentId: Number(row.document_id),
  mark: String(row.mark),
  document: String(row.document),
  title: String(row.title),
  heading: String(row.heading),
  text: String(row.text),
  lines: [Number(row.line_from), Number(row.line_to)],
  offset: [Number(row.offset_from), Number(row.offset_to)],
});
