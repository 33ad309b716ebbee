import type { NewEvent } from "../core/events.ts";
import { canonicalJson, getOwn, isRecord, type Json } from "../core/json.ts";
import type { EventQuery, EventStore, StoredEvent } from "../ledger/event-store.ts";
import { CHAIN_START, hashLineText } from "../ledger/hash-chain.ts";
import { joinQueries, type Sql, type SqlQuery, type SqlRow, sql, toStorableText } from "./sql.ts";

const DEFAULT_LIMIT = 1000;

/** The ledger's lines in SQL: one table of lines, one of the chains' ends. */
export function createSqlEventStore(db: Sql): EventStore {
  return {
    append: (events) => db.transaction((tx) => appendEvents(tx, events)),
    async read({ limit = DEFAULT_LIMIT, ...query }) {
      const newestFirst = query.after === undefined;
      const rows = await db.all(sql`
        select id, session, seq, type, at, actor, tenant, turn, user_id, person, call_id, action, data, prev, hash
        from events ${conditions(query)}
        order by ${newestFirst && (query.session ?? query.lastSessionOf) !== undefined ? sql`seq` : sql`id`} ${newestFirst ? sql`desc` : sql`asc`}
        limit ${limit}`);
      return (newestFirst ? rows.toReversed() : rows).map(toStoredEvent);
    },
    async heads() {
      const rows = await db.all(sql`select session, seq, hash from chains order by session`);
      return rows.map((row) => ({ session: String(row.session), seq: Number(row.seq), hash: String(row.hash) }));
    },
  };
}

/** Writes events within somebody's transaction: with whatever else that writes, or not at all. */
export async function appendEvents(tx: Sql, events: readonly NewEvent[]): Promise<void> {
  if (events.length > 0) await write(tx, events.map(toNewLine));
}

/** A line before it has its place; `data` is the text that is kept and hashed. */
type NewLine = Omit<StoredEvent, "id" | "seq" | "prev" | "hash" | "data"> & { readonly data: string };

function toNewLine({ session, type, at, actor, tenant, turn, user, person, data }: NewEvent): NewLine {
  return {
    session: toStorableText(session),
    type,
    at: at.toISOString(),
    actor: toStorableText(actor),
    tenant: toStorableText(tenant),
    turn: toStorableText(turn),
    user: toStorableText(user),
    person: toStorableText(person),
    callId: readOwnText(data, "callId"),
    action: readOwnText(data, "action"),
    data: canonicalJson(data),
  };
}

async function write(tx: Sql, lines: readonly NewLine[]): Promise<void> {
  const heads = await reserve(tx, lines);
  for (const line of lines) {
    const head = heads.get(line.session);
    if (head === undefined) throw new TypeError(`no place was reserved for ${line.session}`);
    const { session, type, at, actor, tenant, turn, user, person, callId, action, data } = line;
    const prev = head.hash;
    const seq = ++head.seq;
    head.hash = hashLineText({ ...line, seq, prev }, data);
    await tx.all(sql`
      insert into events
        (session, seq, type, at, actor, tenant, turn, user_id, person, call_id, action, data, prev, hash)
      values (${session}, ${seq}, ${type}, ${at}, ${actor}, ${tenant}, ${turn}, ${user}, ${person}, ${callId},
        ${action}, ${data},
        ${prev}, ${head.hash})`);
  }
  for (const [session, { hash }] of heads)
    await tx.all(sql`update chains set hash = ${hash} where session = ${session}`);
}

/**
 * Counts each session's chain on by as many lines as it gets, and answers where the chains ended before. Counting
 * first makes every other writer of these sessions wait, on engines that let several write at once.
 */
async function reserve(tx: Sql, lines: readonly NewLine[]): Promise<Map<string, { seq: number; hash: string }>> {
  const counts = new Map<string, number>();
  for (const { session } of lines) counts.set(session, (counts.get(session) ?? 0) + 1);
  // In one order everywhere, or two writers could wait for each other.
  const sessions = [...counts].sort(([a], [b]) => (a < b ? -1 : 1));
  const rows = await tx.all(sql`
    insert into chains (session, seq, hash)
    values ${joinQueries(
      sessions.map(([session, count]) => sql`(${session}, ${count}, ${CHAIN_START})`),
      ", ",
    )}
    on conflict (session) do update set seq = chains.seq + excluded.seq
    returning session, seq, hash`);
  return new Map(
    rows.map((row) => {
      const session = String(row.session);
      return [session, { seq: Number(row.seq) - (counts.get(session) ?? 0), hash: String(row.hash) }];
    }),
  );
}

function conditions({
  session,
  lastSessionOf,
  actor,
  tenant,
  user,
  type,
  callId,
  action,
  after,
}: EventQuery): SqlQuery {
  const all: SqlQuery[] = [];
  if (session !== undefined) all.push(sql`session = ${toStorableText(session)}`);
  if (lastSessionOf !== undefined) {
    const [from, to] = [toStorableText(lastSessionOf), `${toStorableText(lastSessionOf)}\u{10ffff}`];
    all.push(
      sql`session = (select session from chains where session >= ${from} and session < ${to} order by session desc limit 1)`,
    );
  }
  if (actor !== undefined) all.push(sql`actor = ${toStorableText(actor)}`);
  if (tenant !== undefined) all.push(sql`tenant = ${toStorableText(tenant)}`);
  if (user !== undefined) all.push(sql`user_id = ${toStorableText(user)}`);
  if (type?.endsWith(".")) all.push(sql`substr(type, 1, ${type.length}) = ${toStorableText(type)}`);
  else if (type !== undefined) all.push(sql`type = ${toStorableText(type)}`);
  if (callId !== undefined) all.push(sql`call_id = ${toStorableText(callId)}`);
  if (action !== undefined) all.push(sql`action = ${toStorableText(action)}`);
  if (after !== undefined) all.push(sql`id > ${after}`);
  return all.length === 0 ? sql`` : sql`where ${joinQueries(all, " and ")}`;
}

function toStoredEvent(row: SqlRow): StoredEvent {
  return {
    id: Number(row.id),
    session: String(row.session),
    seq: Number(row.seq),
    type: String(row.type),
    at: String(row.at),
    actor: toTextOrNull(row.actor),
    tenant: toTextOrNull(row.tenant),
    turn: toTextOrNull(row.turn),
    user: toTextOrNull(row.user_id),
    person: toTextOrNull(row.person),
    callId: toTextOrNull(row.call_id),
    action: toTextOrNull(row.action),
    data: readData(String(row.data)),
    prev: String(row.prev),
    hash: String(row.hash),
  };
}

/** Text that this store did not write, because somebody changed it, is handed on as it is: no hash will fit it. */
function readData(text: string): Json {
  try {
    const data: Json = JSON.parse(text);
    return canonicalJson(data) === text ? data : text;
  } catch {
    return text;
  }
}

function toTextOrNull(value: SqlRow[string] | undefined): string | null {
  return value === null || value === undefined ? null : String(value);
}

function readOwnText(data: unknown, key: string): string | null {
  const value = isRecord(data) ? getOwn(data, key) : undefined;
  return typeof value === "string" ? toStorableText(value) : null;
}
