import { type Approval, type ApprovalQuery, approvalStates, type RecordedAnswer } from "../approval/approval.ts";
import type { ApprovalStore, ClaimedApproval, NewApproval } from "../approval/approval-store.ts";
import { yieldToEventLoop } from "../core/async.ts";
import { QmError } from "../core/errors.ts";
import type { FileDigest } from "../core/file-digest.ts";
import type { LeaseHolder } from "../core/lease.ts";
import type { Outcome } from "../core/outcome.ts";
import { appendEvents } from "./append-events.ts";
import { addContents, createGetContent, pruneContents, putContentUse, removeContentUse } from "./file-contents.ts";
import {
  bindList,
  createWriteTag,
  matchTexts,
  type Sql,
  type SqlQuery,
  type SqlRow,
  sql,
  toStorableText,
  whereAll,
} from "./sql.ts";
import { optionalField, readIntactRows, readJsonList, readJsonObject, readKnownText, readTexts } from "./sql-rows.ts";

const DEFAULT_LIMIT = 100;
/** Each row may hold long arguments, so few are read before other work gets its turn. */
const PAGE_SIZE = 8;

/** All but the outcome, which may be long. */
const columns = sql`
  id, call_id, state, action, definition, args, caller, via, policy_version, binding, level, rule, reason, preview,
  requested_at, expires_at, answer, executor, begun_at, ended_at, status, delivered, parent, method, files`;

const isOver = sql`state in ('denied', 'expired', 'done', 'interrupted')`;

/** Approvals in SQL: one row each. Every change is a single statement that names the state it starts from. */
export function createSqlApprovalStore(db: Sql): ApprovalStore {
  const write = createWriteTag(db);

  return {
    request: (approval, maxOpen, files) =>
      db.transaction(async (tx) => {
        const requested = await request(tx, approval, maxOpen);
        if (requested.isNew && files !== undefined)
          await putContentUse(tx, toOwner(approval.id), await addContents(tx, files));
        return requested;
      }),
    getContent: createGetContent(db),
    async get(id) {
      const [row] = await db.all(sql`select ${columns}, outcome from approvals where id = ${toStorableText(id)}`);
      return row === undefined ? undefined : toApproval(row);
    },
    async list({ after, limit = DEFAULT_LIMIT, ...query }) {
      const found: Approval[] = [];
      let from = after === undefined ? undefined : await requestedAfter(db, after);
      for (let left = Math.max(0, Math.trunc(limit)); left > 0; ) {
        const size = Math.min(left, PAGE_SIZE);
        const rows = await db.all(sql`
          select ${columns} from approvals ${whereAll([...conditions(query), ...(from === undefined ? [] : [from])])}
          order by requested_at, id limit ${size}`);
        found.push(...readIntactRows(rows, toApproval));
        const last = rows.at(-1);
        if (last === undefined || rows.length < size) break;
        left -= size;
        from = isAfter(last);
        await yieldToEventLoop();
      }
      return found;
    },
    async listLate(at) {
      const rows = await db.all(sql`
        select ${columns} from approvals
        where state in ('pending', 'approved') and expires_at <= ${at.toISOString()}
        order by expires_at, id limit ${PAGE_SIZE}`);
      return readIntactRows(rows, toApproval);
    },
    answer: (id, answer, events) =>
      db.transaction(async (tx) => {
        const answered = await createWriteTag(tx)`
          update approvals set state = ${answer.decision}, answer = ${JSON.stringify(answer)},
            ended_at = ${answer.decision === "denied" ? answer.at : null}
          where id = ${toStorableText(id)} and state = 'pending' and expires_at >= ${answer.at} returning id`;
        if (answered) await appendEvents(tx, events);
        return answered;
      }),
    expire: async (id, answer) => write`
      update approvals set state = 'expired', answer = ${JSON.stringify(answer)}, ended_at = ${answer.at}
      where id = ${toStorableText(id)} and state in ('pending', 'approved') returning id`,
    claim: async (id, executor) => write`
      update approvals set state = 'executing', executor = ${executor.id}, ${setProcess(executor)}
      where id = ${toStorableText(id)} and state = 'approved' returning id`,
    begin: async (id, executor, at) => write`
      update approvals set begun_at = ${at.toISOString()} where ${isClaimed(id, executor)} returning id`,
    release: async (id, executor) => write`
      update approvals set state = 'approved', ${noExecutor} where ${isClaimed(id, executor)} returning id`,
    void: async (id, executor, answer) => write`
      update approvals
      set state = 'expired', answer = ${JSON.stringify(answer)}, ended_at = ${answer.at}, ${noExecutor}
      where ${isClaimed(id, executor)} returning id`,
    finish: async (id, executor, { at, outcome }) => write`
      update approvals
      set state = 'done', ended_at = ${at.toISOString()}, status = ${outcome.status},
        outcome = ${JSON.stringify(outcome)}, recorded = 0
      where id = ${toStorableText(id)} and state in ('executing', 'interrupted') and executor = ${executor} returning id`,
    interrupt: async (id, executor, at) => write`
      update approvals set state = 'interrupted', ended_at = ${at.toISOString()}
      where id = ${toStorableText(id)} and state = 'executing' and executor = ${executor} and begun_at is not null
      returning id`,
    takeOver: async (id, gone, by) => write`
      update approvals set ${setProcess(by)}
      where id = ${toStorableText(id)} and recorded = 0 and executor = ${gone.id} and executor_pid = ${gone.pid}
        and lease_until = ${gone.leaseUntil.toISOString()} and state in ('done', 'interrupted') returning id`,
    async markRecorded(id) {
      await db.all(sql`
        update approvals set recorded = 1 where id = ${toStorableText(id)} and state in ('done', 'interrupted')`);
    },
    deliver: async (id) => write`
      update approvals set delivered = 1 where id = ${toStorableText(id)} and delivered = 0 and ${isOver} returning id`,
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
    prune: (before) =>
      db.transaction(async (tx) => {
        // An outcome that the ledger does not have yet stays.
        const gone = await tx.all(sql`
          delete from approvals
          where ended_at < ${before.toISOString()} and ${isOver} and (state in ('denied', 'expired') or recorded = 1)
          returning id`);
        await removeContentUse(
          tx,
          gone.map(({ id }) => toOwner(String(id))),
        );
        await pruneContents(tx);
        return gone.length;
      }),
  };
}

const toOwner = (id: string): string => `approval ${id}`;

const noExecutor = sql`executor = null, executor_pid = null, executor_host = null, lease_until = null`;

const setProcess = ({ pid, host, leaseUntil }: LeaseHolder): SqlQuery => sql`
    executor_pid = ${pid}, executor_host = ${toStorableText(host)}, lease_until = ${leaseUntil.toISOString()}`;

const isClaimed = (id: string, executor: string): SqlQuery => sql`
    id = ${toStorableText(id)} and state = 'executing' and executor = ${executor} and begun_at is null`;

async function request(tx: Sql, approval: NewApproval, maxOpen: number): ReturnType<ApprovalStore["request"]> {
  const { binding, caller, parent, method, requestedAt: now } = approval;
  const session = toStorableText(caller.session);
  // On engines with concurrent writers, a second request of the same caller waits here before it reads.
  const lock = `approvals of ${toStorableText(caller.client ?? caller.session)}`;
  await tx.all(sql`
    insert into locks (name, holder, pid, host, lease_until) values (${lock}, '', 0, '', ${now})
    on conflict (name) do update set lease_until = excluded.lease_until`);

  const isOpen = sql`(state = 'executing' or (state in ('pending', 'approved') and expires_at >= ${now}))`;
  const isStanding = sql`binding = ${binding} and (${isOpen} or (${isOver} and delivered = 0))`;
  // From now on, the outcome of a call that was asked for directly is left to the outer call, too.
  if (parent !== undefined)
    await tx.all(sql`
      update approvals set parent = ${toStorableText(parent)}, method = ${toStorableText(method)}
      where ${isStanding} and parent is null`);
  const [standing] = await tx.all(sql`
    select ${columns}, outcome from approvals where ${isStanding}
    order by requested_at desc, id desc limit 1`);
  if (standing === undefined) {
    const [open] = await tx.all(sql`select count(*) as n from approvals where session = ${session} and ${isOpen}`);
    if (Number(open?.n) >= maxOpen) throw tooManyOpenError(maxOpen);
  }
  const [row] = standing === undefined ? await tx.all(buildInsert(approval, session)) : [standing];
  await tx.all(sql`delete from locks where name = ${lock}`);
  if (row === undefined) throw new TypeError("the insert of an approval returned no row");
  return { approval: toApproval(row), isNew: standing === undefined };
}

function buildInsert(approval: NewApproval, session: string): SqlQuery {
  const { args, caller, requestedAt, expiresAt } = approval;
  const texts = (...values: readonly (string | undefined)[]) => bindList(values.map(toStorableText));
  const { id, callId, parent, method, action, definition, via, policyVersion, binding } = approval;
  const { level, rule, reason, preview, files } = approval;
  return sql`
    insert into approvals (id, call_id, state, action, definition, args, caller, actor, session, turn, tenant, user_id,
      via, policy_version, binding, level, rule, reason, preview, requested_at, expires_at, recorded, delivered, parent,
      method, files)
    values (${texts(id, callId)}, 'pending', ${texts(action, definition)}, ${JSON.stringify(args)},
      ${JSON.stringify(caller)}, ${texts(caller.actor)}, ${session}, ${texts(caller.turn, caller.tenant, caller.user?.id)},
      ${texts(via, policyVersion, binding, level, rule, reason, preview)}, ${requestedAt}, ${expiresAt}, 0, 0, ${texts(parent, method)},
      ${files === undefined ? null : JSON.stringify(files)})
    returning ${columns}`;
}

function tooManyOpenError(maxOpen: number): QmError {
  return new QmError("overloaded", `${maxOpen} calls of this session are already waiting for approval`, {
    hint: "Wait until some of them are answered, or cancel some, before you ask for more.",
    details: { open: maxOpen },
  });
}

function conditions({ state, user, session, turn, actor, tenant, action }: ApprovalQuery): SqlQuery[] {
  const states = typeof state === "string" ? [state] : state;
  return [
    ...(states === undefined ? [] : [sql`state in (${bindList(states.map((each) => toStorableText(each)))})`]),
    ...matchTexts({ session, turn, actor, tenant, user_id: user, action }),
  ];
}

async function requestedAfter(db: Sql, id: string): Promise<SqlQuery> {
  const [row] = await db.all(sql`select id, requested_at from approvals where id = ${toStorableText(id)}`);
  if (row !== undefined) return isAfter(row);
  const hint = "It may have been removed. List from the beginning.";
  throw new QmError("not_found", "there is no approval with the id to continue after", { hint });
}

function isAfter(row: SqlRow): SqlQuery {
  const at = String(row.requested_at);
  return sql`(requested_at > ${at} or (requested_at = ${at} and id > ${String(row.id)}))`;
}

function toApproval(row: SqlRow): Approval {
  const id = String(row.id);
  const what = `approval ${id}`;
  return {
    id,
    callId: String(row.call_id),
    ...optionalField("parent", row.parent, String),
    ...optionalField("method", row.method, String),
    state: readKnownText(row, "state", approvalStates, what),
    ...readTexts(row, { action: "action", definition: "definition" }),
    args: readJsonObject(row, "args", what),
    caller: readJsonObject(row, "caller", what),
    ...readTexts(row, { via: "via", policyVersion: "policy_version", binding: "binding", level: "level" }),
    ...readTexts(row, { rule: "rule", reason: "reason" }),
    ...optionalField("preview", row.preview, String),
    ...optionalField("files", row.files, () => readJsonList<FileDigest>(row, "files", what)),
    ...readTexts(row, { requestedAt: "requested_at", expiresAt: "expires_at" }),
    ...optionalField("answer", row.answer, () => readJsonObject<RecordedAnswer>(row, "answer", what)),
    ...optionalField("executor", row.executor, String),
    ...optionalField("begunAt", row.begun_at, String),
    ...optionalField("endedAt", row.ended_at, String),
    ...optionalField("status", row.status, () => readKnownText(row, "status", statuses, what)),
    ...optionalField("outcome", row.outcome, () => readJsonObject<Outcome>(row, "outcome", what)),
    delivered: Number(row.delivered) === 1,
  };
}

const statuses = ["done", "failed", "refused", "waiting"] as const satisfies readonly Outcome["status"][];

function toClaimedApproval(row: SqlRow): ClaimedApproval {
  const executor = {
    id: String(row.executor),
    pid: Number(row.executor_pid),
    host: String(row.executor_host),
    leaseUntil: new Date(String(row.lease_until)),
  };
  return { approval: toApproval(row), executor };
}
