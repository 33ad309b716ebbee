import { afterEach, describe, expect, test } from "vitest";
import type { EventType, NewEvent } from "../core/events.ts";
import { openSqliteStore, type Store } from "../store/open-store.ts";
import { readRecorded } from "./read-recorded.ts";

const open: Store[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((store) => store.close()));
});

interface Line {
  readonly type: EventType;
  readonly data: unknown;
  readonly session?: string;
  readonly turn?: string;
  readonly user?: string;
}

async function ledgerWith(lines: readonly Line[]) {
  const store = await openSqliteStore(":memory:", { now: () => new Date() });
  open.push(store);
  const at = new Date("2026-05-04T10:00:00Z");
  await store.events.append(lines.map((line) => ({ at, session: "s", actor: "clerk", ...line }) as NewEvent));
  return store.events;
}

const received = (callId: string, more: object = {}) =>
  ({ type: "call.received", data: { callId, asked: "a", via: "flat", args: {}, ...more } }) as const;
const decided = (callId: string, more: object = {}) =>
  ({
    type: "call.decided",
    data: { callId, action: "tool__a", definition: "d", decision: "allow", policyVersion: "p", ...more },
  }) as const;
const ended = (callId: string, more: object = {}) =>
  ({ type: "call.ended", data: { callId, status: "done", durationMs: 3, bytes: 4, result: 1, ...more } }) as const;

describe("reading calls out of the ledger", () => {
  test("collects the events of a call over several pages", async () => {
    const ids = Array.from({ length: 700 }, (_, index) => `c${index}`);
    const ledger = await ledgerWith(ids.flatMap((id) => [received(id), decided(id), ended(id)]));

    const { calls, session } = await readRecorded(ledger, { session: "s" });

    expect(session).toBe("s");
    expect(calls.map(({ callId }) => callId)).toEqual(ids);
    expect(calls.every(({ decisions, end }) => decisions.length === 1 && end?.result === 1)).toBe(true);
  });

  test("reads the caller, with all user facts if they were recorded", async () => {
    const ledger = await ledgerWith([
      { ...received("c1", { user: { id: "u", tier: "gold" } }), turn: "t", user: "u" },
      { ...received("c2"), user: "u" },
      { ...received("c3", { user: { id: "u", ssn: "[redacted]" } }), user: "u" },
    ]);

    const { calls } = await readRecorded(ledger, { session: "s" });

    expect(calls.map(({ caller }) => caller)).toEqual([
      { actor: "clerk", session: "s", turn: "t", user: { id: "u", tier: "gold" } },
      { actor: "clerk", session: "s", user: { id: "u" } },
      { actor: "clerk", session: "s", user: { id: "u", ssn: "[redacted]" } },
    ]);
    expect(calls.map(({ lacks }) => lacks)).toEqual([
      undefined,
      "only the id of the user was recorded",
      "user facts were redacted",
    ]);
  });

  test.each([
    ["a secret", { a: [{ b: "Bearer [redacted]" }] }],
    ["the end of a text", { a: "abc… [cut: 9000 characters in all]" }],
    ["the rest of a list", { a: [1, "[cut: 7 more]"] }],
    ["fields", { "…": "[cut: 3 more]" }],
    ["what is too deep", { a: "[too deep]" }],
    ["a cycle", { a: "[cycle]" }],
  ])("detects that %s was redacted in the arguments", async (_what, args) => {
    const ledger = await ledgerWith([received("c1", { args }), received("c2", { args: { a: "too deep, a cycle" } })]);

    const { calls } = await readRecorded(ledger, { session: "s" });

    expect(calls.map(({ lacks }) => lacks)).toEqual(["arguments were redacted", undefined]);
  });

  test("reads the answers of approvers, which have no turn", async () => {
    const about = { callId: "c1", approvalId: "a1", action: "tool__a" };
    const ledger = await ledgerWith([
      { ...received("c1"), turn: "t" },
      { ...decided("c1", { decision: "ask" }), turn: "t" },
      { type: "call.suspended", data: about, turn: "t" },
      { ...received("c2"), turn: "t2" },
      { type: "approval.decided", data: { ...about, decision: "approved", by: "ann", via: "cli" } },
      { type: "call.resumed", data: { ...about, executor: "x" } },
      ended("c1"),
    ]);

    const { calls } = await readRecorded(ledger, { turn: "t" });

    expect(calls).toMatchObject([
      {
        callId: "c1",
        approval: { id: "a1", answer: { decision: "approved", by: "ann" }, resumed: true },
        end: { status: "done" },
      },
    ]);
  });

  test("ignores invalid events and prototype keys", async () => {
    const ledger = await ledgerWith([
      { type: "call.received", data: "tampered" },
      { type: "call.ended", data: { callId: "never received", status: "done" } },
      received("c1", JSON.parse('{"__proto__": {"args": 1}, "args": {"__proto__": {"polluted": true}}}')),
      decided("c1", { decision: 7, usage: { 'session:"s"': "[redacted]", b: { calls: "x", ms: 1, bytes: -1 } } }),
      ended("c1", { status: ["done"], code: "toString", durationMs: "long" }),
    ]);

    const { calls } = await readRecorded(ledger, { session: "s" });

    expect(calls).toHaveLength(1);
    expect(calls[0]?.decisions[0]).toMatchObject({
      decision: "deny",
      usage: new Map([["b", { calls: 0, ms: 1, bytes: 0 }]]),
    });
    expect(calls[0]?.end).toEqual({ status: "failed", durationMs: 0, bytes: 4, result: 1, isPartial: false });
    expect({}).not.toHaveProperty("polluted");
  });

  test("refuses an empty query, and a turn of several sessions", async () => {
    const ledger = await ledgerWith([
      { ...received("c1"), turn: "t" },
      { ...received("c2"), turn: "t", session: "other" },
    ]);

    await expect(readRecorded(ledger, { session: "none" })).rejects.toMatchObject({ code: "not_found" });
    await expect(readRecorded(ledger, { turn: "none" })).rejects.toMatchObject({ code: "not_found" });
    await expect(readRecorded(ledger, {} as never)).rejects.toMatchObject({ code: "invalid_arguments" });
    await expect(readRecorded(ledger, { turn: "t" })).rejects.toMatchObject({
      code: "invalid_arguments",
      details: { sessions: ["s", "other"] },
    });
    expect((await readRecorded(ledger, { turn: "t", session: "other" })).calls).toHaveLength(1);
  });
});
