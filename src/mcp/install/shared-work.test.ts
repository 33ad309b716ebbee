import { expect, test } from "vitest";
import { createSharedWork } from "./server-registry.ts";

function pending() {
  const signals: AbortSignal[] = [];
  const ends: ((value: string) => void)[] = [];
  const work = createSharedWork((signal) => {
    signals.push(signal);
    return new Promise<string>((resolve) => void ends.push(resolve));
  });
  return { work, signals, ends };
}

test("shares running work with later callers, and starts it again after its end", async () => {
  const { work, signals, ends } = pending();

  const both = [work(), work()];
  ends[0]?.("done");
  expect(await Promise.all(both)).toEqual(["done", "done"]);
  const later = work();
  ends[1]?.("again");

  expect(await later).toBe("again");
  expect(signals).toHaveLength(2);
});

test("continues when one caller leaves, and stops when the last one does", async () => {
  const { work, signals } = pending();
  const [first, second] = [new AbortController(), new AbortController()];
  const waiting = [work(first.signal), work(second.signal)];

  first.abort(new Error("first left"));
  await expect(waiting[0]).rejects.toThrow("first left");
  expect(signals[0]?.aborted).toBe(false);
  second.abort(new Error("second left"));
  await expect(waiting[1]).rejects.toThrow("second left");

  expect(signals[0]?.aborted).toBe(true);
  await expect(work(AbortSignal.abort(new Error("too late")))).rejects.toThrow("too late");
  expect(signals).toHaveLength(1);
});
