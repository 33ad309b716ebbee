import { beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import type { Caller } from "../core/caller.ts";
import { QmError } from "../core/errors.ts";
import type { Json } from "../core/json.ts";
import type { Outcome } from "../core/outcome.ts";
import { openSqlite } from "../store/drivers/sqlite.ts";
import { migrate } from "../store/migrations.ts";
import { type SqlDriver, sql } from "../store/sql.ts";
import { createSqlTurnStore } from "../store/suspended-turns.ts";
import {
  createDoneResult,
  createFailedResult,
  createFakeApprovals,
  createWaitingResult,
  toTestCallId,
} from "./testing.ts";
import { MEMO_LIMIT, type Turn, type TurnEvent } from "./turn.ts";
import { createTurnService, type ResumedTurn, type TurnService } from "./turn-service.ts";
import type { TurnStore } from "./turn-store.ts";

const caller: Caller = { actor: "main", session: "s", tenant: "acme", user: { id: "u", tier: "gold" } };
const START = Date.UTC(2026, 0, 2);

describe("a turn", () => {
  test("has the caller's turn id or a new one, and puts it into its caller", async () => {
    const { turns } = await world();

    const [named, unnamed] = [await turns.begin({ ...caller, turn: "mine" }), await turns.begin(caller)];

    expect([named.id, named.caller]).toEqual(["mine", { ...caller, turn: "mine" }]);
    expect(unnamed.id).not.toBe("mine");
    expect(unnamed.caller).toEqual({ ...caller, turn: unnamed.id });
    await expect(turns.begin({ ...caller, turn: "mine" })).rejects.toMatchObject({ code: "conflict" });
  });

  test("returns the waiting calls in the order they were noted when suspended, and records one event", async () => {
    const { turns, events } = await world();
    const turn = await turns.begin({ ...caller, turn: "t" });
    const previewed = createWaitingResult("b") as Extract<Outcome, { status: "waiting" }>;

    turn.noted("__proto__", createWaitingResult("a"));
    turn.noted("two", { ...previewed, approval: { ...previewed.approval, preview: "rm -rf" } });
    turn.noted("three", createWaitingResult("a"));
    turn.noted("ready", createDoneResult("c", 1));
    const suspended = await turn.suspend({ messages: [] });

    const data = { action: "file__write", level: "user", reason: "it writes", expiresAt: "2027-01-01T00:00:00.000Z" };
    const part = (ref: string, approvalId: string, rest = {}) => {
      return {
        partType: "approval-request",
        data: {
          ...data,
          ref,
          approvalId,
          callId: toTestCallId(approvalId),
          args: { approval: approvalId },
          masked: [],
          ...rest,
        },
      };
    };
    expect(suspended).toEqual({
      state: "suspended",
      turnId: "t",
      resumeToken: turn.resumeToken,
      expiresAt: "2027-01-02T00:00:00.000Z",
      parts: [part("__proto__", "a"), part("two", "b", { preview: "rm -rf" }), part("three", "a")],
    });
    expect(events).toEqual([[turn.caller, { type: "turn.suspended", data: { turnId: "t", approvals: ["a", "b"] } }]]);
  });

  test("forgets calls with an outcome, and cannot be suspended if none waits", async () => {
    const { turns, events } = await world();
    const turn = await turns.begin(caller);
    turn.noted("one", createWaitingResult("a"));
    turn.noted("one", createDoneResult("a", 1));

    await expect(turn.suspend(null)).rejects.toMatchObject({ code: "conflict", hint: expect.any(String) });

    expect(events).toEqual([]);
    turn.noted("two", createWaitingResult("b"));
    expect((await turn.suspend(null)).parts).toHaveLength(1);
  });

  test("cannot be used after it is suspended or has ended", async () => {
    const { turns } = await world();
    const leave = {
      suspend: (turn: Turn) => turn.suspend(null),
      end: (turn: Turn) => turn.end("complete"),
    };
    for (const go of Object.values(leave)) {
      const turn = await turns.begin(caller);
      turn.noted("one", createWaitingResult("a"));

      const leaving = go(turn);

      // From the call on, not only after the write: a call noted now would be lost.
      expect(() => turn.noted("two", createWaitingResult("b"))).toThrow(expect.objectContaining({ code: "conflict" }));
      await leaving;
      expect(() => turn.noted("two", createWaitingResult("b"))).toThrow(expect.objectContaining({ code: "conflict" }));
      for (const late of [turn.save(1), turn.suspend(1), turn.end("failed")]) {
        await expect(late).rejects.toMatchObject({ code: "conflict" });
      }
    }
  });

  test("removes its waiting calls when it ends", async () => {
    const { turns } = await world();
    const turn = await turns.begin(caller);
    turn.noted("one", createWaitingResult("a"));

    await turn.end("cancelled");

    expect(await turns.get(turn.id)).toMatchObject({ state: "cancelled", calls: [] });
  });

  test("can be suspended again after the store failed", async () => {
    let failures = 1;
    const { turns } = await world({
      through: (store) => ({
        ...store,
        write: async (...change) => {
          if (failures-- > 0) throw new QmError("store_failed", "the disk is full");
          return store.write(...change);
        },
      }),
    });
    const turn = await turns.begin(caller);
    turn.noted("one", createWaitingResult("a"));

    await expect(turn.suspend(1)).rejects.toMatchObject({ code: "store_failed" });

    turn.noted("two", createWaitingResult("b"));
    expect((await turn.suspend(1)).parts).toHaveLength(2);
  });

  test("stores parallel saves in order, each as it was at its call", async () => {
    const { turns, outcomes, otherProcess } = await world();
    const turn = await turns.begin(caller);
    turn.noted("one", createWaitingResult("a"));
    const memo = { step: 1 };

    const saves = [turn.save(memo)];
    memo.step = 2;
    saves.push(turn.save(memo));
    memo.step = 3;
    const suspending = turn.suspend(memo);
    memo.step = 4;
    await Promise.all([...saves, suspending]);

    outcomes.set("a", createDoneResult("a", 1));
    expect(await otherProcess().resume(turn.resumeToken)).toMatchObject({ state: "running", memo: { step: 3 } });
  });

  test.each<[string, () => unknown, string]>([
    ["too long", () => "x".repeat(MEMO_LIMIT - 1), "too_large"],
    ["too long in bytes", () => "☂".repeat(MEMO_LIMIT / 2), "too_large"],
    ["a cycle", cycle, "invalid_arguments"],
    ["a BigInt", () => 1n, "invalid_arguments"],
    ["a function", () => () => 1, "invalid_arguments"],
    ["something that throws nothing", () => throwing(undefined), "invalid_arguments"],
    ["something that throws itself", () => throwing({ toString: null }), "invalid_arguments"],
  ])("rejects a memo that is %s, and stays usable", async (_what, make, code) => {
    const { turns, outcomes, otherProcess } = await world();
    const memo = make() as Json;
    await expect(turns.begin(caller, memo)).rejects.toMatchObject({ code });
    expect(await turns.list()).toEqual([]);
    const turn = await turns.begin(caller, "before");
    turn.noted("one", createWaitingResult("a"));

    await expect(turn.save(memo)).rejects.toMatchObject({ code });
    await expect(turn.suspend(memo)).rejects.toMatchObject({ code });

    await turn.suspend("after");
    outcomes.set("a", createDoneResult("a", 1));
    expect(await otherProcess().resume(turn.resumeToken)).toMatchObject({ memo: "after" });
  });

  test("stores a memo of sixteen megabytes", async () => {
    const { turns, otherProcess, clock } = await world();
    const memo = "x".repeat(MEMO_LIMIT - 2);
    const turn = await turns.begin(caller, memo);
    clock.ms += 60_000;

    const resumed = await otherProcess().resume(turn.resumeToken);

    expect(running(resumed).memo === memo).toBe(true);
  });
});

describe("resuming", () => {
  let at: Awaited<ReturnType<typeof suspendedTurn>>;
  beforeEach(async () => {
    at = await suspendedTurn(["a", "b", "c", "d"]);
  });
  const settleAll = () => {
    at.outcomes.set("d", createFailedResult("d", "approval_expired"));
    at.outcomes.set("b", createFailedResult("b", "tool_denied"));
    at.outcomes.set("a", createDoneResult("a", { ok: 1 }));
    at.outcomes.set("c", createFailedResult("c", "interrupted"));
  };

  test("returns the waiting calls and changes nothing", async () => {
    const { turns, token, outcomes, row, events } = at;
    outcomes.set("b", createFailedResult("b", "tool_denied"));
    const before = await row();

    const resumed = await turns.resume(token);

    expect(resumed).toMatchObject({
      state: "suspended",
      turnId: "t",
      waiting: [{ ref: "ref a" }, { ref: "ref c" }, { ref: "ref d" }],
      results: [{ ref: "ref b", outcome: createFailedResult("b", "tool_denied") }],
    });
    expect(await row()).toEqual(before);
    expect(events.map(([, { type }]) => type)).toEqual(["turn.suspended"]);
  });

  test("returns the memo and every outcome, in the order the calls were noted", async () => {
    const { turns, token, asked, events } = at;
    settleAll();

    const { turn, memo, results } = running(await turns.resume(token));

    expect(memo).toEqual({ kept: true });
    expect(results).toEqual([
      { ref: "ref a", outcome: createDoneResult("a", { ok: 1 }) },
      { ref: "ref b", outcome: createFailedResult("b", "tool_denied") },
      { ref: "ref c", outcome: createFailedResult("c", "interrupted") },
      { ref: "ref d", outcome: createFailedResult("d", "approval_expired") },
    ]);
    expect([turn.id, turn.caller, turn.resumeToken]).toEqual(["t", { ...caller, turn: "t" }, token]);
    expect(asked.at(-1)).toEqual(["d", { caller: { ...caller, turn: "t" }, timeoutMs: 0 }]);
    const calls = ["a", "b", "c", "d"].map(toTestCallId);
    expect(events.at(-1)).toEqual([turn.caller, { type: "turn.resumed", data: { turnId: "t", calls } }]);
  });

  test("only reports the state with partial", async () => {
    const { turns, token, row } = at;
    settleAll();
    const before = await row();

    const partial = await turns.resume(token, { partial: true });

    expect(partial).toMatchObject({ state: "suspended", waiting: [], results: [{}, {}, {}, {}] });
    expect(await row()).toEqual(before);
    running(await turns.resume(token));
  });

  test("gives the turn to exactly one of many processes", async () => {
    const { turns, token, otherProcess } = at;
    settleAll();
    const others = [turns, otherProcess(), otherProcess(), turns, otherProcess()];

    const all = await Promise.allSettled(others.map((each) => each.resume(token)));

    expect(all.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    for (const each of all) if (each.status === "rejected") expect(each.reason).toMatchObject({ code: "conflict" });
    await expect(otherProcess().resume(token)).rejects.toMatchObject({ code: "conflict" });
  });

  test("continues past a lost outcome, and stops at any other error", async () => {
    const { turns, token, unknown } = at;
    settleAll();
    at.outcomes.delete("c");
    unknown.add("c");

    const { results } = running(await turns.resume(token));

    expect(results[2]).toMatchObject({
      ref: "ref c",
      outcome: { status: "failed", callId: toTestCallId("c"), error: { code: "not_found", approval_id: "c" } },
    });
    const broken = await suspendedTurn(["a"], async () => {
      throw new QmError("store_failed", "locked");
    });
    await expect(broken.turns.resume(broken.token)).rejects.toMatchObject({ code: "store_failed" });
    expect(await broken.row()).toMatchObject({ state: "suspended", version: 2 });
  });

  test("rejects any other token without revealing anything", async () => {
    const { turns, token, db } = at;
    settleAll();
    const wrong = [
      "",
      "t",
      `${token}x`,
      token.slice(1),
      token.toUpperCase(),
      "\0",
      "\ud800",
      "x".repeat(1e6),
      7,
      null,
      {},
    ];
    const [{ token_hash: kept } = {}] = await db.all(sql`select token_hash from turns`);

    for (const each of [...wrong, kept]) {
      await expect(turns.resume(each as string)).rejects.toMatchObject({ code: "not_found" });
    }

    expect(JSON.stringify(await db.all(sql`select * from turns`))).not.toContain(token);
    expect(token).toMatch(/^[\w-]{43}$/);
  });

  test("rejects another caller as if the turn did not exist", async () => {
    const { turns, token, row } = at;
    settleAll();
    const before = await row();
    const { tenant: _, ...untenanted } = caller;
    const { user: _user, ...anonymous } = caller;
    const others = [
      { ...caller, actor: "side" },
      { ...caller, tenant: "other" },
      { ...caller, user: { id: "v" } },
      untenanted,
      anonymous,
    ];

    for (const other of others) {
      await expect(turns.resume(token, { caller: other })).rejects.toMatchObject({ code: "not_found" });
    }

    expect(await row()).toEqual(before);
    const same = { ...caller, session: "elsewhere", turn: "x", user: { id: "u" } };
    running(await turns.resume(token, { caller: same }));
  });

  test.each(["complete", "failed", "cancelled"] as const)("is rejected once the turn is %s", async (state) => {
    const { turns, token, events, row } = at;
    settleAll();
    const { turn } = running(await turns.resume(token));

    await turn.end(state);

    expect(events.at(-1)).toEqual([turn.caller, { type: "turn.ended", data: { turnId: "t", state } }]);
    await expect(turns.resume(token)).rejects.toMatchObject({
      code: "conflict",
      message: expect.stringContaining(state),
    });
    expect(await row()).toMatchObject({ state, memo: "null", calls: "[]", holder: null });
  });

  test("works again for every new waiting call, and returns each call until a memo has it", async () => {
    const { turns, token, outcomes, otherProcess } = at;
    settleAll();
    const { turn } = running(await turns.resume(token));
    await expect(turn.suspend(null)).rejects.toMatchObject({ code: "conflict" });
    turn.noted("next", createWaitingResult("e"));
    const again = await turn.suspend("second");
    expect(again.parts).toHaveLength(1);

    outcomes.set("e", createDoneResult("e", 5));
    const { memo, results } = running(await otherProcess().resume(again.resumeToken));

    expect(memo).toBe("second");
    expect(results).toEqual([{ ref: "next", outcome: createDoneResult("e", 5) }]);
  });

  test("takes each token once, until the turn is suspended again", async () => {
    const { turns, token, outcomes, otherProcess } = at;
    settleAll();
    const { turn } = running(await turns.resume(token));
    await expect(otherProcess().resume(token)).rejects.toMatchObject({ code: "conflict" });
    turn.noted("next", createWaitingResult("e"));
    const { resumeToken } = await turn.suspend("second");
    outcomes.set("e", createDoneResult("e", 5));

    for (const used of [token, token])
      await expect(turns.resume(used)).rejects.toMatchObject({
        code: "not_found",
        hint: expect.stringContaining("used once"),
      });

    expect(running(await turns.resume(resumeToken)).memo).toBe("second");
  });

  test("is possible until a day after the last approval has expired", async () => {
    const { turns, token, clock, row } = at;
    settleAll();
    const { expires_at: expiresAt } = await row();
    clock.ms = Date.parse(String(expiresAt));

    await expect(turns.resume(token)).rejects.toMatchObject({
      code: "conflict",
      message: expect.stringContaining("2027-01-02"),
    });

    expect(await row()).toMatchObject({ state: "suspended", version: 2 });
    clock.ms -= 1;
    running(await turns.resume(token));
  });

  test("by its id makes the token invalid", async () => {
    const { turns, token, outcomes, dead, otherProcess } = at;
    expect(await turns.resumeById("t")).toMatchObject({ state: "suspended" });
    settleAll();
    const { turn, memo, results } = running(await turns.resumeById("t"));
    expect([memo, results.length]).toEqual([{ kept: true }, 4]);
    await expect(otherProcess().resumeById("t")).rejects.toMatchObject({ code: "conflict" });

    await expect(turns.resume(token)).rejects.toMatchObject({ code: "not_found" });

    turn.noted("next", createWaitingResult("e"));
    await turn.save("waits");
    dead.add(1);
    const next = otherProcess();
    expect(await next.resumeById("t")).toMatchObject({ state: "suspended", waiting: [{ ref: "next" }] });
    outcomes.delete("e");
    expect(running(await next.resumeById("t", { isForced: true }))).toMatchObject({ memo: "waits", results: [] });
    await expect(next.resumeById("nobody's")).rejects.toMatchObject({ code: "not_found" });
  });

  test("works again after its process died, with the same results", async () => {
    const { turns, token, otherProcess, dead } = at;
    settleAll();
    const first = running(await turns.resume(token));
    const next = otherProcess();
    await expect(next.resume(token)).rejects.toMatchObject({ code: "conflict" });

    dead.add(1);
    const second = running(await next.resume(token));

    expect([second.memo, second.results]).toEqual([first.memo, first.results]);
    await expect(first.turn.save("late")).rejects.toMatchObject({
      code: "conflict",
      message: expect.stringContaining("taken over"),
    });
    await expect(first.turn.end("failed")).rejects.toMatchObject({ code: "conflict" });
    await second.turn.end("complete");
  });

  test("returns the last saved memo, without the results it already contains", async () => {
    const { turns, token, otherProcess, dead, outcomes } = at;
    settleAll();
    const { turn } = running(await turns.resume(token));
    turn.noted("next", createWaitingResult("e"));
    await turn.save("third step");
    dead.add(1);

    expect(await otherProcess().resume(token)).toMatchObject({ state: "suspended", waiting: [{ ref: "next" }] });
    outcomes.set("e", createDoneResult("e", 5));
    const { memo, results } = running(await otherProcess().resume(token));

    expect([memo, results]).toEqual(["third step", [{ ref: "next", outcome: createDoneResult("e", 5) }]]);
  });

  test("waits for the lease of a process on another host", async () => {
    const { turns, token, otherProcess, clock, dead } = at;
    settleAll();
    running(await turns.resume(token));
    dead.add(1);
    const elsewhere = otherProcess("there");

    clock.ms += 14_999;
    await expect(elsewhere.resume(token)).rejects.toMatchObject({ code: "conflict" });
    clock.ms += 1;
    running(await elsewhere.resume(token));
  });

  test("ignores a lease from a wrong clock", async () => {
    const { turns, token, otherProcess, clock } = at;
    settleAll();
    clock.ms += 86_400_000;
    running(await turns.resume(token));

    clock.ms -= 86_400_000;

    running(await otherProcess("there").resume(token));
  });

  test("leaves a turn with a damaged memo unchanged, and reports it", async () => {
    const { turns, token, db, row } = at;
    settleAll();
    await db.all(sql`update turns set memo = '{"cut'`);

    for (let time = 0; time < 2; time++) {
      await expect(turns.resume(token)).rejects.toMatchObject({ code: "store_failed" });
      expect(await row()).toMatchObject({ state: "suspended", memo: '{"cut', holder: null });
    }
  });
});

test("renews the lease while the turn is held, and not after", async () => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  onTestFinished(() => void vi.useRealTimers());
  const renewals: (() => void)[] = [];
  const { turns, clock, otherProcess } = await world({
    through: (store) => ({
      ...store,
      async renew(...args) {
        await store.renew(...args);
        for (const told of renewals.splice(0)) told();
      },
    }),
  });
  const turn = await turns.begin(caller);
  turn.noted("one", createWaitingResult("a"));

  for (let time = 0; time < 10; time++) {
    clock.ms += 5_000;
    const renewed = new Promise<void>((resolve) => renewals.push(resolve));
    vi.advanceTimersByTime(5_000);
    await renewed;
  }
  await expect(otherProcess("there").resume(turn.resumeToken)).rejects.toMatchObject({ code: "conflict" });

  expect(vi.getTimerCount()).toBe(1);
  await turn.suspend(null);
  expect(vi.getTimerCount()).toBe(0);
  await turns.begin(caller);
  turns.close();
  expect(vi.getTimerCount()).toBe(0);
});

test("operators see turns without memos and tokens", async () => {
  const { turns, clock } = await world();
  const waitingOne = await turns.begin({ ...caller, turn: "w", person: "p" }, "secret memo");
  waitingOne.noted("one", createWaitingResult("a"));
  await waitingOne.suspend("secret memo");
  clock.ms += 1_000;
  const ended = await turns.begin({ actor: "side", session: "s2", turn: "e" });
  await ended.end("cancelled");

  const list = await turns.list();

  const startedAt = new Date(START).toISOString();
  const call = { ref: "one", callId: toTestCallId("a"), approvalId: "a", action: "file__write" };
  const suspended = {
    ...{ id: "w", state: "suspended", actor: "main", session: "s", tenant: "acme", user: "u", person: "p" },
    ...{
      expiresAt: "2027-01-02T00:00:00.000Z",
      startedAt,
      changedAt: startedAt,
      calls: [{ ...call, expiresAt: "2027-01-01T00:00:00.000Z" }],
    },
  };
  expect(list.map(({ id, state }) => [id, state])).toEqual([
    ["e", "cancelled"],
    ["w", "suspended"],
  ]);
  expect(list[1]).toEqual(suspended);
  expect(await turns.get("w")).toEqual(suspended);
  expect(await turns.list({ state: "suspended", session: "s2" })).toEqual([]);
  await expect(turns.get("x")).rejects.toMatchObject({ code: "not_found" });
  expect(await turns.prune(new Date(START + 2_000))).toBe(1);
  await expect(turns.get("e")).rejects.toMatchObject({ code: "not_found" });
});

interface WorldOptions {
  readonly outcome?: () => Promise<Outcome>;
  readonly through?: (store: TurnStore) => TurnStore;
}

/** Turns over a store in memory as process 1; other processes share the store. */
async function world({ outcome, through = (store) => store }: WorldOptions = {}) {
  const db: SqlDriver = await openSqlite(":memory:");
  onTestFinished(() => db.close());
  await migrate(db);
  const store = through(createSqlTurnStore(db));
  const clock = { ms: START };
  const outcomes = new Map<string, Outcome>();
  const unknown = new Set<string>();
  const dead = new Set<number>();
  const events: [Caller, TurnEvent][] = [];
  const { approvals: fake, asked } = createFakeApprovals(outcomes, (id) => !unknown.has(id));
  const approvals = outcome === undefined ? fake : { ...fake, outcome };
  let ids = 0;
  let pids = 0;
  const runtime = { now: () => new Date(clock.ms), elapsed: () => 0, newId: () => `id-${ids++}` };
  const otherProcess = (host = "here"): TurnService => {
    const self = { pid: ++pids, host, isAlive: (pid: number) => !dead.has(pid) };
    const turns = createTurnService({
      store,
      approvals,
      runtime,
      self,
      note: async (who, event) => void events.push([who, event]),
    });
    onTestFinished(() => turns.close());
    return turns;
  };
  return { turns: otherProcess(), otherProcess, db, clock, outcomes, unknown, dead, events, asked };
}

/** A turn with waiting calls, each noted as `ref <approval>`. */
async function suspendedTurn(approvalIds: readonly string[], outcome?: () => Promise<Outcome>) {
  const made = await world(outcome === undefined ? {} : { outcome });
  const turn = await made.turns.begin({ ...caller, turn: "t" });
  for (const id of approvalIds) turn.noted(`ref ${id}`, createWaitingResult(id));
  const { resumeToken: token } = await turn.suspend({ kept: true });
  const row = async () => ({ ...(await made.db.all(sql`select * from turns where id = 't'`))[0] });
  return { ...made, token, row };
}

function running(resumed: ResumedTurn): Extract<ResumedTurn, { state: "running" }> {
  if (resumed.state !== "running") throw new Error(`the turn is ${resumed.state}`);
  return resumed;
}

function cycle(): unknown {
  const memo: unknown[] = [];
  memo.push(memo);
  return memo;
}

function throwing(what: unknown): unknown {
  return {
    toJSON() {
      throw what;
    },
  };
}
