import { expect, onTestFinished, test, vi } from "vitest";
import { z } from "zod";
import { systemProcess, systemRuntime } from "../app/system-runtime.ts";
import { defineAction } from "../catalog/define-action.ts";
import type { Outcome } from "../core/outcome.ts";
import { compileApprovals } from "../policy/approval-rules.ts";
import { createSqlApprovalStore } from "../store/approvals.ts";
import { openSqlite } from "../store/drivers/sqlite.ts";
import { migrate } from "../store/migrations.ts";
import { createApprovalGate, type LiveChannels } from "./approval-gate.ts";
import { createApprovalWatcher } from "./approval-store.ts";
import { createPermitService } from "./permits.ts";

const pay = defineAction("tool", {
  entry: "pay",
  description: "Pay.",
  effect: "external",
  input: z.object({}),
  run() {},
});
const request = {
  action: pay,
  args: {},
  caller: { actor: "main", session: "s" },
  policyVersion: "p",
  callId: "call",
  via: "native",
  objection: { layer: "approval", effect: "ask", rule: "r", reason: "it pays", level: "user" },
  preview: undefined,
} as const;

/** A gatekeeper over a real store, whose person never answers by themselves, and another process that may be faster. */
async function opened() {
  const db = await openSqlite(":memory:");
  onTestFinished(() => db.close());
  await migrate(db);
  const store = createSqlApprovalStore(db);
  const changes = createApprovalWatcher(store);
  const problems: string[] = [];
  const expired: string[] = [];
  const asked = vi.fn();
  const gatekeeper = createApprovalGate({
    store,
    changes,
    permits: createPermitService({
      store,
      runtime: systemRuntime,
      self: systemProcess,
      isConfirmed: async () => true,
    }),
    newId: systemRuntime.newId,
    now: systemRuntime.now,
    settings: () => compileApprovals({}),
    toView: ({ caller, args, ...rest }) => ({ ...rest, ...caller, args, user: "", masked: [], warnings: [] }),
    answer: async () => {},
    expire: async (_, reason) => void expired.push(reason),
    recordRequest: async () => {},
    onProblem: (problem) => problems.push(problem),
  });
  /** The call, and the id of what it waits for. */
  async function calling(signal: AbortSignal) {
    const ask: LiveChannels["ask"] = (approval, over) => {
      asked(approval);
      return new Promise((_, reject) => over.addEventListener("abort", () => reject(new Error("gone"))));
    };
    const obtaining = gatekeeper.obtain(request, { ask, signal });
    obtaining.catch(() => {});
    await vi.waitFor(() => expect(asked).toHaveBeenCalled());
    return { obtaining, id: String(asked.mock.lastCall?.[0].id) };
  }
  const executor = { id: "another", pid: 1, host: "there", leaseUntil: new Date(Date.now() + 60_000) };
  async function claimedElsewhere(id: string) {
    const at = new Date().toISOString();
    // Both before the gatekeeper looks again: in one process nothing comes between two statements of SQLite.
    const both = [store.answer(id, { decision: "approved", by: "ann", via: "cli", at }, []), store.claim(id, executor)];
    expect(await Promise.all(both)).toEqual([true, true]);
    const looked = vi.spyOn(store, "get");
    changes.notify(id);
    // It has seen who has it, and looks again.
    await vi.waitFor(() => expect(looked.mock.calls.length).toBeGreaterThan(1));
  }
  return { store, changes, gatekeeper, problems, expired, executor, calling, claimedElsewhere };
}

const done: Outcome = { status: "done", callId: "call", action: pay.name, data: 5, value: "5", durationMs: 1 };

test("whoever waits for a person gets the outcome, too, where another process is faster to run the call", async () => {
  const { store, changes, executor, calling, claimedElsewhere } = await opened();
  const { obtaining, id } = await calling(new AbortController().signal);

  await claimedElsewhere(id);
  await store.begin(id, executor.id, new Date());
  await store.finish(id, executor.id, { at: new Date(), outcome: done });
  changes.notify(id);

  expect(await obtaining).toMatchObject({ kind: "ended", outcome: done });
});

test("what another process lets go of before it began is run by whoever waits", async () => {
  const { store, changes, executor, calling, claimedElsewhere } = await opened();
  const { obtaining, id } = await calling(new AbortController().signal);

  await claimedElsewhere(id);
  await store.release(id, executor.id);
  changes.notify(id);

  expect(await obtaining).toMatchObject({ kind: "permit", permit: { approval: { id } } });
});

test("when nobody is waited for any more, the call is answered and the question stays", async () => {
  const { store, gatekeeper, expired, problems, calling } = await opened();
  const { obtaining, id } = await calling(new AbortController().signal);

  gatekeeper.close();

  expect(await obtaining).toMatchObject({ kind: "waiting", approval: { id, state: "pending" } });
  expect(await store.get(id)).toMatchObject({ state: "pending" });
  expect(await gatekeeper.obtain(request, { ask: () => new Promise(() => {}) })).toMatchObject({ kind: "waiting" });
  expect([expired, problems]).toEqual([[], []]);
});

test("a caller who leaves takes the question along, which is no problem of the channel", async () => {
  const { expired, problems, calling } = await opened();
  const leaving = new AbortController();
  const { obtaining } = await calling(leaving.signal);

  leaving.abort();

  await expect(obtaining).rejects.toMatchObject({ code: "cancelled" });
  expect([expired, problems]).toEqual([["the caller cancelled the call"], []]);
});
