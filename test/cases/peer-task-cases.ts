import assert from "node:assert/strict";
import type { NewPeerTask, PeerTask, PeerTaskStore, TaskMessage } from "../../src/a2a/peer-task.ts";
import type { LeaseHolder } from "../../src/core/lease.ts";
import { migrate } from "../../src/store/migrations.ts";
import { createSqlPeerTaskStore } from "../../src/store/peer-tasks.ts";
import { type SqlDriver, sql } from "../../src/store/sql.ts";
import { defineCases } from "./store-cases.ts";

const at = (minute: number): Date => new Date(Date.UTC(2026, 0, 2, 3, minute));

export const peerTaskStoreCases = defineCases(openTasks, {
  "returns a task as it was written": async (tasks) => {
    for (const [index, text] of ["nul\0here", "half \ud800 pair", "__proto__", "🦑", ""].entries()) {
      const args = JSON.parse(`{"__proto__": ${JSON.stringify(text)}}`);
      const caller = { actor: text, session: text, user: { id: text }, hops: 2 };
      const message: TaskMessage = { id: `m${index}`, role: "client", parts: [{ text }, { data: args }] };
      const added = await add(tasks, `t${index}`, { args, caller, message });
      const approval = { id: "a1", inner: true };

      const changed = await tasks.change(added, { state: "auth_required", status: "Ask Ann.", approval, at: at(1) });

      const { holder: _, ...before } = added;
      const expected = { ...before, state: "auth_required", status: "Ask Ann.", approval, version: 2 };
      assert.deepEqual(changed, { ...expected, changedAt: at(1).toISOString() });
      assert.deepEqual(await tasks.get("ann", `t${index}`), changed);
    }
    assert.equal(await tasks.get("ann", "none"), undefined);
    assert.equal(await tasks.get("bob", "t0"), undefined);
  },
  "gives a message that was sent before its first task": async (tasks) => {
    const first = await add(tasks, "a");

    const again = await tasks.add(newTask("b", { message: first.messages[0] as TaskMessage }), 10);
    const other = await tasks.add(newTask("c", { client: "bob", message: first.messages[0] as TaskMessage }), 10);

    assert.deepEqual([again?.isNew, again?.task.id], [false, "a"]);
    assert.deepEqual([other?.isNew, other?.task.id], [true, "c"]);
  },
  "limits the open tasks of a client": async (tasks) => {
    const first = await add(tasks, "a");
    await add(tasks, "b");

    assert.equal(await tasks.add(newTask("c"), 2), undefined);
    assert((await tasks.add(newTask("d", { client: "bob" }), 2))?.isNew);
    await tasks.change(first, { state: "completed", at: at(1) });
    assert((await tasks.add(newTask("e"), 2))?.isNew);
  },
  "lets only one of two changes win": async (tasks) => {
    const seen = await add(tasks, "a");

    assert(await tasks.change(seen, { state: "cancelled", at: at(1) }));
    assert.equal(await tasks.change(seen, { state: "completed", at: at(2) }), undefined);

    assert.equal((await tasks.get("ann", "a"))?.state, "cancelled");
  },
  "lists by context, state and time, last changed first, in pages": async (tasks, db) => {
    for (const [index, id] of ["a", "b", "c", "d"].entries()) {
      const task = await add(tasks, id, { context: id < "c" ? "one" : "two" });
      await tasks.change(task, { state: id === "b" ? "failed" : "completed", at: at(index + 1) });
    }
    await add(tasks, "other", { client: "bob" });
    await db.all(sql`update peer_tasks set caller = '7' where id = 'd'`);

    const ids = async (query: Omit<Parameters<PeerTaskStore["list"]>[0], "client" | "limit">, limit = 10) =>
      (await tasks.list({ client: "ann", limit, ...query })).tasks.map(({ id }) => id);
    assert.deepEqual(await ids({}), ["c", "b", "a"]);
    assert.deepEqual(await ids({ context: "one" }), ["b", "a"]);
    assert.deepEqual(await ids({ state: "failed" }), ["b"]);
    assert.deepEqual(await ids({ since: at(2).toISOString() }), ["c"]);
    assert.deepEqual(await ids({ after: { id: "c", changedAt: at(3).toISOString() } }, 1), ["b"]);
    assert.equal(await tasks.count({ client: "ann", context: "one" }), 2);
    await assert.rejects(tasks.get("ann", "d"), { code: "store_failed", message: /the task d of a peer is damaged/ });
  },
  "renews the leases of one holder, and says what it still has": async (tasks) => {
    await add(tasks, "a");
    await add(tasks, "b", { holder: holder("other") });
    const gone = await add(tasks, "c");
    await tasks.change(gone, { state: "cancelled", at: at(1) });

    assert.deepEqual(await tasks.renew("me", at(30)), ["a"]);

    assert.deepEqual((await tasks.get("ann", "a"))?.holder?.leaseUntil, at(30));
    assert.deepEqual((await tasks.get("ann", "b"))?.holder, holder("other"));
  },
  "prunes only tasks that changed long ago and wait for nothing here": async (tasks) => {
    for (const id of ["working", "waiting", "asking", "done"]) await add(tasks, id);
    const find = async (id: string) => (await tasks.get("ann", id)) as PeerTask;
    const approval = { id: "a1", inner: false };
    await tasks.change(await find("waiting"), { state: "auth_required", approval, at: at(1) });
    await tasks.change(await find("asking"), { state: "input_required", status: "What?", at: at(1) });
    await tasks.change(await find("done"), { state: "completed", at: at(5) });

    assert.equal(await tasks.prune(at(2)), 1);
    assert.equal(await tasks.prune(at(9)), 1);

    assert.deepEqual(
      (await tasks.listOpen(10)).map(({ id }) => id),
      ["working", "waiting"],
    );
  },
});

const holder = (id: string): LeaseHolder => ({ id, pid: 7, host: "here", leaseUntil: at(10) });

function newTask(id: string, rest: Partial<NewPeerTask> = {}): NewPeerTask {
  const message: TaskMessage = { id: `message of ${id}`, role: "client", parts: [{ text: "hello" }] };
  const caller = { actor: "partner", session: "s" };
  const facts = { client: "ann", context: "c", action: "tool__x", args: {}, caller, callId: `call of ${id}`, message };
  return { id, ...facts, holder: holder("me"), at: at(0), ...rest };
}

async function add(tasks: PeerTaskStore, id: string, rest: Partial<NewPeerTask> = {}): Promise<PeerTask> {
  const added = await tasks.add(newTask(id, rest), 100);
  assert(added?.isNew);
  return added.task;
}

async function openTasks(db: SqlDriver): Promise<PeerTaskStore> {
  await migrate(db);
  return createSqlPeerTaskStore(db);
}
