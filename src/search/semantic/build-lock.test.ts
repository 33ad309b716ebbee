import { afterEach, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import type { ProcessInfo } from "../../core/runtime.ts";
import { openSqliteStore } from "../../store/open-store.ts";
import { type LockStore, withBuildLock } from "./vector-build.ts";

const here: ProcessInfo = { pid: 1, host: "here", isAlive: () => true };
const never = new AbortController().signal;
let clock = 0;
let ids = 0;
const runtime = { now: () => new Date(clock), elapsed: () => clock, newId: () => `id-${ids++}` };

beforeEach(() => {
  clock = Date.UTC(2026, 0, 1);
});
afterEach(() => void vi.useRealTimers());

test("runs one work at a time", async () => {
  const locks = await openLocks();
  const steps: string[] = [];
  const work = (name: string) => async () => {
    steps.push(`${name} in`);
    await new Promise((resolve) => setTimeout(resolve, 20));
    steps.push(`${name} out`);
  };

  await Promise.all(["a", "b", "c"].map((name) => locked(locks, work(name))));

  expect(steps.map((step) => step.slice(-3).trim())).toEqual(["in", "out", "in", "out", "in", "out"]);
});

test("uses the result of another process without working", async () => {
  const locks = await openLocks();
  const work = vi.fn(async () => "mine");
  let made: string | undefined;
  await locks.take("l", { id: "other", pid: 2, host: "here", leaseUntil: new Date(clock + 1) }, () => false);

  const answer = locked(locks, work, { done: async () => made });
  made = "the other's";

  expect(await answer).toBe("the other's");
  expect(work).not.toHaveBeenCalled();
});

test("releases the lock if the work fails", async () => {
  const locks = await openLocks();

  await expect(locked(locks, () => Promise.reject(new Error("broken")))).rejects.toThrow("broken");

  expect(await locked(locks, async () => "next")).toBe("next");
});

test("takes over at once from a dead process of this host, and from others after their lease", async () => {
  const locks = await openLocks();
  const self = { ...here, isAlive: (pid: number) => pid === 1 };
  const lease = { pid: 2, leaseUntil: new Date(clock + 10_000) };
  await locks.take("dead", { id: "dead", host: "here", ...lease }, () => false);
  await locks.take("elsewhere", { id: "elsewhere", host: "there", ...lease }, () => false);

  expect(await locked(locks, async () => "taken over", { self, name: "dead" })).toBe("taken over");
  const waiting = vi.fn(async () => "after its lease");
  const answer = locked(locks, waiting, { self, name: "elsewhere", done: asked(3, () => (clock += 9_999)) });
  await expect.poll(() => clock).toBe(Date.UTC(2026, 0, 1) + 9_999);
  expect(waiting).not.toHaveBeenCalled();
  clock += 1;

  expect(await answer).toBe("after its lease");
});

test("ignores a lease that is far too long", async () => {
  const locks = await openLocks();
  const lease = (ahead: number) => ({ pid: 2, host: "there", leaseUntil: new Date(clock + ahead) });
  await locks.take("ahead", { id: "wrong clock", ...lease(30_001) }, () => false);
  await locks.take("near", { id: "another clock", ...lease(30_000) }, () => false);
  const waiting = vi.fn(async () => "too early");

  expect(await locked(locks, async () => "taken over", { name: "ahead" })).toBe("taken over");
  expect(await locked(locks, waiting, { name: "near", done: async () => "waited" })).toBe("waited");
  expect(waiting).not.toHaveBeenCalled();
});

test("renews its lease while it works", async () => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  const locks = await openLocks();
  let end = (_answer: string): void => {};
  const working = locked(locks, () => new Promise<string>((resolve) => (end = resolve)));
  await settled();

  for (let step = 0; step < 10; step++) {
    clock += 5_000;
    await vi.advanceTimersByTimeAsync(5_000);
    await settled();
  }

  const seen = vi.fn((other: { leaseUntil: Date }) => other.leaseUntil.getTime() <= clock);
  expect(await locks.take("l", { id: "x", pid: 3, host: "there", leaseUntil: new Date() }, seen)).toBe(false);
  end("done");
  expect(await working).toBe("done");
});

test("stops the work if the lock was taken over, and waits for the other result", async () => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  const locks = await openLocks();
  const stopped = vi.fn();
  let made: string | undefined;
  const work = (signal: AbortSignal) =>
    new Promise<string>((_, reject) => {
      signal.addEventListener("abort", () => {
        stopped();
        reject(signal.reason);
      });
    });
  const working = locked(locks, work, { done: async () => made });
  await settled();

  const other = { id: "other", pid: 2, host: "there", leaseUntil: new Date(clock + 15_000) };
  expect(await locks.take("l", other, () => true)).toBe(true);
  await vi.advanceTimersByTimeAsync(5_000);
  await expect.poll(() => stopped.mock.calls.length).toBe(1);
  made = "the other's";

  expect(await working).toBe("the other's");
  expect(await locks.renew("l", other)).toBe(true);
});

test("stops waiting and working on abort", async () => {
  const locks = await openLocks();
  const caller = new AbortController();
  const work = (signal: AbortSignal) =>
    new Promise<string>((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));

  const both = [locked(locks, work, { signal: caller.signal }), locked(locks, work, { signal: caller.signal })];
  await settled();
  caller.abort(new Error("enough"));

  await Promise.all(both.map((each) => expect(each).rejects.toThrow("enough")));
  expect(await locked(locks, async () => "free")).toBe("free");
});

async function openLocks(): Promise<LockStore> {
  const store = await openSqliteStore(":memory:", { now: runtime.now });
  onTestFinished(() => store.close());
  return store.locks;
}

type Options = Partial<Omit<Parameters<typeof withBuildLock<string>>[0], "locks">>;

function locked<T>(locks: LockStore, work: (signal: AbortSignal) => Promise<T>, options: Options = {}) {
  const done = async () => undefined;
  return withBuildLock<unknown>({ locks, name: "l", runtime, self: here, signal: never, done, ...options }, work);
}

/** Answers nothing, and does something the nth time. */
function asked(nth: number, then: () => void) {
  let times = 0;
  return async () => {
    if (++times === nth) then();
    return undefined;
  };
}

async function settled(): Promise<void> {
  for (let round = 0; round < 50; round++) await new Promise((resolve) => setImmediate(resolve));
}
