import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { startDeadline } from "./runner.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("pauses during untimed work, also nested", async () => {
  const late = vi.fn();
  const { untimed } = startDeadline(100, late);
  const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

  vi.advanceTimersByTime(60);
  const waited = untimed(() => Promise.all([untimed(() => pause(500)), pause(1000)]));
  await vi.advanceTimersByTimeAsync(1000);
  await waited;

  vi.advanceTimersByTime(39);
  expect(late).not.toHaveBeenCalled();
  vi.advanceTimersByTime(1);
  expect(late).toHaveBeenCalledTimes(1);
});

test("rethrows errors of untimed work and resumes", async () => {
  const late = vi.fn();
  const { untimed } = startDeadline(100, late);

  await expect(untimed(() => Promise.reject(new Error("no")))).rejects.toThrow("no");

  vi.advanceTimersByTime(100);
  expect(late).toHaveBeenCalledTimes(1);
});

test("never fires once cleared", async () => {
  const late = vi.fn();
  const { untimed, clear } = startDeadline(100, late);

  const waited = untimed(async () => clear());
  await waited;

  vi.advanceTimersByTime(1000);
  expect(late).not.toHaveBeenCalled();
});
