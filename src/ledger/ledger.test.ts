import { expect, onTestFinished, test, vi } from "vitest";
import { QmError } from "../core/errors.ts";
import type { NewEvent } from "../core/events.ts";
import { openSqliteStore } from "../store/open-store.ts";
import type { EventStore } from "./event-store.ts";
import { openLedger } from "./ledger.ts";
import { createEventRedactor } from "./redact.ts";

const redact = createEventRedactor();

test("flush resolves after everything recorded before is written", async () => {
  const { ledger } = await testLedger();

  ledger.record(received("one"));
  ledger.record(received("two"));
  await ledger.flush();

  expect(await ledger.read({ session: "s" })).toMatchObject([
    { seq: 1, data: { asked: "one" } },
    { seq: 2, data: { asked: "two" } },
  ]);
  expect(await ledger.verify()).toEqual({ sessions: 1, events: 2, broken: [] });
});

test("copies an event when it is recorded, without secrets", async () => {
  const { ledger } = await testLedger();
  const args = { path: "/tmp/x", password: "hunter2" };
  const event = received("x", args);

  ledger.record(event);
  args.path = "changed";
  event.at.setFullYear(1999);
  await ledger.flush();

  expect(await ledger.read({})).toMatchObject([
    { at: "2026-01-02T03:04:05.678Z", data: { args: { path: "/tmp/x", password: "[redacted]" } } },
  ]);
});

test("writes events in one batch, and those recorded meanwhile in the next", async () => {
  const { ledger, append } = await testLedger();

  const first = Array.from({ length: 32 }, async (_, at) => {
    ledger.record(received(`first ${at}`));
    await ledger.flush();
    ledger.record(received(`second ${at}`));
    await ledger.flush();
  });
  await Promise.all(first);

  expect(append.mock.calls.map(([events]) => events.length)).toEqual([32, 32]);
});

test("writes events that nobody waits for with those of a flush, so that a call that takes time costs one write", async () => {
  const { ledger, append } = await testLedger();
  vi.useFakeTimers({ toFake: ["setTimeout"] });
  onTestFinished(() => void vi.useRealTimers());

  ledger.record(received("begins"));
  for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve));
  ledger.record(received("ends"));
  await ledger.flush();

  expect(append.mock.calls.map(([events]) => events.length)).toEqual([2]);
});

test("writes events that nobody waits for after a while", async () => {
  const { ledger, append } = await testLedger();

  ledger.record(received("alone"));

  await vi.waitFor(() => expect(append).toHaveBeenCalledOnce());
});

test("writes many events in bounded batches, in order", async () => {
  const { ledger, append } = await testLedger();

  for (let at = 0; at < 1_200; at++) ledger.record(received(String(at)));
  await ledger.flush();

  expect(append.mock.calls.map(([events]) => events.length)).toEqual([512, 512, 176]);
  const asked = (await ledger.read({ limit: 2_000 })).map(({ data }) => Number((data as { asked: string }).asked));
  expect(asked).toEqual(Array.from({ length: 1_200 }, (_, at) => at));
});

test("flush resolves at once when nothing was recorded", async () => {
  const { ledger, append } = await testLedger();

  await ledger.flush();

  expect(append).not.toHaveBeenCalled();
});

test("rejects exactly the flushes of a failed batch, and goes on", async () => {
  const { ledger, append, onError } = await testLedger();
  const cause = new QmError("store_failed", "the disk is full", { hint: "Free some space." });
  append.mockRejectedValueOnce(cause);

  ledger.record(received("lost"));
  const failed = await Promise.allSettled([ledger.flush(), ledger.flush()]);
  ledger.record(received("kept"));
  await ledger.flush();

  const error = {
    code: "ledger_failed",
    message: expect.stringContaining("the disk is full"),
    hint: "Free some space.",
    cause,
  };
  expect(failed).toMatchObject([{ reason: error }, { reason: error }]);
  expect(onError).toHaveBeenCalledOnce();
  expect(await ledger.read({})).toMatchObject([{ seq: 1, data: { asked: "kept" } }]);
});

test("rejects a flush over two batches when the first fails", async () => {
  const { ledger, append } = await testLedger();
  let fail = () => {};
  append.mockImplementationOnce(() => new Promise((_, reject) => (fail = () => reject(new Error("late")))));

  ledger.record(received("lost"));
  await vi.waitFor(() => expect(append).toHaveBeenCalled());
  ledger.record(received("kept"));
  const waiting = ledger.flush();
  fail();

  await expect(waiting).rejects.toMatchObject({ code: "ledger_failed" });
  await ledger.flush();
  expect(await ledger.read({})).toMatchObject([{ data: { asked: "kept" } }]);
});

test("reports a loss only to the caller that recorded it, however late it flushes", async () => {
  const { ledger, append, onError } = await testLedger();
  append.mockRejectedValueOnce(new Error("gone"));

  const lost = ledger.record(received("lost"));
  await vi.waitFor(() => expect(onError).toHaveBeenCalled());
  const kept = ledger.record(received("kept"));

  await expect(ledger.flush(kept)).resolves.toBeUndefined();
  await expect(ledger.flush(lost)).rejects.toMatchObject({ code: "ledger_failed" });
  await expect(ledger.flush(lost)).rejects.toMatchObject({ code: "ledger_failed" });
  await expect(ledger.flush()).resolves.toBeUndefined();
});

test("close writes the rest and rejects further events", async () => {
  const { ledger } = await testLedger();

  ledger.record(received("last"));
  await ledger.close();

  expect(await ledger.read({})).toHaveLength(1);
  expect(() => ledger.record(received("late"))).toThrow("the ledger is closed: call.received was not recorded");
});

test("rejects an event with an invalid time before it can fail others", async () => {
  const { ledger } = await testLedger();

  expect(() => ledger.record({ ...received("x"), at: new Date(Number.NaN) })).toThrow("no valid time");

  ledger.record(received("good"));
  await expect(ledger.flush()).resolves.toBeUndefined();
});

async function testLedger() {
  const store = await openSqliteStore(":memory:", { now: () => new Date() });
  onTestFinished(() => store.close());
  const append = vi.fn<EventStore["append"]>(store.events.append);
  const onError = vi.fn<(error: QmError) => void>();
  const ledger = openLedger({ store: { ...store.events, append }, redact, onError });
  return { ledger, append, onError };
}

function received(asked: string, args: unknown = {}): NewEvent {
  const at = new Date("2026-01-02T03:04:05.678Z");
  return { type: "call.received", at, session: "s", data: { callId: "c", asked, via: "test", args } };
}
