import { describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { systemRuntime } from "../app/system-runtime.ts";
import { defineAction } from "../catalog/define-action.ts";
import { QmError } from "../core/errors.ts";
import { createFailedOutcome, type Outcome, VALUE_LIMIT } from "../core/outcome.ts";
import type { ProcessInfo } from "../core/runtime.ts";
import { createSqlApprovalStore } from "../store/approvals.ts";
import { openSqlite } from "../store/drivers/sqlite.ts";
import { migrate } from "../store/migrations.ts";
import type { ApprovalStore } from "./approval-store.ts";
import { createApprovalWatcher } from "./approval-store.ts";
import { createApprovalWorker } from "./approval-worker.ts";
import { createPermitService, type ExecutionPermit } from "./permits.ts";

const { name: action } = defineAction("bank", {
  entry: "pay",
  description: "Pay.",
  effect: "external",
  input: z.object({}),
  run() {},
});
const self: ProcessInfo = { pid: 7, host: "here", isAlive: (pid) => pid === 7 };
const ending = { callId: "call", durationMs: 1, valueLimit: VALUE_LIMIT, action };
const done: Outcome = { ...ending, status: "done", data: { paid: true }, value: "{}" };
const failed = (code: "overloaded" | "denied") => createFailedOutcome(ending, new QmError(code, "not now"));

/** A real store with one approved call, whose statements fail as often as requested. */
async function opened() {
  const db = await openSqlite(":memory:");
  onTestFinished(() => db.close());
  await migrate(db);
  const real = createSqlApprovalStore(db);
  const failing = new Map<keyof ApprovalStore, number>();
  const store = new Proxy(real, {
    get(target, key: keyof ApprovalStore) {
      return (...args: unknown[]) => {
        const left = failing.get(key) ?? 0;
        failing.set(key, left - 1);
        if (left > 0) return Promise.reject(new QmError("store_failed", "the disk is full"));
        return (target[key] as (...given: unknown[]) => unknown)(...args);
      };
    },
  });
  const at = new Date().toISOString();
  const asked = {
    id: "a1",
    callId: "call",
    action,
    definition: "d",
    args: {},
    caller: { actor: "main", session: "s" },
  };
  const rest = { via: "library", policyVersion: "p", binding: "b", level: "user", rule: "r", reason: "it pays" };
  await real.request({ ...asked, ...rest, requestedAt: at, expiresAt: "2999-01-01T00:00:00.000Z" }, 10);
  await real.answer("a1", { decision: "approved", by: "ann", via: "cli", at }, []);
  const permits = createPermitService({ store, runtime: systemRuntime, self, isConfirmed: async () => true });
  const ran: string[] = [];
  const restored: string[] = [];
  const workerFor = (outcome: (permit: ExecutionPermit) => Promise<Outcome>) =>
    createApprovalWorker({
      store,
      changes: createApprovalWatcher(store),
      permits,
      service: { expireOld: async () => {} },
      runtime: systemRuntime,
      hadPolicy: () => true,
      knows: () => true,
      resume: (permit) => {
        ran.push(permit.approval.id);
        return outcome(permit);
      },
      restoreEnd: async ({ id, state }) => void restored.push(`${id} ${state}`),
      prune: async () => {},
      onProblem: () => {},
    });
  const claimed = async () => {
    const approval = await real.get("a1");
    const permit = approval && (await permits.claim(approval));
    return permit ?? expect.fail("it was not claimed");
  };
  return { real, failing, permits, ran, restored, workerFor, claimed };
}

const stateOf = async (store: ApprovalStore) => (await store.get("a1"))?.state;

describe("a permit", () => {
  test("is taken over when a clock correction made its lease far too long", async () => {
    const { real, permits } = await opened();
    const leaseUntil = new Date(systemRuntime.now().getTime() + 24 * 3_600_000);
    const executor = { id: "other", pid: 1, host: "elsewhere", leaseUntil };
    expect(await real.claim("a1", executor)).toBe(true);
    const approval = (await real.get("a1")) ?? expect.fail("it is gone");

    expect(permits.isAbandoned({ approval, executor })).toBe(true);
    const soon = { ...executor, leaseUntil: new Date(systemRuntime.now().getTime() + 20_000) };
    expect(permits.isAbandoned({ approval, executor: soon })).toBe(false);
  });

  test("stores the outcome of a call that began, and names the approver of one that never ran", async () => {
    const one = await opened();
    const begun = await one.claimed();
    await begun.begin();
    expect(await begun.ended(done, false)).toBe("kept");
    expect(await one.real.get("a1")).toMatchObject({ state: "done", outcome: { data: { paid: true } } });

    const other = await opened();
    expect(await (await other.claimed()).ended(failed("denied"), false)).toBe("kept");
    expect(await other.real.get("a1")).toMatchObject({
      state: "expired",
      answer: { reason: "ann had approved it (cli), but not now" },
    });
  });

  test("releases a call that could not begin yet, unless its caller hears of it now", async () => {
    const later = await opened();
    expect(await (await later.claimed()).ended(failed("overloaded"), false)).toBe("released");
    expect(await stateOf(later.real)).toBe("approved");

    const now = await opened();
    expect(await (await now.claimed()).ended(failed("overloaded"), true)).toBe("kept");
    expect(await stateOf(now.real)).toBe("expired");
  });

  test("does not begin a call that another process has taken", async () => {
    const { real, claimed } = await opened();
    const permit = await claimed();
    await real.release("a1", permit.executor);
    await real.claim("a1", { id: "other", pid: 8, host: "there", leaseUntil: new Date("2999-01-01") });

    await expect(permit.begin()).rejects.toMatchObject({ code: "conflict" });
    await permit.ended(failed("denied"), false);
    await permit.recorded(true);

    expect(await real.get("a1")).toMatchObject({ state: "executing", executor: "other", delivered: false });
  });

  test("belongs to another process while that one lives and renews its lease", async () => {
    const { real, permits } = await opened();
    const approval = (await real.get("a1")) ?? expect.fail("it is gone");
    const until = (ms: number) => new Date(Date.now() + ms);
    const left = (pid: number, host: string, ms: number) =>
      permits.isAbandoned({ approval, executor: { id: "other", pid, host, leaseUntil: until(ms) } });

    expect([left(7, "here", 9_000), left(8, "here", 9_000), left(7, "here", -1)]).toEqual([false, true, true]);
    expect([left(8, "there", 9_000), left(8, "there", -1)]).toEqual([false, true]);
  });
});

describe("a store that fails", () => {
  test("while an outcome is stored: it is stored later, and the call never runs again", async () => {
    const { real, failing, ran, restored, workerFor } = await opened();
    failing.set("finish", 1);
    const worker = workerFor(async (permit) => {
      await permit.begin();
      await permit.ended(done, false).catch(() => {});
      permit.leave();
      return done;
    });

    await worker.run();
    expect(await stateOf(real)).toBe("executing");
    await worker.run();

    expect(await real.get("a1")).toMatchObject({ state: "done", outcome: { data: { paid: true } } });
    expect({ ran, restored }).toEqual({ ran: ["a1"], restored: ["a1 done"] });
    expect(await real.listClaimed()).toEqual([]);
  });

  test("while a call begins and is released: the next process runs it", async () => {
    const { real, failing, ran, workerFor } = await opened();
    failing.set("begin", 1).set("release", 1);
    const worker = workerFor(async (permit) => {
      const begun = await permit.begin().then(
        () => true,
        () => false,
      );
      await permit.ended(begun ? done : failed("overloaded"), false).catch(() => {});
      if (begun) await permit.recorded(false);
      permit.leave();
      return begun ? done : failed("overloaded");
    });

    await worker.run();
    expect(await stateOf(real)).toBe("executing");
    await worker.run();

    expect(await stateOf(real)).toBe("approved");
    expect(ran).toEqual(["a1"]);
  });

  test("does not make a running call look abandoned", async () => {
    const { real, restored, workerFor, claimed } = await opened();
    const permit = await claimed();
    await permit.begin();

    await workerFor(async () => done).run();
    expect(await stateOf(real)).toBe("executing");
    await permit.ended(done, false);
    await workerFor(async () => done).run();

    expect(restored).toEqual([]);
  });
});
