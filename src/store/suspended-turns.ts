import { type StoredTurn, type TurnStore, turnStates, type WaitingCall } from "../approval/turn-store.ts";
import {
  createWriteTag,
  matchTexts,
  type Sql,
  type SqlQuery,
  type SqlRow,
  sql,
  toStorableText,
  whereAll,
} from "./sql.ts";
import {
  matchHolder,
  optionalField,
  readHolder,
  readIntactRows,
  readJsonList,
  readJsonObject,
  readKnownText,
  setHolder,
} from "./sql-rows.ts";

const DEFAULT_LIMIT = 100;

/** All but the memo, which may be long. */
const columns = sql`
  id, state, caller, version, holder, holder_pid, holder_host, lease_until, expires_at, started_at, changed_at, calls`;

/** Turns in SQL: one row each. Every write names the version it starts from. */
export function createSqlTurnStore(db: Sql): TurnStore {
  const write = createWriteTag(db);
  async function readOne(where: SqlQuery): Promise<StoredTurn | undefined> {
    const [row] = await db.all(sql`select ${columns} from turns where ${where}`);
    return row === undefined ? undefined : toStoredTurn(row);
  }

  return {
    async add({ id, tokenHash, caller, memo, holder, at }) {
      const time = at.toISOString();
      return write`
        insert into turns (id, token_hash, state, caller, session, version, holder, holder_pid, holder_host,
          lease_until, started_at, changed_at, calls, memo)
        values (${toStorableText(id)}, ${tokenHash}, 'running', ${JSON.stringify(caller)},
          ${toStorableText(caller.session)}, 1, ${holder.id}, ${holder.pid}, ${toStorableText(holder.host)},
          ${holder.leaseUntil.toISOString()}, ${time}, ${time}, '[]', ${memo})
        on conflict (id) do nothing returning id`;
    },
    get: async (id) => readOne(sql`id = ${toStorableText(id)}`),
    byToken: (tokenHash) => readOne(sql`token_hash = ${tokenHash}`),
    async list({ limit = DEFAULT_LIMIT, state, session }) {
      const rows = await db.all(sql`
        select ${columns} from turns ${whereAll(matchTexts({ state, session }))}
        order by changed_at desc, id desc limit ${Math.max(0, Math.trunc(limit))}`);
      return readIntactRows(rows, toStoredTurn);
    },
    async claim({ id, version, holder: former }, holder, at, tokenHash) {
      const [row] = await db.all(sql`
        update turns set state = 'running', version = version + 1, ${setHolder(holder)}, changed_at = ${at.toISOString()},
          expires_at = null, token_hash = coalesce(${tokenHash ?? null}, token_hash)
        where id = ${toStorableText(id)} and version = ${version} and state in ('running', 'suspended')
          and ${matchHolder(former)}
        returning memo`);
      return row === undefined ? undefined : String(row.memo);
    },
    async write({ id, holderId, version }, { state, calls, memo, holder, expiresAt, tokenHash, at }) {
      return write`
        update turns set state = ${state}, version = version + 1, ${setHolder(holder)}, changed_at = ${at.toISOString()},
          calls = ${JSON.stringify(calls)}, memo = ${memo}, expires_at = ${expiresAt ?? null},
          token_hash = coalesce(${tokenHash ?? null}, token_hash)
        where id = ${toStorableText(id)} and version = ${version} and holder = ${holderId} and state = 'running'
        returning id`;
    },
    async release(id, holderId, at) {
      await db.all(sql`
        update turns set ${setHolder(undefined)}, version = version + 1, changed_at = ${at.toISOString()}
        where id = ${toStorableText(id)} and holder = ${holderId} and state = 'running'`);
    },
    async readMemo(id) {
      const [row] = await db.all(sql`select memo from turns where id = ${toStorableText(id)}`);
      return row === undefined ? undefined : String(row.memo);
    },
    async cancelAll(at) {
      const open = await db.all(sql`
        update turns set state = 'cancelled', version = version + 1, ${setHolder(undefined)},
          expires_at = null, changed_at = ${at.toISOString()}, calls = '[]', memo = 'null'
        where state in ('running', 'suspended') returning id`);
      return open.length;
    },
    async renew(holderId, leaseUntil) {
      await db.all(sql`
        update turns set lease_until = ${leaseUntil.toISOString()} where state = 'running' and holder = ${holderId}`);
    },
    async prune(before) {
      const gone = await db.all(sql`
        delete from turns
        where (state in ('complete', 'failed', 'cancelled') and changed_at < ${before.toISOString()})
          or (state = 'suspended' and expires_at < ${before.toISOString()})
          or (state = 'running' and coalesce(lease_until, changed_at) < ${before.toISOString()})
        returning id`);
      return gone.length;
    },
  };
}

function toStoredTurn(row: SqlRow): StoredTurn {
  const id = String(row.id);
  const what = `turn ${id}`;
  return {
    id,
    state: readKnownText(row, "state", turnStates, what),
    caller: readJsonObject(row, "caller", what),
    calls: readJsonList<WaitingCall>(row, "calls", what),
    version: Number(row.version),
    ...readHolder(row),
    ...optionalField("expiresAt", row.expires_at, String),
    startedAt: String(row.started_at),
    changedAt: String(row.changed_at),
  };
}
