import { expect, test } from "vitest";
import { type ActionUse, decayWeight, HALF_LIFE_MS, mergeUses } from "./usage-tracker.ts";

const start = new Date("2026-01-01T00:00:00Z");
const after = (halfLives: number) => new Date(start.getTime() + halfLives * HALF_LIFE_MS);

test.each([
  [0, 8],
  [1, 4],
  [3, 1],
  [0.5, 8 * Math.SQRT1_2],
  [-1, 8],
])("after %s half-lives, %s of eight uses are left", (halfLives, left) => {
  expect(decayWeight({ weight: 8, at: start }, after(halfLives))).toBeCloseTo(left, 12);
});

test("a half-life is seven days", () => {
  expect(decayWeight({ weight: 1, at: start }, new Date("2026-01-08T00:00:00Z"))).toBe(0.5);
});

test("adds the weights of two uses in any order", () => {
  const old: ActionUse = { action: "a", weight: 4, at: start };
  const recent: ActionUse = { action: "a", weight: 1, at: after(1) };

  expect(mergeUses(old, recent)).toEqual({ action: "a", weight: 3, at: after(1) });
  expect(mergeUses(recent, old)).toEqual(mergeUses(old, recent));
  expect(decayWeight(mergeUses(old, recent), after(2))).toBe(
    decayWeight(old, after(2)) + decayWeight(recent, after(2)),
  );
});
