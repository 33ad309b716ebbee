import type {
  MethodProgress,
  MethodResult,
  MethodRun,
  MethodRunStore,
  MethodRunSummary,
  NewMethodRun,
} from "../providers/skill/method/method-run.ts";
import { methodRunStates } from "../providers/skill/method/method-run.ts";
import { createWriteTag, matchTexts, type Sql, type SqlRow, sql, toStorableText, whereAll } from "./sql.ts";
import {
  matchHolder,
  optionalField,
  readHolder,
  readIntactRows,
  readJsonObject,
  readKnownText,
  readTexts,
  setHolder,
} from "./sql-rows.ts";

const DEFAULT_LIMIT = 100;
/** All but the long ones. */
const columns = sql`
  id, state, action, caller, step, steps, requests, holder, holder_pid, holder_host, lease_until, approval_id, started_at,
  changed_at, outcome, reason`;
const isOpen = sql`state in ('running', 'waiting')`;

/** Runs of methods in SQL: one row each. */
export function createSqlMethodRunStore(db: Sql): MethodRunStore {
  const write = createWriteTag(db);
  return {
    start: (run) => db.transaction((tx) => start(tx, run)),
    async get(id) {
      const [row] = await db.all(sql`select * from method_runs where id = ${toStorableText(id)}`);
      return row === undefined ? undefined : toMethodRun(row);
    },
    async list({ state, isOpen: isOpenOnly = false, limit = DEFAULT_LIMIT }) {
      const conditions = [...matchTexts({ state }), ...(isOpenOnly ? [isOpen] : [])];
      const rows = await db.all(sql`
        select ${columns} from method_runs ${whereAll(conditions)}
        order by started_at desc, id desc limit ${Math.max(0, Math.trunc(limit))}`);
      return readIntactRows(rows, toSummary);
    },
    async claim({ id, state, holder: former, changedAt }, { holder, callId, at }) {
      return write`
        update method_runs set state = 'running', call_id = ${toStorableText(callId)}, ${setHolder(holder)},
          changed_at = ${at.toISOString()}
        where id = ${toStorableText(id)} and state = ${state} and ${isOpen} and changed_at = ${changedAt}
          and ${matchHolder(former)}
        returning id`;
    },
    async write(id, holderId, { state, progress, approvalId, holder, result, at, isDelivered = false }) {
      const outcome = result === undefined || "error" in result ? undefined : result.outcome;
      const reason = result === undefined ? undefined : "error" in result ? result.error.message : result.reason;
      return write`
        update method_runs set state = ${state}, step = ${progress.step}, requests = ${progress.requests},
          outcome = ${toStorableText(outcome)}, reason = ${toStorableText(reason)}, progress = ${JSON.stringify(progress)}, ${setHolder(holder)},
          approval_id = ${toStorableText(approvalId)}, changed_at = ${at.toISOString()},
          result = ${result === undefined ? null : JSON.stringify(result)}, delivered = ${isDelivered ? 1 : 0}
        where id = ${toStorableText(id)} and state = 'running' and holder = ${holderId} returning id`;
    },
    async cancel(id, at) {
      return write`
        update method_runs set state = 'cancelled', ${setHolder(undefined)}, changed_at = ${at.toISOString()}, delivered = 1
        where id = ${toStorableText(id)} and ${isOpen} returning id`;
    },
    async deliver(id) {
      await db.all(sql`update method_runs set delivered = 1 where id = ${toStorableText(id)} and not ${isOpen}`);
    },
    async renew(holderId, leaseUntil) {
      await db.all(sql`
        update method_runs set lease_until = ${leaseUntil.toISOString()}
        where state = 'running' and holder = ${holderId}`);
    },
    async prune(before) {
      const gone = await db.all(sql`
        delete from method_runs where not ${isOpen} and changed_at < ${before.toISOString()} returning id`);
      return gone.length;
    },
  };
}

async function start(tx: Sql, run: NewMethodRun): ReturnType<MethodRunStore["start"]> {
  const { id, key, action, digest, caller, args, callId, steps, holder, at } = run;
  const time = at.toISOString();
  const [standing] = await tx.all(sql`
    select * from method_runs where key = ${key} and (${isOpen} or delivered = 0)
    order by started_at desc, id desc limit 1`);
  if (standing !== undefined) return { run: toMethodRun(standing), isNew: false };
  const [row] = await tx.all(sql`
    insert into method_runs (id, key, state, action, digest, caller, session, args, call_id, step, steps, requests,
      progress, holder,
      holder_pid, holder_host, lease_until, started_at, changed_at, delivered)
    values (${toStorableText(id)}, ${key}, 'running', ${toStorableText(action)}, ${digest}, ${JSON.stringify(caller)},
      ${toStorableText(caller.session)}, ${JSON.stringify(args)}, ${toStorableText(callId)}, ${run.progress.step},
      ${steps}, ${run.progress.requests}, ${JSON.stringify(run.progress)}, ${holder.id}, ${holder.pid}, ${toStorableText(holder.host)},
      ${holder.leaseUntil.toISOString()}, ${time}, ${time}, 0)
    returning *`);
  if (row === undefined) throw new TypeError("the insert of a run returned no row");
  return { run: toMethodRun(row), isNew: true };
}

function toMethodRun(row: SqlRow): MethodRun {
  const what = `run ${row.id} of a method`;
  return {
    ...toSummary(row),
    ...readTexts(row, { key: "key", digest: "digest", callId: "call_id" }),
    args: readJsonObject(row, "args", what),
    progress: readJsonObject<MethodProgress>(row, "progress", what),
    ...optionalField("result", row.result, () => readJsonObject<MethodResult>(row, "result", what)),
  };
}

function toSummary(row: SqlRow): MethodRunSummary {
  const id = String(row.id);
  const what = `run ${id} of a method`;
  return {
    id,
    state: readKnownText(row, "state", methodRunStates, what),
    action: String(row.action),
    caller: readJsonObject(row, "caller", what),
    step: Number(row.step),
    steps: Number(row.steps),
    requests: Number(row.requests),
    ...readHolder(row),
    ...optionalField("approvalId", row.approval_id, String),
    ...readTexts(row, { startedAt: "started_at", changedAt: "changed_at" }),
    ...optionalField("outcome", row.outcome, String),
    ...optionalField("reason", row.reason, String),
  };
}
