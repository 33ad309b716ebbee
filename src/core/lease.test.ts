import { describe, expect, test, vi } from "vitest";
import { Lease, LeaseRenewal } from "./lease.ts";

const NOW = new Date("2026-01-01T00:00:00.000Z");
const plus = (ms: number) => new Date(NOW.getTime() + ms);
const lease = new Lease({
  runtime: { now: () => NOW, elapsed: () => 0, newId: () => "me" },
  self: { pid: 1, host: "here", isAlive: (pid) => pid === 1 },
  durationMs: 1000,
});

describe("a lease", () => {
  test("names this process and its end", () => {
    expect(lease.holder()).toEqual({ id: "me", pid: 1, host: "here", leaseUntil: plus(1000) });
  });

  test.each([
    ["on another host, not over", "there", 9, 500, false],
    ["on another host, over", "there", 9, 0, true],
    ["of a living process, not over", "here", 1, 500, false],
    ["of a living process, over: its number may be in use again", "here", 1, -1, true],
    ["of a process that is gone", "here", 9, 500, true],
    ["as long as a slow renewal leaves it", "there", 9, 2000, false],
    ["longer than anyone takes: the clock was corrected", "there", 9, 2001, true],
  ])("%s", (_title, host, pid, left, ended) => {
    expect(lease.hasEnded({ id: "other", host, pid, leaseUntil: plus(left) })).toBe(ended);
  });
});

describe("the renewal of a lease", () => {
  test("runs while something is held, and survives a failing store", async () => {
    vi.useFakeTimers();
    try {
      const renew = vi.fn(() => Promise.reject(new Error("the disk is full")));
      const renewal = new LeaseRenewal(100, renew);
      renewal.add("a");
      renewal.add("b");
      renewal.delete("a");
      await vi.advanceTimersByTimeAsync(250);
      expect(renew).toHaveBeenCalledTimes(2);

      renewal.delete("b");
      await vi.advanceTimersByTimeAsync(250);
      expect(renew).toHaveBeenCalledTimes(2);
    } finally {
      vi.useRealTimers();
    }
  });
});
