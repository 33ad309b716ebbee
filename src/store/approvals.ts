import {
  type Approval,
  type ApprovalQuery,
  type ApprovalState,
  approvalStates,
  type RecordedAnswer,
} from "../approval/approval.ts";
import type { ApprovalStore, ClaimedApproval, NewApproval } from "../approval/approval-store.ts";
import { yieldToEventLoop } from "../core/async.ts";
import { QmError } from "../core/errors.ts";
import type { Outcome } from "../core/outcome.ts";
import { appendEvents } from "./events.ts";
import {
  damagedRowError,
  joinQueries,
  optionalField,
  readIntactRows,
  readJsonObject,
  type Sql,
  type SqlQuery,
  type SqlRow,
  sql,
  toStorableText,
} from "./sql.ts";

const DEFAULT_LIMIT = 100;
/** So many are read at once: each may hold long arguments, and others have their turn in between. */
const AT_ONCE = 8;

/** All but the outcome, which may be long. */
const columns = sql`
  id, call_id, state, action, definition, args, caller, via, policy_version, binding, level, rule, reason, preview,
  requested_at, expires_at, answer, executor, begun_at, ended_at, status, delivered`;

const isOver = sql`state in ('denied', 'expired', 'done', 'interrupted')`;

/** Approvals in SQL: one row each, and every change of one a single statement that names the state it starts from. */
export function createSqlApprovalStore(db: Sql): ApprovalStore {
  async function runUpdate(query: SqlQuery): Promise<boolean> {
    return (await db.all(query)).length > 0;
  }

  return {
    request: (approval, maxOpen) => db.transaction((tx) => request(tx, approval, maxOpen)),
    async get(id) {
      const [row] = await db.all(sql`select ${columns}, outcome from approvals where id = ${toStorableText(id)}`);
      return row === undefined ? undefined : toApproval(row);
    },
    async list({ after, limit = DEFAULT_LIMIT, ...query }) {
      const found: Approval[] = [];
      let from = after === undefined ? undefined : await requestedAfter(db, after);
      for (let left = Math.max(0, Math.trunc(limit)); left > 0; ) {
        const all = conditions(query);
        if (from !== undefined) all.push(from);
        const portion = Math.min(left, AT_ONCE);
        const rows = await db.all(sql`
          select ${columns} from approvals ${all.length === 0 ? sql`` : sql`where ${joinQueries(all, " and ")}`}
          order by requested_at, id limit ${portion}`);
        found.push(...readIntactRows(rows, toApproval));
        const last = rows.at(-1);
        if (last === undefined || rows.length < portion) break;
        left -= portion;
        from = isAfter(last);
        await yieldToEventLoop();
      }
      return found;
    },
    async listLate(at) {
      const rows = await db.all(sql`
        select ${columns} from approvals
        where state in ('pending', 'approved') and expires_at <= ${at.toISOString()}
        order by expires_at, id limit ${AT_ONCE}`);
      return readIntactRows(rows, toApproval);
    },
    answer: (id, answer, events) =>
      db.transaction(async (tx) => {
        const rows = await tx.all(sql`
          update approvals set state = ${answer.decision}, answer = ${JSON.stringify(answer)},
            ended_at = ${answer.decision === "denied" ? answer.at : null}
          where id = ${toStorableText(id)} and state = 'pending' and expires_at >= ${answer.at} returning id`);
        if (rows.length > 0) await appendEvents(tx, events);
        return rows.length > 0;
      }),
    expire: async (id, answer) =>
      runUpdate(sql`
        update approvals set state = 'expired', answer = ${JSON.stringify(answer)}, ended_at = ${answer.at}
        where id = ${toStorableText(id)} and state in ('pending', 'approved') returning id`),
    claim: async (id, { id: executor, pid, host, leaseUntil }) =>
      runUpdate(sql`
        update approvals set state = 'executing', executor = ${executor}, executor_pid = ${pid},
          executor_host = ${toStorableText(host)}, lease_until = ${leaseUntil.toISOString()}
        where id = ${toStorableText(id)} and state = 'approved' returning id`),
    begin: async (id, executor, at) =>
      runUpdate(sql`
        update approvals set begun_at = ${at.toISOString()}
        where id = ${toStorableText(id)} and state = 'executing' and executor = ${executor} and begun_at is null
        returning id`),
    release: async (id, executor) =>
      runUpdate(sql`
        update approvals
        set state = 'approved', executor = null, executor_pid = null, executor_host = null, lease_until = null
        where id = ${toStorableText(id)} and state = 'executing' and executor = ${executor} and begun_at is null
        returning id`),
    void: async (id, executor, answer) =>
      runUpdate(sql`
        update approvals
        set state = 'expired', answer = ${JSON.stringify(answer)}, ended_at = ${answer.at},
          executor = null, executor_pid = null, executor_host = null, lease_until = null
        where id = ${toStorableText(id)} and state = 'executing' and executor = ${executor} and begun_at is null
        returning id`),
    finish: async (id, executor, { at, outcome }) =>
      runUpdate(sql`
        update approvals
        set state = 'done', ended_at = ${at.toISOString()}, status = ${outcome.status},
          outcome = ${JSON.stringify(outcome)}, recorded = 0
        where id = ${toStorableText(id)} and state in ('executing', 'interrupted') and executor = ${executor}
        returning id`),
    interrupt: async (id, executor, at) =>
      runUpdate(sql`
        update approvals set state = 'interrupted', ended_at = ${at.toISOString()}
        where id = ${toStorableText(id)} and state = 'executing' and executor = ${executor} and begun_at is not null
        returning id`),
    takeOver: async (id, gone, by) =>
      runUpdate(sql`
        update approvals
        set executor_pid = ${by.pid}, executor_host = ${toStorableText(by.host)}, lease_until = ${by.leaseUntil.toISOString()}
        where id = ${toStorableText(id)} and recorded = 0 and executor = ${gone.id} and executor_pid = ${gone.pid}
          and lease_until = ${gone.leaseUntil.toISOString()} and state in ('done', 'interrupted')
        returning id`),
    async markRecorded(id) {
      await db.all(sql`
        update approvals set recorded = 1 where id = ${toStorableText(id)} and state in ('done', 'interrupted')`);
    },
    deliver: async (id) =>
      runUpdate(sql`
        update approvals set delivered = 1 where id = ${toStorableText(id)} and delivered = 0 and ${isOver} returning id`),
    async renew(executor, leaseUntil) {
      await db.all(sql`
        update approvals set lease_until = ${leaseUntil.toISOString()}
        where state = 'executing' and executor = ${executor}`);
    },
    async listClaimed() {
      const rows = await db.all(sql`
        select ${columns}, outcome, executor_pid, executor_host, lease_until from approvals
        where state = 'executing' or (state in ('done', 'interrupted') and recorded = 0) order by requested_at, id`);
      return readIntactRows(rows, toClaimedApproval);
    },
    async prune(before) {
      // What the ledger has not got yet would be lost.
      const gone = await db.all(sql`
        delete from approvals
        where ended_at < ${before.toISOString()} and ${isOver} and (state in ('denied', 'expired') or recorded = 1)
        returning id`);
      return gone.length;
    },
  };
}

async function request(tx: Sql, approval: NewApproval, maxOpen: number): ReturnType<ApprovalStore["request"]> {
  const { binding, caller, requestedAt: now } = approval;
  const session = toStorableText(caller.session);
  // Engines that let several write at once make the second of a session wait here, before it reads.
  const lock = `approvals of ${session}`;
  await tx.all(sql`
    insert into locks (name, holder, pid, host, lease_until) values (${lock}, '', 0, '', ${now})
    on conflict (name) do update set lease_until = excluded.lease_until`);

  const isOpen = sql`(state = 'executing' or (state in ('pending', 'approved') and expires_at >= ${now}))`;
  const [standing] = await tx.all(sql`
    select ${columns}, outcome from approvals
    where binding = ${binding} and (${isOpen} or (${isOver} and delivered = 0))
    order by requested_at desc, id desc limit 1`);
  if (standing === undefined) {
    const [open] = await tx.all(sql`select count(*) as n from approvals where session = ${session} and ${isOpen}`);
    if (Number(open?.n) >= maxOpen) throw tooManyOpenError(maxOpen);
  }
  const [row] = standing === undefined ? await tx.all(buildInsert(approval, session)) : [standing];
  await tx.all(sql`delete from locks where name = ${lock}`);
  if (row === undefined) throw new TypeError("an approval was written and not answered");
  return { approval: toApproval(row), isNew: standing === undefined };
}

function buildInsert(approval: NewApproval, session: string): SqlQuery {
  const { id, callId, action, definition, args, caller, via, policyVersion, binding, level, rule, reason, preview } =
    approval;
  const { actor, turn, tenant, user } = caller;
  return sql`
    insert into approvals (id, call_id, state, action, definition, args, caller, actor, session, turn, tenant, user_id,
      via, policy_version, binding, level, rule, reason, preview, requested_at, expires_at, recorded, delivered)
    values (${toStorableText(id)}, ${toStorableText(callId)}, 'pending', ${toStorableText(action)}, ${toStorableText(definition)},
      ${JSON.stringify(args)}, ${JSON.stringify(caller)}, ${toStorableText(actor)}, ${session}, ${toStorableText(turn)},
      ${toStorableText(tenant)}, ${toStorableText(user?.id)}, ${toStorableText(via)}, ${toStorableText(policyVersion)}, ${toStorableText(binding)}, ${toStorableText(level)},
      ${toStorableText(rule)}, ${toStorableText(reason)}, ${toStorableText(preview)}, ${approval.requestedAt}, ${approval.expiresAt}, 0, 0)
    returning ${columns}`;
}

function tooManyOpenError(maxOpen: number): QmError {
  return new QmError("overloaded", `${maxOpen} calls of this session wait for a person already`, {
    hint: "Wait until some of them are answered, or take some back, before asking for more.",
    details: { open: maxOpen },
  });
}

function conditions({ state, session, turn, actor, tenant, user, action }: ApprovalQuery): SqlQuery[] {
  const all: SqlQuery[] = [];
  if (state !== undefined) all.push(matchStates(typeof state === "string" ? [state] : state));
  if (session !== undefined) all.push(sql`session = ${toStorableText(session)}`);
  if (turn !== undefined) all.push(sql`turn = ${toStorableText(turn)}`);
  if (actor !== undefined) all.push(sql`actor = ${toStorableText(actor)}`);
  if (tenant !== undefined) all.push(sql`tenant = ${toStorableText(tenant)}`);
  if (user !== undefined) all.push(sql`user_id = ${toStorableText(user)}`);
  if (action !== undefined) all.push(sql`action = ${toStorableText(action)}`);
  return all;
}

function matchStates(states: readonly ApprovalState[]): SqlQuery {
  if (states.length === 0) return sql`1 = 0`;
  const list = states.map((state) => sql`${toStorableText(state)}`);
  return sql`state in (${joinQueries(list, ", ")})`;
}

async function requestedAfter(db: Sql, id: string): Promise<SqlQuery> {
  const [row] = await db.all(sql`select id, requested_at from approvals where id = ${toStorableText(id)}`);
  if (row === undefined) {
    throw new QmError("not_found", "there is no approval of that id to go on from", {
      hint: "It may have been removed since. List from the beginning.",
    });
  }
  return isAfter(row);
}

function isAfter(row: SqlRow): SqlQuery {
  const at = String(row.requested_at);
  return sql`(requested_at > ${at} or (requested_at = ${at} and id > ${String(row.id)}))`;
}

function toApproval(row: SqlRow): Approval {
  const id = String(row.id);
  const what = `approval ${id}`;
  const state = approvalStates.find((known) => known === row.state);
  if (state === undefined) throw damagedRowError(what, "state");
  return {
    id,
    callId: String(row.call_id),
    state,
    action: String(row.action),
    definition: String(row.definition),
    args: readJsonObject(row, "args", what),
    caller: readJsonObject(row, "caller", what),
    via: String(row.via),
    policyVersion: String(row.policy_version),
    binding: String(row.binding),
    level: String(row.level),
    rule: String(row.rule),
    reason: String(row.reason),
    ...optionalField("preview", row.preview, String),
    requestedAt: String(row.requested_at),
    expiresAt: String(row.expires_at),
    ...optionalField("answer", row.answer, () => readJsonObject<RecordedAnswer>(row, "answer", what)),
    ...optionalField("executor", row.executor, String),
    ...optionalField("begunAt", row.begun_at, String),
    ...optionalField("endedAt", row.ended_at, String),
    ...optionalField("status", row.status, () => readStatus(row, what)),
    ...optionalField("outcome", row.outcome, () => readJsonObject<Outcome>(row, "outcome", what)),
    delivered: Number(row.delivered) === 1,
  };
}

const statuses = ["done", "failed", "refused", "waiting"] as const satisfies readonly Outcome["status"][];

function readStatus({ status }: SqlRow, what: string): Outcome["status"] {
  const known = statuses.find((each) => each === status);
  if (known === undefined) throw damagedRowError(what, "status");
  return known;
}

function toClaimedApproval(row: SqlRow): ClaimedApproval {
  const executor = {
    id: String(row.executor),
    pid: Number(row.executor_pid),
    host: String(row.executor_host),
    leaseUntil: new Date(String(row.lease_until)),
  };
  return { approval: toApproval(row), executor };
}
