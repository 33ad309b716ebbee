import assert from "node:assert/strict";
import type { NewTurn, StoredTurn, TurnStore, WaitingCall } from "../../src/approval/turn-store.ts";
import type { JsonObject } from "../../src/core/json.ts";
import type { LeaseHolder } from "../../src/core/lease.ts";
import { migrate } from "../../src/store/migrations.ts";
import { type SqlDriver, sql } from "../../src/store/sql.ts";
import { createSqlTurnStore } from "../../src/store/suspended-turns.ts";
import { defineCases } from "./store-cases.ts";

const STARTED = new Date("2026-01-02T03:04:05.678Z");
const CHANGED = new Date("2026-01-02T03:05:00.000Z");
const LEASE = new Date("2026-01-02T03:10:00.000Z");
const RENEWED = new Date("2026-01-02T03:20:00.000Z");
const ENDS = ["complete", "failed", "cancelled"] as const;

export const turnStoreCases = defineCases(openTurns, {
  "returns a turn as it was written": async (turns) => {
    const odd = ["nul\0here", "half \ud800 pair", "__proto__", "🦑", "line\u2028separator", ""];
    for (const [index, text] of odd.entries()) {
      const facts: JsonObject = JSON.parse(`{"__proto__": ${JSON.stringify(text)}}`);
      const caller = { actor: text, session: text, turn: `t${index}`, user: { id: text, facts } };
      const memo = JSON.stringify({ text, facts });
      const calls = [{ ...call(text), reason: text, preview: text }, call("second")];

      assert(await turns.add(newTurn(`t${index}`, { caller, memo: "null" })));
      assert(await turns.write(createHolder(`t${index}`, 1), { state: "suspended", calls, memo, at: CHANGED }));

      const read = await requireTurn(turns, `t${index}`);
      assert.deepEqual(read, {
        id: `t${index}`,
        state: "suspended",
        caller,
        calls,
        version: 2,
        startedAt: STARTED.toISOString(),
        changedAt: CHANGED.toISOString(),
      });
      assert.deepEqual(await turns.byToken(`hash of t${index}`), read);
      assert.deepEqual(await turns.list({ session: text }), [read]);
      assert.equal(await turns.claim(read, holder("other"), CHANGED), memo);
    }
    assert.equal(await turns.get("nobody's"), undefined);
    assert.equal(await turns.byToken("t0"), undefined);
  },
  "keeps the first turn with an id": async (turns) => {
    assert(await turns.add(newTurn("t", { memo: "1" })));
    const before = await requireTurn(turns, "t");

    assert.equal(await turns.add(newTurn("t", { memo: "2", tokenHash: "another" })), false);

    assert.deepEqual(await requireTurn(turns, "t"), before);
    assert.equal(await turns.byToken("another"), undefined);
    assert.deepEqual(before.holder, holder("me"));
    assert.deepEqual([before.state, before.version, before.calls], ["running", 1, []]);
  },
  "lets only the holder write, with the current version": async (turns) => {
    await turns.add(newTurn("t"));
    const change = {
      state: "running",
      calls: [call("a")],
      memo: "7",
      holder: holder("me", RENEWED),
      at: CHANGED,
    } as const;

    assert.equal(await turns.write(createHolder("t", 1, "other"), change), false);
    assert.equal(await turns.write(createHolder("t", 2), change), false);
    assert.equal(await turns.write(createHolder("u", 1), change), false);
    assert.deepEqual((await requireTurn(turns, "t")).changedAt, STARTED.toISOString());
    assert(await turns.write(createHolder("t", 1), change));
    assert.equal(await turns.write(createHolder("t", 1), change), false);

    const { state, version, calls, holder: kept, changedAt } = await requireTurn(turns, "t");
    assert.deepEqual([state, version, changedAt], ["running", 2, CHANGED.toISOString()]);
    assert.deepEqual(calls, [call("a")]);
    assert.deepEqual(kept, holder("me", RENEWED));
  },
  "has no holder once it is suspended or ended": async (turns) => {
    for (const state of ["suspended", ...ENDS] as const) {
      await turns.add(newTurn(state));
      assert(await turns.write(createHolder(state, 1), { state, calls: [], memo: "null", at: CHANGED }));

      const left = await requireTurn(turns, state);
      assert.equal("holder" in left, false);
      const again = { state: "running", calls: [], memo: "1", holder: holder("me"), at: CHANGED } as const;
      assert.equal(await turns.write(createHolder(state, 2), again), false);
      const claimed = await turns.claim(left, holder("other"), CHANGED);
      assert.equal(claimed, state === "suspended" ? "null" : undefined);
    }
  },
  "lets one of many processes claim, if the turn is unchanged": async (turns) => {
    await turns.add(newTurn("t"));
    await turns.write(createHolder("t", 1), { state: "suspended", calls: [call("a")], memo: "1", at: CHANGED });
    const seen = await requireTurn(turns, "t");
    const names = Array.from({ length: 20 }, (_, index) => `h${index}`);

    const memos = await Promise.all(names.map((name) => turns.claim(seen, holder(name), CHANGED)));

    const winners = names.filter((_, index) => memos[index] === "1");
    assert.equal(winners.length, 1);
    assert.equal(memos.filter((memo) => memo === undefined).length, 19);
    const now = await requireTurn(turns, "t");
    assert.deepEqual([now.state, now.version, now.holder?.id], ["running", 3, winners[0]]);
    assert.deepEqual(now.calls, [call("a")]);
    // Suspended again: the same state, but another version.
    const again = { state: "suspended", calls: [call("b")], memo: "2", at: CHANGED } as const;
    assert(await turns.write(createHolder("t", 3, winners[0]), again));
    assert.equal(await turns.claim(seen, holder("late"), CHANGED), undefined);
  },
  "leaves a turn to a holder that renewed its lease": async (turns) => {
    for (const id of ["renewed", "saved", "gone"]) await turns.add(newTurn(id, { holder: holder(id) }));
    const [renewed, saved, gone] = [
      await requireTurn(turns, "renewed"),
      await requireTurn(turns, "saved"),
      await requireTurn(turns, "gone"),
    ];

    await turns.renew("renewed", RENEWED);
    const change = { state: "running", calls: [], memo: "2", holder: holder("saved"), at: CHANGED } as const;
    assert(await turns.write(createHolder("saved", 1, "saved"), change));

    assert.equal(await turns.claim(renewed, holder("other"), CHANGED), undefined);
    assert.equal(await turns.claim(saved, holder("other"), CHANGED), undefined);
    assert.equal(await turns.claim(gone, holder("other"), CHANGED), "null");
    assert.equal(await turns.write(createHolder("gone", 1, "gone"), change), false);
    assert.deepEqual((await requireTurn(turns, "renewed")).holder, holder("renewed", RENEWED));
  },
  "renews only the turns of the holder": async (turns) => {
    for (const id of ["a", "b", "suspended"]) await turns.add(newTurn(id));
    await turns.add(newTurn("theirs", { holder: holder("other") }));
    await turns.write(createHolder("suspended", 1), { state: "suspended", calls: [], memo: "null", at: CHANGED });

    await turns.renew("me", RENEWED);

    const leases = (await turns.list({})).map(({ id, holder: who }) => [id, who?.leaseUntil]);
    assert.deepEqual(Object.fromEntries(leases), {
      a: RENEWED,
      b: RENEWED,
      suspended: undefined,
      theirs: LEASE,
    });
  },
  "lists by state and session, last changed first, a hundred by default": async (turns) => {
    for (let index = 0; index < 101; index++) {
      const at = new Date(STARTED.getTime() + index);
      const caller = { actor: "main", session: index < 99 ? "s" : "other" };
      await turns.add(newTurn(`t${index}`, { at, caller }));
    }
    await turns.write(createHolder("t100", 1), { state: "suspended", calls: [], memo: "null", at: CHANGED });
    const findIds = async (query: Parameters<TurnStore["list"]>[0]) => (await turns.list(query)).map(({ id }) => id);

    assert.equal((await findIds({})).length, 100);
    assert.deepEqual(await findIds({ limit: 3 }), ["t100", "t99", "t98"]);
    assert.deepEqual(await findIds({ session: "other" }), ["t100", "t99"]);
    assert.deepEqual(await findIds({ state: "suspended" }), ["t100"]);
    assert.deepEqual(await findIds({ state: "suspended", session: "s" }), []);
    assert.deepEqual(await findIds({ limit: -1 }), []);
  },
  "prunes only turns that ended long ago": async (turns) => {
    for (const state of ["running", "suspended", ...ENDS] as const) {
      await turns.add(newTurn(state));
      if (state !== "running")
        await turns.write(createHolder(state, 1), { state, calls: [], memo: "null", at: CHANGED });
    }

    assert.equal(await turns.prune(CHANGED), 0);
    assert.equal(await turns.prune(LEASE), 3);

    assert.deepEqual((await turns.list({})).map(({ id }) => id).sort(), ["running", "suspended"]);
    // No process has renewed its lease.
    assert.equal(await turns.prune(RENEWED), 1);
  },
  "replaces the token, and expires when it says": async (turns) => {
    await turns.add(newTurn("t"));
    const expiresAt = CHANGED.toISOString();
    const suspended = {
      state: "suspended",
      calls: [],
      memo: "1",
      expiresAt,
      tokenHash: "second",
      at: CHANGED,
    } as const;
    assert(await turns.write(createHolder("t", 1), suspended));

    assert.equal(await turns.byToken("hash of t"), undefined);
    const seen = (await turns.byToken("second")) ?? assert.fail("the new token is unknown");
    assert.equal(seen.expiresAt, expiresAt);
    assert.equal(await turns.prune(CHANGED), 0);
    assert.equal(await turns.claim(seen, holder("me"), CHANGED, "third"), "1");
    assert.equal((await turns.byToken("third"))?.expiresAt, undefined);
    assert(await turns.write(createHolder("t", 3), { ...suspended, tokenHash: "fourth" }));
    assert.equal(await turns.prune(RENEWED), 1);
  },
  "gives up a turn of its holder as it was stored": async (turns) => {
    await turns.add(newTurn("t", { memo: "7" }));

    await turns.release("t", "other", CHANGED);
    assert.equal((await requireTurn(turns, "t")).holder?.id, "me");
    await turns.release("t", "me", CHANGED);

    const left = await requireTurn(turns, "t");
    assert.deepEqual([left.state, "holder" in left], ["running", false]);
    assert.equal(await turns.readMemo("t"), "7");
    assert.equal(await turns.readMemo("u"), undefined);
    assert.equal(
      await turns.write(createHolder("t", 1), { state: "failed", calls: [], memo: "8", at: CHANGED }),
      false,
    );
    assert.equal(await turns.claim(left, holder("other"), CHANGED), "7");
  },
  "cancels every turn that is not over": async (turns) => {
    for (const state of ["running", "suspended", ...ENDS] as const) {
      await turns.add(newTurn(state));
      if (state !== "running")
        await turns.write(createHolder(state, 1), { state, calls: [call("a")], memo: "1", at: STARTED });
    }

    assert.equal(await turns.cancelAll(CHANGED), 2);

    const states = (await turns.list({})).map(({ id, state, holder: who }) => [id, state, who]);
    assert.deepEqual(Object.fromEntries(states.map(([id, state]) => [id, state])), {
      ...{
        running: "cancelled",
        suspended: "cancelled",
        complete: "complete",
        failed: "failed",
        cancelled: "cancelled",
      },
    });
    assert.equal(await turns.readMemo("suspended"), "null");
  },
  "stores a memo of megabytes": async (turns) => {
    const memo = JSON.stringify("🦑".repeat(2_000_000));

    await turns.add(newTurn("t", { memo }));

    assert.equal(await turns.claim(await requireTurn(turns, "t"), holder("me"), CHANGED), memo);
  },
  "reports a damaged row, and lists the others": async (turns, db) => {
    const damage = { caller: sql`caller = '"x"'`, calls: sql`calls = '[7]'`, state: sql`state = 'odd'` };
    for (const [column, change] of Object.entries(damage)) {
      await turns.add(newTurn(column));
      await db.all(sql`update turns set ${change} where id = ${column}`);

      const expected = { code: "store_failed", message: new RegExp(`turn ${column} is damaged.*${column}`) };
      await assert.rejects(turns.get(column), expected);
      await assert.rejects(turns.byToken(`hash of ${column}`), expected);
    }
    await turns.add(newTurn("whole"));

    assert.deepEqual(
      (await turns.list({})).map(({ id }) => id),
      ["whole"],
    );
  },
});

function newTurn(id: string, rest: Partial<NewTurn> = {}): NewTurn {
  const caller = { actor: "main", session: "s", turn: id };
  return { id, tokenHash: `hash of ${id}`, caller, memo: "null", holder: holder("me"), at: STARTED, ...rest };
}

function holder(id: string, leaseUntil = LEASE): LeaseHolder {
  return { id, pid: 7, host: "here", leaseUntil };
}

function createHolder(id: string, version: number, holderId = "me") {
  return { id, version, holderId };
}

function call(ref: string): WaitingCall {
  return {
    ref,
    callId: "c",
    approvalId: "a",
    action: "file__write",
    level: "user",
    reason: "it writes",
    expiresAt: "2026-01-02T04:00:00.000Z",
  };
}

async function requireTurn(turns: TurnStore, id: string): Promise<StoredTurn> {
  return (await turns.get(id)) ?? assert.fail(`${id} is not there`);
}

async function openTurns(db: SqlDriver): Promise<TurnStore> {
  await migrate(db);
  return createSqlTurnStore(db);
}
