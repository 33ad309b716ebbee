import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { QmError } from "../core/errors.ts";
import { runWithRetries, startTask } from "./running-tasks.ts";
import { readCode } from "./testing.ts";

const createCancelError = () => new QmError("cancelled", "stopped");
const passing = new QmError("overloaded", "later");
const fails = (error: unknown) => async () => {
  throw error;
};

describe("a task", () => {
  test("returns the result of sync or async work", async () => {
    const task = startTask({ createCancelError });

    expect(await task.race(() => 1)).toBe(1);
    expect(await task.race(async () => 2)).toBe(2);
    await expect(task.race(() => expect.fail("at once"))).rejects.toThrow("at once");
  });

  test("rejects when it is stopped, even if the work ignores the signal", async () => {
    const outer = new AbortController();
    const task = startTask({ outer: outer.signal, createCancelError });
    const work = task.race(() => new Promise(() => {}));

    outer.abort();

    expect(await readCode(work)).toBe("cancelled");
    expect(task.controller.reason).toMatchObject({ code: "cancelled", message: "stopped" });
  });

  test("does not start work once stopped", async () => {
    const task = startTask({ outer: AbortSignal.abort(), createCancelError });

    expect(await readCode(task.race(() => expect.fail("began")))).toBe("cancelled");
  });

  test("keeps the first reason", () => {
    const task = startTask({ createCancelError });

    task.stop(new QmError("timed_out", "late"));
    task.stop(createCancelError());

    expect(task.controller.reason).toMatchObject({ code: "timed_out" });
  });

  test("removes its listener from the outer signal", () => {
    const outer = new AbortController();
    const { end, controller } = startTask({ outer: outer.signal, createCancelError });

    end();
    outer.abort();

    expect(controller.aborted).toBe(false);
  });
});

describe("tries", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  test("have pauses that double up to thirty seconds", async () => {
    const pauses: number[] = [];
    const work = runWithRetries(startTask({ createCancelError }), fails(passing), {
      retry: { attempts: 10, backoffMs: 200 },
      onFailure: (_failed, _error, delayMs) => pauses.push(delayMs) > 0,
    });
    const code = readCode(work);
    await vi.runAllTimersAsync();

    expect(await code).toBe("overloaded");
    expect(pauses).toEqual([200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000]);
  });

  test.each([
    ["what cannot go better", new QmError("action_failed", "no")],
    ["what was cancelled", new QmError("cancelled", "no")],
    ["what is no error of ours", new Error("no")],
    ["what is no error at all", { retryable: true, code: "overloaded" }],
  ])("are not repeated after %s", async (_what, error) => {
    const onFailure = vi.fn(() => true);
    const attempt = vi.fn(fails(error));

    await expect(
      runWithRetries(startTask({ createCancelError }), attempt, { retry: { attempts: 5 }, onFailure }),
    ).rejects.toBe(error);

    expect(attempt).toHaveBeenCalledTimes(1);
    expect(onFailure).not.toHaveBeenCalled();
  });

  test("end in a pause when stopped, and leave no timer", async () => {
    const outer = new AbortController();
    const attempt = vi.fn(fails(passing));
    const task = startTask({ outer: outer.signal, createCancelError });
    const code = readCode(runWithRetries(task, attempt, { retry: { attempts: 3 }, onFailure: () => true }));
    await vi.advanceTimersByTimeAsync(100);

    outer.abort();

    expect(await code).toBe("cancelled");
    expect(attempt).toHaveBeenCalledTimes(1);
    expect(vi.getTimerCount()).toBe(0);
  });

  test("share one deadline", async () => {
    const createLateError = () => new QmError("timed_out", "late");
    const task = startTask({ createCancelError, deadlineMs: 700, createLateError });
    const attempt = vi.fn(fails(passing));
    const code = readCode(
      runWithRetries(task, attempt, { retry: { attempts: 10, backoffMs: 200 }, onFailure: () => true }),
    );

    await vi.advanceTimersByTimeAsync(699);
    expect(attempt).toHaveBeenCalledTimes(3);
    await vi.advanceTimersByTimeAsync(1);

    expect(await code).toBe("timed_out");
    expect(vi.getTimerCount()).toBe(0);
  });
});
