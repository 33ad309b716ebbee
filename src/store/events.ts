import { hasSideEffects } from "../core/action.ts";
import { type NewEvent, SYSTEM_SESSION } from "../core/events.ts";
import { canonicalJson, type Json } from "../core/json.ts";
import { LruMap } from "../core/lru-map.ts";
import type {
  CallProcess,
  ChainHead,
  EventQuery,
  EventStore,
  PrunedChain,
  StoredEvent,
} from "../ledger/event-store.ts";
import { appendEvents, type ChainEnd, readOwnText } from "./append-events.ts";
import {
  bindList,
  createWriteTag,
  joinQueries,
  matchTexts,
  type Sql,
  type SqlQuery,
  type SqlRow,
  sql,
  toStorableText,
  whereAll,
} from "./sql.ts";

const DEFAULT_LIMIT = 1000;
const KNOWN_CHAINS = 1000;

/** The ledger in SQL: one table of lines and one of the last line of each chain. `self` runs calls. */
export const createSqlEventStore = (db: Sql, self?: CallProcess): EventStore => ({
  ...createRunningCalls(db, self),
  async read({ limit = DEFAULT_LIMIT, ...query }) {
    const newestFirst = query.after === undefined;
    const isOneSession = (query.session ?? query.lastSessionOf) !== undefined;
    const order = newestFirst ? sql`${isOneSession ? sql`seq` : sql`id`} desc` : sql`id asc`;
    const rows = await db.all(sql`
        select id, session, seq, type, at, actor, tenant, turn, user_id, person, call_id, action, data, prev, hash
        from events ${conditions(query)}
        order by ${order} limit ${limit}`);
    return (newestFirst ? rows.toReversed() : rows).map(toStoredEvent);
  },
  async heads() {
    const rows = await db.all(sql`select session, seq, hash from chains order by session`);
    return rows.map(toChainHead);
  },
  async listHeld() {
    const rows = await db.all(sql`
      select session, min(at) as at from (
        select session, at from events where call_id in (
          select call_id from approvals
          where state in ('pending', 'approved', 'executing') or (state in ('done', 'interrupted') and recorded = 0))
        union all
        select session, started_at from turns where state in ('running', 'suspended')
        union all
        select session, started_at from method_runs where state in ('running', 'waiting')
      ) needed group by session`);
    return new Map(rows.map((row) => [String(row.session), new Date(String(row.at))]));
  },
  prune: (upTo, toEvent) => db.transaction((tx) => pruneEvents(tx, upTo, toEvent)),
});

/** Notes which calls may have had an effect when their process dies, with the events of their start and end. */
function createRunningCalls(db: Sql, self: CallProcess | undefined): Pick<EventStore, "append" | "takeUnfinished"> {
  const running = new Set<string>();
  const ends = new LruMap<string, ChainEnd>(KNOWN_CHAINS);
  const write = createWriteTag(db);

  async function noteRunning(tx: Sql, events: readonly NewEvent[], { id, pid, host }: CallProcess): Promise<void> {
    const ended = new Set(events.flatMap(findEndedCall));
    const begun = events.filter((event) => isBegun(event) && !ended.has(event.data.callId));
    const over = [...ended].filter((callId) => running.has(callId));
    if (over.length > 0) await tx.all(sql`delete from running_calls where call_id in (${bindList(over)})`);
    if (begun.length === 0) return;
    const rows = begun.map(
      ({ at, data }) => sql`(${readOwnText(data, "callId")}, ${id}, ${pid}, ${host}, ${at.toISOString()})`,
    );
    await tx.all(sql`
      insert into running_calls (call_id, process, pid, host, since) values ${joinQueries(rows, ", ")}
      on conflict (call_id) do nothing`);
  }

  return {
    async append(events) {
      if (events.length === 0) return;
      const moved = await db.transaction(async (tx) => {
        const moved = await appendEvents(tx, events, ends);
        if (self !== undefined) await noteRunning(tx, events, self);
        return moved;
      });
      for (const [session, end] of moved) ends.set(session, end);
      for (const event of events) {
        if (self !== undefined && isBegun(event)) running.add(event.data.callId);
        for (const callId of findEndedCall(event)) running.delete(callId);
      }
    },
    async takeUnfinished(isGone) {
      if (self === undefined) return [];
      const rows = await db.all(sql`
        select call_id, process, pid, host, since from running_calls where process <> ${self.id} order by since`);
      const taken: string[] = [];
      for (const { call_id, process, pid, host, since } of rows) {
        const owner = { id: String(process), pid: Number(pid), host: String(host) };
        if (!isGone(owner, new Date(String(since)))) continue;
        const isTaken = await write`
          update running_calls set process = ${self.id}, pid = ${self.pid}, host = ${self.host}
          where call_id = ${String(call_id)} and process = ${owner.id} returning call_id`;
        if (!isTaken) continue;
        taken.push(String(call_id));
        running.add(String(call_id));
      }
      return taken;
    },
  };
}

/** Calls that run after an approval are noted with it. Those that change nothing may be forgotten. */
const isBegun = (event: NewEvent): event is Extract<NewEvent, { type: "call.decided" }> =>
  event.type === "call.decided" &&
  event.data.decision === "allow" &&
  event.data.approvalId === undefined &&
  hasSideEffects(event.data.effect);

const findEndedCall = ({ type, data }: NewEvent): readonly string[] =>
  type === "call.ended" || type === "call.suspended" ? [data.callId] : [];

const toChainHead = (row: SqlRow): ChainHead => ({
  session: String(row.session),
  seq: Number(row.seq),
  hash: String(row.hash),
});

async function pruneEvents(tx: Sql, ...[upTo, toEvent]: Parameters<EventStore["prune"]>): Promise<void> {
  const chains: PrunedChain[] = [];
  for (const chain of upTo) {
    const { session, seq } = chain;
    await tx.all(sql`delete from events where session = ${session} and seq <= ${seq}`);
    // The record itself goes to the chain of the system.
    const isWhole =
      session !== SYSTEM_SESSION &&
      (await createWriteTag(tx)`delete from chains where session = ${session} and seq = ${seq} returning session`);
    chains.push({ ...chain, ...(isWhole ? { whole: true } : {}) });
  }
  if (upTo.some(({ session }) => session === SYSTEM_SESSION)) {
    const rows = await tx.all(sql`
      select e.session, e.seq - 1 as seq, e.prev as hash from chains c
      join events e on e.session = c.session and e.seq = (select min(seq) from events where session = c.session)
      where e.seq > 1`);
    chains.push(...rows.map(toChainHead).filter((row) => !chains.some(({ session }) => session === row.session)));
  }
  await appendEvents(tx, [toEvent(chains)]);
}

function conditions({ lastSessionOf, user, type, callId, after, ...query }: EventQuery): SqlQuery {
  const { session, actor, tenant, action } = query;
  const isPrefix = type?.endsWith(".") === true;
  const whole = isPrefix ? undefined : type;
  const all = matchTexts({ session, actor, tenant, user_id: user, type: whole, call_id: callId, action });
  if (lastSessionOf !== undefined) {
    const [from, to] = [toStorableText(lastSessionOf), `${toStorableText(lastSessionOf)}\u{10ffff}`];
    all.push(
      sql`session = (select session from chains where session >= ${from} and session < ${to} order by session desc limit 1)`,
    );
  }
  if (isPrefix) all.push(sql`substr(type, 1, ${type.length}) = ${toStorableText(type)}`);
  if (after !== undefined) all.push(sql`id > ${after}`);
  return whereAll(all);
}

const toStoredEvent = (row: SqlRow): StoredEvent => ({
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
});

/** Returns text that was changed outside of this store as it is. Its hash will not match. */
function readData(text: string): Json {
  try {
    const data: Json = JSON.parse(text);
    return canonicalJson(data) === text ? data : text;
  } catch {
    return text;
  }
}

const toTextOrNull = (value: SqlRow[string] | undefined): string | null =>
  value === null || value === undefined ? null : String(value);
