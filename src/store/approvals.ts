import {
  type Approval,
  type ApprovalQuery,
  type ApprovalState,
  approvalStates,
  type GivenAnswer,
} from "../approval/approval.ts";
import type { ApprovalStore, Claimed, NewApproval } from "../approval/approval-store.ts";
import { yieldToEventLoop } from "../core/async.ts";
import { QmError } from "../core/errors.ts";
import type { Outcome } from "../core/outcome.ts";
import { damaged, keepable, optional, readable, storedObject } from "./columns.ts";
import { appendEvents } from "./events.ts";
import { join, type Query, type Row, type Sql, sql } from "./sql.ts";

const DEFAULT_LIMIT = 100;
/** So many are read at once: each may hold long arguments, and others have their turn in between. */
const AT_ONCE = 8;

/** All but the outcome, which may be long. */
const columns = sql`
  id, call_id, state, action, definition, args, caller, via, policy_version, binding, level, rule, reason, preview,
  requested_at, expires_at, answer, executor, begun_at, ended_at, status, delivered`;

const isOver = sql`state in ('denied', 'expired', 'done', 'interrupted')`;

/** Approvals in SQL: one row each, and every change of one a single statement that names the state it starts from. */
export function approvalStore(db: Sql): ApprovalStore {
  async function changed(query: Query): Promise<boolean> {
    return (await db.all(query)).length > 0;
  }

  return {
    request: (approval, maxOpen) => db.transaction((tx) => request(tx, approval, maxOpen)),
    async get(id) {
      const [row] = await db.all(sql`select ${columns}, outcome from approvals where id = ${keepable(id)}`);
      return row === undefined ? undefined : approvalOf(row);
    },
    async list({ after, limit = DEFAULT_LIMIT, ...query }) {
      const found: Approval[] = [];
      let from = after === undefined ? undefined : await requestedAfter(db, after);
      for (let left = Math.max(0, Math.trunc(limit)); left > 0; ) {
        const all = conditions(query);
        if (from !== undefined) all.push(from);
        const portion = Math.min(left, AT_ONCE);
        const rows = await db.all(sql`
          select ${columns} from approvals ${all.length === 0 ? sql`` : sql`where ${join(all, " and ")}`}
          order by requested_at, id limit ${portion}`);
        found.push(...readable(rows, approvalOf));
        const last = rows.at(-1);
        if (last === undefined || rows.length < portion) break;
        left -= portion;
        from = isAfter(last);
        await yieldToEventLoop();
      }
      return found;
    },
    async late(at) {
      const rows = await db.all(sql`
        select ${columns} from approvals
        where state in ('pending', 'approved') and expires_at <= ${at.toISOString()}
        order by expires_at, id limit ${AT_ONCE}`);
      return readable(rows, approvalOf);
    },
    answer: (id, answer, events) =>
      db.transaction(async (tx) => {
        const rows = await tx.all(sql`
          update approvals set state = ${answer.decision}, answer = ${JSON.stringify(answer)},
            ended_at = ${answer.decision === "denied" ? answer.at : null}
          where id = ${keepable(id)} and state = 'pending' and expires_at >= ${answer.at} returning id`);
        if (rows.length > 0) await appendEvents(tx, events);
        return rows.length > 0;
      }),
    expire: async (id, answer) =>
      changed(sql`
        update approvals set state = 'expired', answer = ${JSON.stringify(answer)}, ended_at = ${answer.at}
        where id = ${keepable(id)} and state in ('pending', 'approved') returning id`),
    claim: async (id, { id: executor, pid, host, leaseUntil }) =>
      changed(sql`
        update approvals set state = 'executing', executor = ${executor}, executor_pid = ${pid},
          executor_host = ${keepable(host)}, lease_until = ${leaseUntil.toISOString()}
        where id = ${keepable(id)} and state = 'approved' returning id`),
    begin: async (id, executor, at) =>
      changed(sql`
        update approvals set begun_at = ${at.toISOString()}
        where id = ${keepable(id)} and state = 'executing' and executor = ${executor} and begun_at is null
        returning id`),
    release: async (id, executor) =>
      changed(sql`
        update approvals
        set state = 'approved', executor = null, executor_pid = null, executor_host = null, lease_until = null
        where id = ${keepable(id)} and state = 'executing' and executor = ${executor} and begun_at is null
        returning id`),
    void: async (id, executor, answer) =>
      changed(sql`
        update approvals
        set state = 'expired', answer = ${JSON.stringify(answer)}, ended_at = ${answer.at},
          executor = null, executor_pid = null, executor_host = null, lease_until = null
        where id = ${keepable(id)} and state = 'executing' and executor = ${executor} and begun_at is null
        returning id`),
    finish: async (id, executor, { at, outcome }) =>
      changed(sql`
        update approvals
        set state = 'done', ended_at = ${at.toISOString()}, status = ${outcome.status},
          outcome = ${JSON.stringify(outcome)}, recorded = 0
        where id = ${keepable(id)} and state in ('executing', 'interrupted') and executor = ${executor}
        returning id`),
    interrupt: async (id, executor, at) =>
      changed(sql`
        update approvals set state = 'interrupted', ended_at = ${at.toISOString()}
        where id = ${keepable(id)} and state = 'executing' and executor = ${executor} and begun_at is not null
        returning id`),
    takeOver: async (id, gone, by) =>
      changed(sql`
        update approvals
        set executor_pid = ${by.pid}, executor_host = ${keepable(by.host)}, lease_until = ${by.leaseUntil.toISOString()}
        where id = ${keepable(id)} and recorded = 0 and executor = ${gone.id} and executor_pid = ${gone.pid}
          and lease_until = ${gone.leaseUntil.toISOString()} and state in ('done', 'interrupted')
        returning id`),
    async recorded(id) {
      await db.all(sql`
        update approvals set recorded = 1 where id = ${keepable(id)} and state in ('done', 'interrupted')`);
    },
    deliver: async (id) =>
      changed(sql`
        update approvals set delivered = 1 where id = ${keepable(id)} and delivered = 0 and ${isOver} returning id`),
    async renew(executor, leaseUntil) {
      await db.all(sql`
        update approvals set lease_until = ${leaseUntil.toISOString()}
        where state = 'executing' and executor = ${executor}`);
    },
    async claimed() {
      const rows = await db.all(sql`
        select ${columns}, outcome, executor_pid, executor_host, lease_until from approvals
        where state = 'executing' or (state in ('done', 'interrupted') and recorded = 0) order by requested_at, id`);
      return readable(rows, claimedOf);
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
  const session = keepable(caller.session);
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
    if (Number(open?.n) >= maxOpen) throw tooMany(maxOpen);
  }
  const [row] = standing === undefined ? await tx.all(insertion(approval, session)) : [standing];
  await tx.all(sql`delete from locks where name = ${lock}`);
  if (row === undefined) throw new TypeError("an approval was written and not answered");
  return { approval: approvalOf(row), isNew: standing === undefined };
}

function insertion(approval: NewApproval, session: string): Query {
  const { id, callId, action, definition, args, caller, via, policyVersion, binding, level, rule, reason, preview } =
    approval;
  const { actor, turn, tenant, user } = caller;
  return sql`
    insert into approvals (id, call_id, state, action, definition, args, caller, actor, session, turn, tenant, user_id,
      via, policy_version, binding, level, rule, reason, preview, requested_at, expires_at, recorded, delivered)
    values (${keepable(id)}, ${keepable(callId)}, 'pending', ${keepable(action)}, ${keepable(definition)},
      ${JSON.stringify(args)}, ${JSON.stringify(caller)}, ${keepable(actor)}, ${session}, ${keepable(turn)},
      ${keepable(tenant)}, ${keepable(user?.id)}, ${keepable(via)}, ${keepable(policyVersion)}, ${keepable(binding)}, ${keepable(level)},
      ${keepable(rule)}, ${keepable(reason)}, ${keepable(preview)}, ${approval.requestedAt}, ${approval.expiresAt}, 0, 0)
    returning ${columns}`;
}

function tooMany(maxOpen: number): QmError {
  return new QmError("overloaded", `${maxOpen} calls of this session wait for a person already`, {
    hint: "Wait until some of them are answered, or take some back, before asking for more.",
    details: { open: maxOpen },
  });
}

function conditions({ state, session, turn, actor, tenant, user, action }: ApprovalQuery): Query[] {
  const all: Query[] = [];
  if (state !== undefined) all.push(inStates(typeof state === "string" ? [state] : state));
  if (session !== undefined) all.push(sql`session = ${keepable(session)}`);
  if (turn !== undefined) all.push(sql`turn = ${keepable(turn)}`);
  if (actor !== undefined) all.push(sql`actor = ${keepable(actor)}`);
  if (tenant !== undefined) all.push(sql`tenant = ${keepable(tenant)}`);
  if (user !== undefined) all.push(sql`user_id = ${keepable(user)}`);
  if (action !== undefined) all.push(sql`action = ${keepable(action)}`);
  return all;
}

function inStates(states: readonly ApprovalState[]): Query {
  if (states.length === 0) return sql`1 = 0`;
  const list = states.map((state) => sql`${keepable(state)}`);
  return sql`state in (${join(list, ", ")})`;
}

async function requestedAfter(db: Sql, id: string): Promise<Query> {
  const [row] = await db.all(sql`select id, requested_at from approvals where id = ${keepable(id)}`);
  if (row === undefined) {
    throw new QmError("not_found", "there is no approval of that id to go on from", {
      hint: "It may have been removed since. List from the beginning.",
    });
  }
  return isAfter(row);
}

function isAfter(row: Row): Query {
  const at = String(row.requested_at);
  return sql`(requested_at > ${at} or (requested_at = ${at} and id > ${String(row.id)}))`;
}

function approvalOf(row: Row): Approval {
  const id = String(row.id);
  const what = `approval ${id}`;
  const state = approvalStates.find((known) => known === row.state);
  if (state === undefined) throw damaged(what, "state");
  return {
    id,
    callId: String(row.call_id),
    state,
    action: String(row.action),
    definition: String(row.definition),
    args: storedObject(row, "args", what),
    caller: storedObject(row, "caller", what),
    via: String(row.via),
    policyVersion: String(row.policy_version),
    binding: String(row.binding),
    level: String(row.level),
    rule: String(row.rule),
    reason: String(row.reason),
    ...optional("preview", row.preview, String),
    requestedAt: String(row.requested_at),
    expiresAt: String(row.expires_at),
    ...optional("answer", row.answer, () => storedObject<GivenAnswer>(row, "answer", what)),
    ...optional("executor", row.executor, String),
    ...optional("begunAt", row.begun_at, String),
    ...optional("endedAt", row.ended_at, String),
    ...optional("status", row.status, () => statusOf(row, what)),
    ...optional("outcome", row.outcome, () => storedObject<Outcome>(row, "outcome", what)),
    delivered: Number(row.delivered) === 1,
  };
}

const statuses = ["done", "failed", "refused", "waiting"] as const satisfies readonly Outcome["status"][];

function statusOf({ status }: Row, what: string): Outcome["status"] {
  const known = statuses.find((each) => each === status);
  if (known === undefined) throw damaged(what, "status");
  return known;
}

function claimedOf(row: Row): Claimed {
  const executor = {
    id: String(row.executor),
    pid: Number(row.executor_pid),
    host: String(row.executor_host),
    leaseUntil: new Date(String(row.lease_until)),
  };
  return { approval: approvalOf(row), executor };
}
