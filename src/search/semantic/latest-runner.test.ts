import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createLatestRunner } from "./latest-runner.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("runs the last of several requests, once they have settled", async () => {
  const done: string[] = [];
  const background = createLatestRunner(100, async (wanted: string) => done.push(wanted));

  background.schedule("a");
  await vi.advanceTimersByTimeAsync(99);
  background.schedule("b");
  await vi.advanceTimersByTimeAsync(99);
  expect(done).toEqual([]);
  await vi.advanceTimersByTimeAsync(1);

  expect(done).toEqual(["b"]);
});

test("starts after a maximum delay if requests keep coming", async () => {
  const steps: string[] = [];
  const start = Date.now();
  const background = createLatestRunner(250, async (wanted: number, isOutdated) => {
    steps.push(`${wanted} at ${Date.now() - start}`);
    for (let round = 0; round < 4 && !isOutdated(); round++) await new Promise((done) => setTimeout(done, 1_000));
    steps.push(`${wanted} ${isOutdated() ? "outdated" : "done"}`);
  });

  for (let at = 0; at < 75; at++) {
    background.schedule(at);
    await vi.advanceTimersByTimeAsync(200);
  }

  expect(steps).toEqual(["24 at 5000", "24 done", "49 at 10000", "49 done", "74 at 15000"]);
});

test("does not retry failed work after a newer request", async () => {
  const begun: string[] = [];
  const start = Date.now();
  const background = createLatestRunner(100, async (wanted: string) => {
    begun.push(`${wanted} at ${Date.now() - start}`);
    await new Promise((done) => setTimeout(done, 150));
    if (wanted === "broken") throw new Error("failed");
  });

  background.schedule("broken");
  await vi.advanceTimersByTimeAsync(200);
  background.schedule("fine");
  await vi.advanceTimersByTimeAsync(60); // the first has failed meanwhile
  background.schedule("finer");
  await vi.advanceTimersByTimeAsync(200_000);

  expect(begun).toEqual(["broken at 100", "finer at 360"]);
});

test("marks running work as outdated, and starts after it has ended", async () => {
  const steps: string[] = [];
  const background = createLatestRunner(100, async (wanted: string, isOutdated) => {
    steps.push(`${wanted} in`);
    for (let round = 0; round < 10 && !isOutdated(); round++) await new Promise((done) => setTimeout(done, 1_000));
    steps.push(`${wanted} ${isOutdated() ? "outdated" : "done"}`);
  });

  for (const wanted of ["a", "b", "c"]) {
    background.schedule(wanted);
    await vi.advanceTimersByTimeAsync(150); // begun, while the first is still under way
  }
  await vi.advanceTimersByTimeAsync(20_000);

  expect(steps).toEqual(["a in", "a outdated", "c in", "c done"]);
});

test("retries failed work with growing delays until a newer request", async () => {
  const begun: number[] = [];
  const start = Date.now();
  const background = createLatestRunner(0, async (wanted: string) => {
    if (wanted === "fine") return;
    begun.push((Date.now() - start) / 1_000);
    throw new Error("failed");
  });

  background.schedule("broken");
  await vi.advanceTimersByTimeAsync(1_200_000);
  expect(begun).toEqual([0, 30, 90, 210, 450, 750, 1050]);
  background.schedule("fine");
  await vi.advanceTimersByTimeAsync(1_200_000);

  expect(begun).toHaveLength(7);
});

test("drops the request on cancel, and waits for running work", async () => {
  const done: string[] = [];
  const background = createLatestRunner(0, async (wanted: string, isOutdated) => {
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    done.push(`${wanted} ${isOutdated()}`);
    throw new Error("also when it fails");
  });

  background.schedule("a");
  await vi.advanceTimersByTimeAsync(1);
  background.schedule("b");
  const forgotten = background.cancel();
  await vi.advanceTimersByTimeAsync(100_000);
  await forgotten;

  expect(done).toEqual(["a true"]);
});
