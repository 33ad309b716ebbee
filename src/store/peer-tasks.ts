import {
  type NewPeerTask,
  type PeerTask,
  type PeerTaskQuery,
  type PeerTaskStore,
  peerTaskStates,
  type TaskMessage,
  type TaskPart,
} from "../a2a/peer-task.ts";
import { joinQueries, matchTexts, type Sql, type SqlQuery, type SqlRow, sql, toStorableText, whereAll } from "./sql.ts";
import {
  optionalField,
  readHolder,
  readIntactRows,
  readJsonList,
  readJsonObject,
  readKnownText,
  readTexts,
  setHolder,
} from "./sql-rows.ts";

/** As much as is read at once. */
const PAGE_CHARS = 2 * 1024 * 1024;
const isOpen = sql`state in ('working', 'auth_required')`;

/** Tasks of other agents in SQL: one row each. */
export function createSqlPeerTaskStore(db: Sql): PeerTaskStore {
  return {
    add: (task, maxOpen) => db.transaction((tx) => add(tx, task, maxOpen)),
    async get(client, id) {
      const [row] = await db.all(sql`select * from peer_tasks ${whereAll(matchTexts({ client, id }))}`);
      return row === undefined ? undefined : toPeerTask(row);
    },
    async list({ after, limit, ...query }) {
      const older =
        after === undefined
          ? []
          : [sql`(changed_at, id) < (${toStorableText(after.changedAt)}, ${toStorableText(after.id)})`];
      const found = await db.all(sql`
        select id, length(messages) + length(args) + length(result) as size from peer_tasks
        ${whereAll([...toConditions(query), ...older])} order by changed_at desc, id desc limit ${limit + 1}`);
      let chars = 0;
      const fitting = found.slice(0, limit).filter(({ size }, at) => {
        chars += Number(size);
        return at === 0 || chars <= PAGE_CHARS;
      });
      if (fitting.length === 0) return { tasks: [], hasMore: false };
      const ids = joinQueries(
        fitting.map(({ id }) => sql`${String(id)}`),
        ", ",
      );
      const rows = await db.all(sql`select * from peer_tasks where id in (${ids}) order by changed_at desc, id desc`);
      return { tasks: readIntactRows(rows, toPeerTask), hasMore: found.length > fitting.length };
    },
    async count(query) {
      const [row] = await db.all(sql`select count(*) as found from peer_tasks ${whereAll(toConditions(query))}`);
      return Number(row?.found ?? 0);
    },
    async listOpen(limit) {
      const rows = await db.all(sql`select * from peer_tasks where ${isOpen} order by changed_at, id limit ${limit}`);
      return readIntactRows(rows, toPeerTask);
    },
    async change({ id, version, ...seen }, { state, status, approval, holder, at, ...changed }) {
      const { messages, args, caller, callId } = { ...seen, ...changed };
      const [row] = await db.all(sql`
        update peer_tasks set state = ${state}, status = ${toStorableText(status)},
          result = ${JSON.stringify(changed.result ?? [])}, messages = ${JSON.stringify(messages)},
          args = ${JSON.stringify(args)}, caller = ${JSON.stringify(caller)}, call_id = ${toStorableText(callId)},
          approval_id = ${toStorableText(approval?.id)}, inner_call = ${approval?.inner ? 1 : 0}, ${setHolder(holder)},
          version = version + 1, changed_at = ${at.toISOString()}
        where id = ${toStorableText(id)} and version = ${version} returning *`);
      return row === undefined ? undefined : toPeerTask(row);
    },
    async renew(holderId, leaseUntil) {
      const rows = await db.all(sql`
        update peer_tasks set lease_until = ${leaseUntil.toISOString()}
        where state = 'working' and holder = ${holderId} returning id`);
      return rows.map(({ id }) => String(id));
    },
    async prune(before) {
      const gone = await db.all(sql`
        delete from peer_tasks where not ${isOpen} and changed_at < ${before.toISOString()} returning id`);
      return gone.length;
    },
  };
}

function toConditions({ client, context, state, since }: Omit<PeerTaskQuery, "after" | "limit">): readonly SqlQuery[] {
  const conditions = matchTexts({ client, context, state });
  return since === undefined ? conditions : [...conditions, sql`changed_at > ${toStorableText(since)}`];
}

async function add(tx: Sql, task: NewPeerTask, maxOpen: number): ReturnType<PeerTaskStore["add"]> {
  const { id, client, context, action, args, caller, callId, message, holder, at } = task;
  const sent = matchTexts({ client, message_id: message.id });
  const [known] = await tx.all(sql`select * from peer_tasks ${whereAll(sent)}`);
  if (known !== undefined) return { task: toPeerTask(known), isNew: false };
  const [open] = await tx.all(sql`
    select count(*) as found from peer_tasks ${whereAll([...matchTexts({ client }), isOpen])}`);
  if (Number(open?.found ?? 0) >= maxOpen) return undefined;
  const time = at.toISOString();
  const [row] = await tx.all(sql`
    insert into peer_tasks (id, client, context, message_id, state, action, args, caller, call_id, messages, result,
      inner_call, holder, holder_pid, holder_host, lease_until, version, started_at, changed_at)
    values (${toStorableText(id)}, ${toStorableText(client)}, ${toStorableText(context)}, ${toStorableText(message.id)},
      'working', ${toStorableText(action)}, ${JSON.stringify(args)}, ${JSON.stringify(caller)},
      ${toStorableText(callId)}, ${JSON.stringify([message])}, '[]', 0, ${holder.id}, ${holder.pid}, ${toStorableText(holder.host)},
      ${holder.leaseUntil.toISOString()}, 1, ${time}, ${time})
    returning *`);
  if (row === undefined) throw new TypeError("the insert of a task returned no row");
  return { task: toPeerTask(row), isNew: true };
}

function toPeerTask(row: SqlRow): PeerTask {
  const id = String(row.id);
  const what = `the task ${id} of a peer`;
  return {
    id,
    ...readTexts(row, { client: "client", context: "context", action: "action", callId: "call_id" }),
    state: readKnownText(row, "state", peerTaskStates, what),
    args: readJsonObject(row, "args", what),
    caller: readJsonObject(row, "caller", what),
    messages: readJsonList<TaskMessage>(row, "messages", what),
    result: readJsonList<TaskPart>(row, "result", what),
    ...optionalField("status", row.status, String),
    ...optionalField("approval", row.approval_id, (approvalId) => ({
      id: String(approvalId),
      inner: Number(row.inner_call) === 1,
    })),
    ...readHolder(row),
    version: Number(row.version),
    ...readTexts(row, { startedAt: "started_at", changedAt: "changed_at" }),
  };
}
