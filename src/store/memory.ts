import { QmError } from "../core/errors.ts";
import type { MemoryFacts, MemoryScope, MemoryVersion } from "../providers/memory/memory-entry.ts";
import type { MemoryAuthor, MemoryChange, MemoryStore } from "../providers/memory/memory-store.ts";
import { type MemoryText, memoryLayers, memoryLimits, memoryTypes } from "../providers/memory/memory-text.ts";
import { bindList, type Sql, type SqlRow, sql, toStorableText } from "./sql.ts";
import { optionalField, readIntactRows, readKnownText } from "./sql-rows.ts";

/** How many earlier versions stay: of one entry, and of one layer of one owner. */
const HISTORY = { entry: 100, layer: 5_000 } as const;

const facts = sql`id, tenant, layer, actor, slug, version, name, description, type, changed_at, changed_by, user_id,
  length(body) as characters`;
const whole = sql`${facts}, body, ended_at, ended_by, forgotten`;

const inScope = ({ tenant, layer, actor }: MemoryScope) =>
  sql`tenant = ${toStorableText(tenant)} and layer = ${layer} and actor = ${toStorableText(actor)}`;

/** Memory entries in SQL. A row is one version of an entry; the row without an end is the current one. */
export const createSqlMemoryStore = (db: Sql): MemoryStore => ({
  put: (scope, text, author) => db.transaction((tx) => putVersion(tx, scope, text, author)),
  async forget(scope, slug, author) {
    const ended = await endCurrent(db, scope, slug, author, true);
    return ended.length > 0;
  },
  async get(scope, slug) {
    const rows = await db.all(sql`
      select ${whole} from memory_entries where ${inScope(scope)} and slug = ${slug} and ended_at is null`);
    return rows.map(toVersion)[0];
  },
  async list(scope) {
    const rows = await db.all(sql`
      select ${facts} from memory_entries where ${inScope(scope)} and ended_at is null order by id desc`);
    return readIntactRows(rows, toFacts);
  },
  async history(scope, slug, { offset, limit }) {
    const one = sql`${inScope(scope)} and slug = ${slug}`;
    const [count] = await db.all(sql`select count(*) as total from memory_entries where ${one}`);
    const rows = await db.all(sql`
      select ${whole} from memory_entries where ${one} order by version desc limit ${limit} offset ${offset}`);
    return { versions: readIntactRows(rows, toVersion), total: Number(count?.total) };
  },
  async getVersion(scope, slug, version) {
    const rows = await db.all(sql`
      select ${whole} from memory_entries where ${inScope(scope)} and slug = ${slug} and version = ${version}`);
    return rows.map(toVersion)[0];
  },
  async read(ids) {
    const rows = await db.all(sql`
      select ${whole} from memory_entries where id in (${bindList(ids)}) and ended_at is null`);
    return readIntactRows(rows, toVersion);
  },
  async prune(before) {
    await db.all(sql`delete from memory_entries where ended_at < ${before.toISOString()}`);
  },
});

async function putVersion(tx: Sql, scope: MemoryScope, text: MemoryText, author: MemoryAuthor) {
  const { slug } = text;
  const entry = toStorableEntry(text);
  const [current] = await tx.all(sql`
    select ${whole} from memory_entries where ${inScope(scope)} and slug = ${slug} and ended_at is null`);
  const before = current && toVersion(current);
  if (before !== undefined && textFields.every((field) => before[field] === entry[field]))
    return { version: before.version, change: "unchanged" as MemoryChange };
  if (before === undefined) await checkRoom(tx, scope);
  else await endCurrent(tx, scope, slug, author, false);
  const [last] = await tx.all(sql`
    select max(version) as version from memory_entries where ${inScope(scope)} and slug = ${slug}`);
  const version = Number(last?.version ?? 0) + 1;
  await tx.all(sql`
    insert into memory_entries (tenant, layer, actor, slug, version, name, description, type, changed_at, changed_by,
      user_id, forgotten, body)
    values (${toStorableText(scope.tenant)}, ${scope.layer}, ${toStorableText(scope.actor)}, ${slug}, ${version},
      ${entry.name}, ${entry.description}, ${entry.type}, ${author.at.toISOString()}, ${toStorableText(author.actor)},
      ${toStorableText(author.user)}, 0, ${entry.body})`);
  await limitHistory(tx, scope, slug, version);
  return { version, change: (before === undefined ? "created" : "replaced") as MemoryChange };
}

const textFields = ["name", "description", "type", "body"] as const;

const toStorableEntry = ({ name, description, type, body }: MemoryText) => ({
  name: toStorableText(name),
  description: toStorableText(description),
  type,
  body: toStorableText(body),
});

async function checkRoom(tx: Sql, scope: MemoryScope): Promise<void> {
  const [row] = await tx.all(sql`
    select count(*) as entries from memory_entries where ${inScope(scope)} and ended_at is null`);
  if (Number(row?.entries) < memoryLimits.entries) return;
  throw new QmError("quota_exceeded", `the ${scope.layer} layer already has ${memoryLimits.entries} memories`, {
    hint: "Forget memories that are no longer needed, or change an existing one.",
  });
}

const endCurrent = (db: Sql, scope: MemoryScope, slug: string, { actor, at }: MemoryAuthor, isForgotten: boolean) =>
  db.all(sql`
    update memory_entries
    set ended_at = ${at.toISOString()}, ended_by = ${toStorableText(actor)}, forgotten = ${isForgotten ? 1 : 0}
    where ${inScope(scope)} and slug = ${slug} and ended_at is null returning id`);

async function limitHistory(tx: Sql, scope: MemoryScope, slug: string, version: number): Promise<void> {
  await tx.all(sql`
    delete from memory_entries
    where ${inScope(scope)} and slug = ${slug} and version < ${version - HISTORY.entry} and ended_at is not null`);
  const [oldest] = await tx.all(sql`
    select id from memory_entries where ${inScope(scope)} and ended_at is not null
    order by id desc limit 1 offset ${HISTORY.layer}`);
  if (oldest === undefined) return;
  await tx.all(sql`
    delete from memory_entries where ${inScope(scope)} and ended_at is not null and id <= ${Number(oldest.id)}`);
}

function toFacts(row: SqlRow): MemoryFacts {
  const what = `the memory ${row.slug}`;
  return {
    id: Number(row.id),
    scope: {
      tenant: String(row.tenant),
      layer: readKnownText(row, "layer", memoryLayers, what),
      actor: String(row.actor),
    },
    slug: String(row.slug),
    version: Number(row.version),
    name: String(row.name),
    description: String(row.description),
    type: readKnownText(row, "type", memoryTypes, what),
    changedAt: new Date(String(row.changed_at)),
    changedBy: String(row.changed_by),
    ...optionalField("user", row.user_id, String),
    characters: Number(row.characters),
  };
}

const toVersion = (row: SqlRow): MemoryVersion => ({
  ...toFacts(row),
  body: String(row.body),
  ...optionalField("ended", row.ended_at, (at) => ({
    at: new Date(String(at)),
    by: String(row.ended_by),
    how: Number(row.forgotten) === 1 ? ("forgotten" as const) : ("replaced" as const),
  })),
});
