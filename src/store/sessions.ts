import type {
  FinishedTurn,
  SessionMessage,
  SessionOwner,
  SessionQuery,
  SessionStore,
  SessionSummary,
  StoredSession,
} from "../actor/session-store.ts";
import { type Json, omitUndefined } from "../core/json.ts";
import type { ModelMessage } from "../core/model.ts";
import {
  createWriteTag,
  joinQueries,
  matchTexts,
  type Sql,
  type SqlQuery,
  type SqlRow,
  splitIntoBatches,
  sql,
  toStorableText,
  whereAll,
} from "./sql.ts";
import { damagedRowError, optionalField, readIntactRows, readJsonObject, readTexts } from "./sql-rows.ts";

const DEFAULT_SESSIONS = 50;
const DEFAULT_MESSAGES = 100;

/** Of a turn that is not over. */
const isOpen = sql`state in ('running', 'suspended')`;

/** Sessions in SQL: a row for each actor of a session, and one for each message. */
export function createSqlSessionStore(db: Sql): SessionStore {
  const write = createWriteTag(db);
  return {
    async open(owner, { id, session, actor, title }, at) {
      const time = at.toISOString();
      await db.all(sql`
        insert into sessions (id, tenant, user_id, session, actor, title, created_at, changed_at, message_count, summary_until)
        values (${id}, ${joinQueries(bindOwner(owner), ", ")}, ${toStorableText(session)}, ${toStorableText(actor)},
          ${toStorableText(title)}, ${time}, ${time}, 0, 0)
        on conflict (tenant, user_id, session, actor) do nothing`);
      const [row] = await db.all(sql`select * from sessions ${matchSession(owner, session, actor)}`);
      if (row === undefined) throw new TypeError("a session that was added is not there");
      return toStoredSession(row);
    },
    async find(owner, session, actor) {
      const rows = await db.all(sql`
        select * from sessions ${matchSession(owner, session, actor)} order by created_at, id`);
      return rows.map(toStoredSession);
    },
    async list({ limit = DEFAULT_SESSIONS, offset = 0, tenant, user, session, actor }: SessionQuery) {
      const conditions = matchTexts({ tenant, user_id: user, "s.session": session, actor });
      const rows = await db.all(sql`
        select s.*, t.state as turn_state from sessions s left join turns t on t.id = s.open_turn and t.${isOpen}
        ${whereAll(conditions)} order by s.changed_at desc, s.id desc limit ${toLimit(limit)} offset ${toLimit(offset)}`);
      return readIntactRows(rows, toSessionSummary);
    },
    async claim(id, turn, former, key) {
      const isAsSeen = former === undefined ? sql`open_turn is null` : sql`open_turn = ${toStorableText(former)}`;
      return write`
        update sessions set open_turn = ${toStorableText(turn)}, turn_key = ${key ?? null}, result = null
        where id = ${id} and ${isAsSeen} returning id`;
    },
    finish: (id, end) => db.transaction((tx) => finishTurn(tx, id, end)),
    async deliver(owner, session, key) {
      await db.all(sql`
        update sessions set turn_key = null, result = null
        ${matchSession(owner, session, undefined)} and turn_key = ${key} and open_turn is null`);
    },
    async readHistory(id) {
      const [row] = await db.all(sql`select summary, summary_until from sessions where id = ${id}`);
      const rows = await db.all(sql`
        select seq, turn, coalesce(shortened, message) as message from session_messages
        where session_id = ${id} and seq > ${Number(row?.summary_until ?? 0)} order by seq`);
      return { ...optionalField("summary", row?.summary, String), messages: rows.map(toSessionMessage) };
    },
    async readMessages(id, { after = 0, limit = DEFAULT_MESSAGES }) {
      const rows = await db.all(sql`
        select seq, turn, message from session_messages where session_id = ${id} and seq > ${Math.trunc(after)}
        order by seq limit ${toLimit(limit)}`);
      return rows.map(toSessionMessage);
    },
    shorten: (id, { messages, summary }) =>
      db.transaction(async (tx) => {
        for (const { seq, message } of messages)
          await tx.all(sql`
            update session_messages set shortened = ${JSON.stringify(message)} where session_id = ${id} and seq = ${seq}`);
        if (summary !== undefined)
          await tx.all(sql`
            update sessions set summary = ${toStorableText(summary.text)}, summary_until = ${summary.until}
            where id = ${id}`);
      }),
    remove: (id) =>
      db.transaction(async (tx) => {
        await tx.all(sql`delete from session_messages where session_id = ${id}`);
        return (await tx.all(sql`delete from sessions where id = ${id} returning id`)).length > 0;
      }),
    async prune(before) {
      const old = sql`
        select id from sessions where changed_at < ${before.toISOString()}
          and not exists (select 1 from turns t where t.id = open_turn and t.${isOpen})`;
      // Most of the time there is none, and nothing is written.
      if ((await db.all(sql`${old} limit 1`)).length === 0) return 0;
      return db.transaction(async (tx) => {
        await tx.all(sql`delete from session_messages where session_id in (${old})`);
        return (await tx.all(sql`delete from sessions where id in (${old}) returning id`)).length;
      });
    },
  };
}

async function finishTurn(tx: Sql, id: string, { turn, messages, result, at }: FinishedTurn): Promise<boolean> {
  const [row] = await tx.all(sql`
    update sessions set open_turn = null, changed_at = ${at.toISOString()},
      result = ${result === undefined ? null : JSON.stringify(result)},
      turn_key = case when ${result === undefined ? 1 : 0} = 1 then null else turn_key end,
      message_count = message_count + ${messages.length}
    where id = ${id} and open_turn = ${toStorableText(turn)} returning message_count`);
  if (row === undefined) return false;
  const last = Number(row.message_count) - messages.length;
  const rows = messages.map(
    (message, at) => sql`(${id}, ${last + at + 1}, ${toStorableText(turn)}, ${JSON.stringify(message)})`,
  );
  for (const batch of splitIntoBatches(rows))
    await tx.all(sql`insert into session_messages (session_id, seq, turn, message) values ${joinQueries(batch, ", ")}`);
  return true;
}

const toLimit = (limit: number): number => Math.max(0, Math.trunc(limit));

/** The empty string stands for none, because nulls are not equal in a unique key. */
const bindOwner = ({ tenant = "", user }: SessionOwner): readonly SqlQuery[] => [
  sql`${toStorableText(tenant)}`,
  sql`${toStorableText(user?.id ?? "")}`,
];

const matchSession = ({ tenant = "", user }: SessionOwner, session: string, actor: string | undefined): SqlQuery =>
  whereAll(matchTexts({ tenant, user_id: user?.id ?? "", session, actor }));

function toStoredSession(row: SqlRow): StoredSession {
  const texts = readTexts(row, {
    ...{ id: "id", session: "session", actor: "actor", title: "title" },
    ...{ createdAt: "created_at", changedAt: "changed_at" },
  });
  const readOwner = (column: string) => (row[column] === "" ? null : row[column]);
  return {
    ...texts,
    ...optionalField("tenant", readOwner("tenant"), String),
    ...optionalField("user", readOwner("user_id"), String),
    messages: Number(row.message_count),
    ...optionalField("openTurn", row.open_turn, String),
    ...optionalField("turnKey", row.turn_key, String),
    ...optionalField("result", row.result, () =>
      readJsonObject<{ [key: string]: Json }>(row, "result", `session ${row.id}`),
    ),
  };
}

function toSessionSummary(row: SqlRow): SessionSummary {
  const { id: _, turnKey: _key, result: _result, openTurn, ...summary } = toStoredSession(row);
  const [turnState] = (["running", "suspended"] as const).filter((state) => state === row.turn_state);
  return turnState === undefined ? summary : { ...summary, ...omitUndefined({ openTurn }), turnState };
}

function toSessionMessage(row: SqlRow): SessionMessage {
  const what = `message ${row.seq} of a session`;
  const message = readJsonObject<ModelMessage>(row, "message", what);
  if (!["user", "assistant", "tool"].includes(message.role)) throw damagedRowError(what, "message");
  return { seq: Number(row.seq), turn: String(row.turn), message };
}
