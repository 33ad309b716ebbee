import { describe, expect, onTestFinished, test, vi } from "vitest";
import { Mutex, onAbort, raceAbort, repeatEvery, settlesWithin, withTimeout } from "./async.ts";

const never = new Promise<never>(() => {});
const countTimers = () => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
const timeoutError = () => new Error("too late");

describe("withTimeout", () => {
  test("returns the result of the work and leaves no timer", async () => {
    const before = countTimers();

    expect(await withTimeout({ ms: 60_000, timeoutError }, async () => "done")).toBe("done");
    expect(countTimers()).toBe(before);
  });

  test("rejects when the time is up, and aborts the signal of the work", async () => {
    let signal: AbortSignal | undefined;
    const work = (inner: AbortSignal) => {
      signal = inner;
      return never;
    };

    await expect(withTimeout({ ms: 1, timeoutError }, work)).rejects.toThrow("too late");
    expect(signal?.reason).toEqual(new Error("too late"));
  });

  test("rejects with the reason of the outer signal, or with the error made of it", async () => {
    const controller = new AbortController();
    const limit = { ms: 60_000, timeoutError, signal: controller.signal };
    const plain = withTimeout(limit, () => never);
    const own = withTimeout({ ...limit, abortError: () => new Error("cancelled") }, () => never);
    controller.abort(new Error("outer"));

    await expect(plain).rejects.toThrow("outer");
    await expect(own).rejects.toThrow("cancelled");
  });

  test("does not start the work if the outer signal has aborted", async () => {
    let isStarted = false;
    const limit = { ms: 60_000, timeoutError, signal: AbortSignal.abort(new Error("outer")) };
    const work = () => {
      isStarted = true;
    };

    await expect(withTimeout(limit, work)).rejects.toThrow("outer");
    expect(isStarted).toBe(false);
  });

  test("rejects when the work throws before its first await", async () => {
    const work = () => {
      throw new Error("at once");
    };

    await expect(withTimeout({ ms: 60_000, timeoutError }, work)).rejects.toThrow("at once");
  });
});

describe("onAbort", () => {
  test("calls the listener at once if the signal has aborted", () => {
    const reasons: unknown[] = [];
    onAbort(AbortSignal.abort("why"), (reason) => reasons.push(reason));

    expect(reasons).toEqual(["why"]);
  });

  test("does not call a removed listener", () => {
    const controller = new AbortController();
    const reasons: unknown[] = [];
    onAbort(controller.signal, (reason) => reasons.push(reason))();
    controller.abort("why");

    expect(reasons).toEqual([]);
  });
});

test("raceAbort settles as the work does without a signal", async () => {
  await expect(raceAbort(Promise.resolve(1), undefined)).resolves.toBe(1);
  await expect(raceAbort(never, AbortSignal.abort(new Error("stop")))).rejects.toThrow("stop");
});

describe("settlesWithin", () => {
  test("tells whether the work settles in time, also when it fails", async () => {
    expect(await settlesWithin(Promise.resolve(), 60_000)).toBe(true);
    expect(await settlesWithin(Promise.reject(new Error()), 60_000)).toBe(true);
    expect(await settlesWithin(never, 1)).toBe(false);
  });

  test("leaves no timer that would keep the process alive", async () => {
    const before = countTimers();
    await settlesWithin(Promise.resolve(), 60_000);

    expect(countTimers()).toBe(before);
  });
});

describe("Mutex", () => {
  test("runs one piece of work at a time, in the order of the calls", async () => {
    const mutex = new Mutex();
    const steps: string[] = [];
    const work = (name: string) => async () => {
      steps.push(`${name} in`);
      await new Promise((resolve) => setImmediate(resolve));
      steps.push(`${name} out`);
    };

    await Promise.all([mutex.run(work("a")), mutex.run(work("b"))]);

    expect(steps).toEqual(["a in", "a out", "b in", "b out"]);
  });

  test("goes on after an error, which rejects only the caller that caused it", async () => {
    const mutex = new Mutex();

    const failing = mutex.run(() => Promise.reject(new Error("mine")));
    const next = mutex.run(() => "fine");

    await expect(failing).rejects.toThrow("mine");
    await expect(next).resolves.toBe("fine");
  });
});

describe("repeatEvery", () => {
  test("runs at the start, after each pause, and at once when nudged, one run at a time", async () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const ends: (() => void)[] = [];
    const work = vi.fn(() => new Promise<void>((resolve) => void ends.push(resolve)));
    let ms = 100;
    const { start, nudge, close } = repeatEvery(() => ms, work);
    const endRun = async () => {
      ends.shift()?.();
      await vi.advanceTimersByTimeAsync(0);
    };

    nudge();
    expect(work).toHaveBeenCalledTimes(0);
    start();
    nudge();
    expect(work).toHaveBeenCalledTimes(1);
    await endRun();
    await vi.advanceTimersByTimeAsync(99);
    expect(work).toHaveBeenCalledTimes(1);
    await vi.advanceTimersByTimeAsync(1);
    expect(work).toHaveBeenCalledTimes(2);
    ms = 1_000;
    await endRun();
    await vi.advanceTimersByTimeAsync(999);
    nudge();
    expect(work).toHaveBeenCalledTimes(3);
    const closed = close();
    await endRun();
    await closed;
    nudge();
    await vi.advanceTimersByTimeAsync(5_000);
    expect(work).toHaveBeenCalledTimes(3);
  });
});
