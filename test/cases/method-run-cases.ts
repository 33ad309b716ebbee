import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import type { LeaseHolder } from "../../src/core/lease.ts";
import {
  type MethodRun,
  type MethodRunChange,
  type MethodRunStore,
  type NewMethodRun,
  startProgress,
} from "../../src/providers/skill/method/method-run.ts";
import { createSqlMethodRunStore } from "../../src/store/method-runs.ts";
import { migrate } from "../../src/store/migrations.ts";
import { type SqlDriver, sql } from "../../src/store/sql.ts";
import { defineCases } from "./store-cases.ts";

const STARTED = new Date("2026-01-02T03:04:05.678Z");
const CHANGED = new Date("2026-01-02T03:05:00.000Z");
const LATER = new Date("2026-01-02T03:20:00.000Z");
const result = { outcome: "success", exports: {}, steps_done: 2, requests: 3 };

export const methodRunStoreCases = defineCases(openRuns, {
  "returns a run as it was written": async (runs) => {
    for (const [index, text] of ["nul\0here", "half \ud800 pair", "__proto__", "🦑", ""].entries()) {
      const args: JsonObject = JSON.parse(`{"__proto__": ${JSON.stringify(text)}}`);
      const caller = { actor: text, session: text, user: { id: text } };
      const id = `r${index}`;
      assert((await runs.start(newRun(id, { args, caller }))).isNew);
      const progress = { ...startProgress, step: 2, requests: 3, exports: args, results: [text] };

      assert(await runs.write(id, "me", { state: "waiting", progress, approvalId: "a1", at: CHANGED }));

      const { holder: _, ...run } = newRun(id, { args, caller });
      const { at: __, ...stored } = run;
      const times = { startedAt: STARTED.toISOString(), changedAt: CHANGED.toISOString() };
      const expected = { ...stored, ...times, state: "waiting", progress, step: 2, requests: 3, approvalId: "a1" };
      assert.deepEqual(await runs.get(id), expected);
    }
    assert.equal(await runs.get("none"), undefined);
  },
  "answers the open run of the same key, and one whose result was not delivered": async (runs) => {
    await runs.start(newRun("a", { key: "k" }));
    assert.equal((await runs.start(newRun("b", { key: "k" }))).run.id, "a");
    assert((await runs.start(newRun("c", { key: "other" }))).isNew);

    await runs.write("a", "me", { ...ended, result });
    const { run, isNew } = await runs.start(newRun("d", { key: "k" }));
    assert.deepEqual([run.id, run.result, run.outcome, isNew], ["a", result, "success", false]);

    await runs.deliver("a");
    assert((await runs.start(newRun("e", { key: "k" }))).isNew);
    await runs.cancel("e", CHANGED);
    assert((await runs.start(newRun("f", { key: "k" }))).isNew);
  },
  "lets only the holder write, and nobody after the end": async (runs) => {
    await runs.start(newRun("a"));
    const change: MethodRunChange = { state: "running", progress: startProgress, holder: holder("me"), at: CHANGED };

    assert.equal(await runs.write("a", "other", change), false);
    assert(await runs.write("a", "me", change));
    assert(await runs.write("a", "me", { ...ended, result }));
    assert.equal(await runs.write("a", "me", change), false);
    assert.equal(await runs.cancel("a", CHANGED), false);

    await runs.start(newRun("b"));
    assert(await runs.cancel("b", CHANGED));
    assert.equal(await runs.write("b", "me", change), false);
    assert.equal((await requireRun(runs, "b")).state, "cancelled");
  },
  "gives a run to one process, if it has not changed since it was read": async (runs) => {
    const by = (id: string) => ({ holder: holder(id), callId: `call of ${id}`, at: LATER });
    await runs.start(newRun("waiting"));
    await runs.write("waiting", "me", { state: "waiting", progress: startProgress, approvalId: "a", at: CHANGED });
    const waiting = await requireRun(runs, "waiting");
    assert(await runs.claim(waiting, by("one")));
    assert.equal(await runs.claim(waiting, by("two")), false);
    assert.deepEqual((await requireRun(runs, "waiting")).callId, "call of one");

    await runs.start(newRun("renewed"));
    const seen = await requireRun(runs, "renewed");
    await runs.renew("me", LATER);
    assert.equal(await runs.claim(seen, by("two")), false);

    await runs.start(newRun("gone"));
    const gone = await requireRun(runs, "gone");
    await runs.cancel("gone", CHANGED);
    assert.equal(await runs.claim(gone, by("two")), false);
  },
  "lists open runs or all, newest first, and skips damaged rows": async (runs, db) => {
    for (const [at, id] of ["a", "b", "c", "d"].entries())
      await runs.start(newRun(id, { at: new Date(STARTED.getTime() + at) }));
    await runs.cancel("b", CHANGED);
    await db.all(sql`update method_runs set caller = '7' where id = 'd'`);

    const ids = async (query: Parameters<MethodRunStore["list"]>[0]) => (await runs.list(query)).map(({ id }) => id);
    assert.deepEqual(await ids({}), ["c", "b", "a"]);
    assert.deepEqual(await ids({ isOpen: true }), ["c", "a"]);
    assert.deepEqual(await ids({ state: "cancelled" }), ["b"]);
    assert.deepEqual(await ids({ limit: 2 }), ["c"]);
    await assert.rejects(runs.get("d"), { code: "store_failed", message: /run d of a method is damaged/ });
  },
  "prunes only runs that ended long ago": async (runs) => {
    for (const id of ["open", "done"]) await runs.start(newRun(id));
    await runs.write("done", "me", { ...ended, result });

    assert.equal(await runs.prune(CHANGED), 0);
    assert.equal(await runs.prune(LATER), 1);

    assert.notEqual(await runs.get("open"), undefined);
  },
});

const ended: MethodRunChange = { state: "done", progress: startProgress, at: CHANGED };

const holder = (id: string): LeaseHolder => ({ id, pid: 7, host: "here", leaseUntil: CHANGED });

function newRun(id: string, rest: Partial<NewMethodRun> = {}): NewMethodRun {
  const facts = { key: `key of ${id}`, action: "skill__x", digest: "d", callId: `call of ${id}`, steps: 2, args: {} };
  const caller = { actor: "main", session: "s" };
  return { id, ...facts, caller, progress: startProgress, holder: holder("me"), at: STARTED, ...rest };
}

async function requireRun(runs: MethodRunStore, id: string): Promise<MethodRun> {
  const run = await runs.get(id);
  assert(run !== undefined);
  return run;
}

async function openRuns(db: SqlDriver): Promise<MethodRunStore> {
  await migrate(db);
  return createSqlMethodRunStore(db);
}
