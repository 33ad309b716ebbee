import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { ActionUse } from "./usage-tracker.ts";
import { type ActionUseStore, createUsageTracker } from "./usage-tracker.ts";

const at = new Date("2026-01-01T00:00:00Z");
const caller = { actor: "a", session: "s" };

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("writes a moment later, in one batch", async () => {
  const { tracker, added } = tracking();
  for (const action of ["x", "y", "x"]) tracker.recordUse(caller, action);
  expect(added).toEqual([]);

  await vi.advanceTimersByTimeAsync(1000);

  const uses = [
    { action: "x", weight: 2, at },
    { action: "y", weight: 1, at },
  ];
  expect(added).toEqual([['[null,"a"]', uses]]);
});

test("separates tenants and actors, not sessions", async () => {
  const { tracker, added } = tracking();
  tracker.recordUse({ actor: "a", session: "1" }, "x");
  tracker.recordUse({ actor: "a", session: "2" }, "x");
  tracker.recordUse({ actor: "b", session: "1" }, "x");
  tracker.recordUse({ actor: "a", session: "1", tenant: "t" }, "x");

  await tracker.close();

  expect(added.map(([owner, uses]) => [owner, uses[0]?.weight])).toEqual([
    ['[null,"a"]', 2],
    ['[null,"b"]', 1],
    ['["t","a"]', 1],
  ]);
});

test("writes pending uses before reading and when closing", async () => {
  const { tracker, added } = tracking();
  tracker.recordUse(caller, "x");
  expect(await tracker.readUses(caller)).toEqual([{ action: "x", weight: 1, at }]);

  tracker.recordUse(caller, "y");
  await tracker.close();

  expect(added).toHaveLength(2);
  expect(vi.getTimerCount()).toBe(0);
});

test("reports a failed write and goes on", async () => {
  const { tracker, added, problems, fail } = tracking();
  fail(new Error("disk full"));
  tracker.recordUse(caller, "x");
  await vi.advanceTimersByTimeAsync(1000);
  fail(undefined);
  tracker.recordUse(caller, "y");
  await tracker.close();

  expect(problems).toEqual(["uses could not be counted: disk full"]);
  expect(added).toEqual([['[null,"a"]', [{ action: "y", weight: 1, at }]]]);
});

function tracking() {
  const added: [string, readonly ActionUse[]][] = [];
  const problems: string[] = [];
  let failure: Error | undefined;
  const store: ActionUseStore = {
    read: async (owner) => added.filter(([each]) => each === owner).flatMap(([, uses]) => uses),
    async add(owner, uses) {
      if (failure !== undefined) throw failure;
      added.push([owner, uses]);
    },
  };
  const tracker = createUsageTracker(
    store,
    () => at,
    (problem) => problems.push(problem),
  );
  const fail = (error: Error | undefined): void => {
    failure = error;
  };
  return { tracker, added, problems, fail };
}
