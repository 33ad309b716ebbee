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

/** A gate over a real store whose person never answers, and another process that may be faster. */
async function opened() {
  const db = await openSqlite(":memory:");
  onTestFinished(() => db.close());
  await migrate(db);
  const store = createSqlApprovalStore(db);
  const changes = createApprovalWatcher(store);
  const problems: string[] = [];
  const expired: string[] = [];
  const asked = vi.fn();
  const gate = createApprovalGate({
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
    readFiles: async () => ({ parts: [] }),
    answer: async () => {},
    expire: async (_, reason) => void expired.push(reason),
    recordRequest: async () => {},
    onProblem: (problem) => problems.push(problem),
  });
  /** The call, and the id of its approval. */
  async function calling(signal: AbortSignal) {
    const ask: LiveChannels["ask"] = (approval, over) => {
      asked(approval);
      return new Promise((_, reject) => over.addEventListener("abort", () => reject(new Error("gone"))));
    };
    const obtaining = gate.obtain(request, { ask, signal });
    obtaining.catch(() => {});
    await vi.waitFor(() => expect(asked).toHaveBeenCalled());
    return { obtaining, id: String(asked.mock.lastCall?.[0].id) };
  }
  const executor = { id: "another", pid: 1, host: "there", leaseUntil: new Date(Date.now() + 60_000) };
  async function claimedElsewhere(id: string) {
    const at = new Date().toISOString();
    // Both before the gate polls again: in one process, nothing runs between two SQLite statements.
    const both = [store.answer(id, { decision: "approved", by: "ann", via: "cli", at }, []), store.claim(id, executor)];
    expect(await Promise.all(both)).toEqual([true, true]);
    const looked = vi.spyOn(store, "get");
    changes.notify(id);
    // The gate has seen the executor and polls again.
    await vi.waitFor(() => expect(looked.mock.calls.length).toBeGreaterThan(1));
  }
  return { store, changes, gate, problems, expired, executor, calling, claimedElsewhere };
}

const done: Outcome = { status: "done", callId: "call", action: pay.name, data: 5, value: "5", durationMs: 1 };

test("returns the outcome to a waiting caller when another process runs the call", async () => {
  const { store, changes, executor, calling, claimedElsewhere } = await opened();
  const { obtaining, id } = await calling(new AbortController().signal);

  await claimedElsewhere(id);
  await store.begin(id, executor.id, new Date());
  await store.finish(id, executor.id, { at: new Date(), outcome: done });
  changes.notify(id);

  expect(await obtaining).toMatchObject({ kind: "ended", outcome: done });
});

test("a waiting caller runs a call that another process released", async () => {
  const { store, changes, executor, calling, claimedElsewhere } = await opened();
  const { obtaining, id } = await calling(new AbortController().signal);

  await claimedElsewhere(id);
  await store.release(id, executor.id);
  changes.notify(id);

  expect(await obtaining).toMatchObject({ kind: "permit", permit: { approval: { id } } });
});

test("returns waiting when the gate closes, and leaves the question open", async () => {
  const { store, gate, expired, problems, calling } = await opened();
  const { obtaining, id } = await calling(new AbortController().signal);

  gate.close();

  expect(await obtaining).toMatchObject({ kind: "waiting", approval: { id, state: "pending" } });
  expect(await store.get(id)).toMatchObject({ state: "pending" });
  expect(await gate.obtain(request, { ask: () => new Promise(() => {}) })).toMatchObject({ kind: "waiting" });
  expect([expired, problems]).toEqual([[], []]);
});

test("expires the question when the caller leaves, without reporting a channel problem", async () => {
  const { expired, problems, calling } = await opened();
  const leaving = new AbortController();
  const { obtaining } = await calling(leaving.signal);

  leaving.abort();

  await expect(obtaining).rejects.toMatchObject({ code: "cancelled" });
  expect([expired, problems]).toEqual([["the caller cancelled the call"], []]);
});
