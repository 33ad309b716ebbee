import { expect, test } from "vitest";
import { HALF_LIFE_MS } from "../../activation/usage-tracker.ts";
import type { View } from "../../catalog/view.ts";
import { selectHotActions } from "./shortcuts.ts";

const now = new Date("2026-01-31T00:00:00Z");
const ago = (halfLives: number) => new Date(now.getTime() - halfLives * HALF_LIFE_MS);
const seeing = (...names: string[]) => ({
  get: (name: string) => (names.includes(name) ? { name } : undefined),
});
const listed = (names: string[], uses: [string, number, number][], size: number, seed: string[] = []) =>
  selectHotActions(
    seeing(...names) as unknown as View,
    uses.map(([action, weight, halfLives]) => ({ action, weight, at: ago(halfLives) })),
    { size, seed },
    now,
  );

test("puts the most used actions first, by their current weight", () => {
  const uses: [string, number, number][] = [
    ["a__old", 6, 2],
    ["a__new", 2, 0],
    ["a__some", 3, 1],
  ];

  expect(listed(["a__old", "a__new", "a__some"], uses, 2)).toEqual(["a__new", "a__old"]);
});

test("orders equal weights by name", () => {
  const uses: [string, number, number][] = [
    ["b__x", 1, 0],
    ["a__x", 2, 1],
    ["c__x", 1, 0],
  ];

  expect(listed(["a__x", "b__x", "c__x"], uses, 2)).toEqual(["a__x", "b__x"]);
});

test("fills up with the seed, in its order, each once", () => {
  const seed = ["a__used", "c__x", "tasks", "b__x", "no__such"];

  expect(listed(["a__used", "b__x", "c__x", "tool__tasks"], [["a__used", 1, 0]], 3, seed)).toEqual([
    "a__used",
    "c__x",
    "tool__tasks",
  ]);
});

test("ignores hidden actions", () => {
  const uses: [string, number, number][] = [
    ["a__x", 1, 0],
    ["b__secret", 9, 0],
    ["c__x", 2, 0],
  ];

  expect(listed(["a__x", "c__x"], uses, 2, ["b__secret", "b__x"])).toEqual(["c__x", "a__x"]);
  expect(
    listed(
      ["a__x", "c__x"],
      uses.filter(([name]) => name !== "b__secret"),
      2,
      ["b__x"],
    ),
  ).toEqual(["c__x", "a__x"]);
});
