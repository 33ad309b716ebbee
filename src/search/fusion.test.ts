import fc from "fast-check";
import { expect, test } from "vitest";
import { createHitOrder, fuseHits, type Hit } from "./hits.ts";
import { testActions } from "./semantic/testing.ts";

const order = createHitOrder();
const actions = testActions(12);
const hit = (at: number, score: number): Hit => ({ action: actions[at] as Hit["action"], score });
const names = (hits: readonly Hit[]) => hits.map(({ action }) => action.name.slice("tool__thing_".length));

test("ranks hits of both lists before hits of one", () => {
  const fused = fuseHits(
    [
      [hit(0, 0.8), hit(1, 0.7)],
      [hit(2, 0.6), hit(1, 0.5)],
    ],
    { limit: 10, order },
  );

  expect(names(fused)[0]).toBe("1");
});

test("scales each list by its own best score", () => {
  const words = [hit(0, 0.9), hit(1, 0.45)];
  const meaning = [hit(2, 0.6), hit(3, 0.3)];

  expect(fuseHits([words, meaning], { limit: 10, order }).map(({ score }) => score.toFixed(3))).toEqual([
    "0.450",
    "0.450",
    "0.225",
    "0.225",
  ]);
});

test("does not scale up a list without good hits", () => {
  expect(names(fuseHits([[hit(0, 0.1)], [hit(1, 0.6)]], { limit: 10, order }))).toEqual(["1", "0"]);
});

test("keeps an exact name first", () => {
  const fused = fuseHits(
    [
      [hit(0, 1), hit(1, 0.9)],
      [hit(1, 1), hit(2, 1)],
    ],
    { limit: 2, order },
  );

  expect(fused).toEqual([hit(0, 1), { action: actions[1], score: expect.any(Number) }]);
  expect(fused[1]?.score).toBeLessThan(1);
});

test("keeps the scores of a single list", () => {
  const list = [hit(0, 0.8), hit(1, 0.3), hit(2, 0.03)];

  for (const lists of [[list], [list, []], [[], list]]) {
    const fused = fuseHits(lists, { limit: 10, order });
    expect(fused.map(({ action }) => action)).toEqual(list.map(({ action }) => action));
    for (const [at, { score }] of fused.entries()) expect(score).toBeCloseTo(list[at]?.score ?? -1, 12);
  }
  expect(fuseHits([], { limit: 10, order })).toEqual([]);
});

test("weights the lists", () => {
  const lists = [[hit(0, 0.8)], [hit(1, 0.8)]];

  expect(names(fuseHits(lists, { limit: 1, order, weights: [1, 2] }))).toEqual(["1"]);
  expect(names(fuseHits(lists, { limit: 1, order, weights: [2, 1] }))).toEqual(["0"]);
  expect(names(fuseHits(lists, { limit: 2, order, weights: [1, 0] }))).toEqual(["0"]);
});

test("returns scores from 0 to 1, best first, each action once", () => {
  const list = fc
    .uniqueArray(fc.integer({ min: 0, max: 11 }))
    .chain((places) =>
      fc.tuple(...places.map((at) => fc.double({ min: 0, max: 1, noNaN: true }).map((score) => hit(at, score)))),
    );
  fc.assert(
    fc.property(list, list, (words, meaning) => {
      const fused = fuseHits([words, meaning], { limit: 20, order });

      expect(fused).toEqual(fused.toSorted(order));
      expect(new Set(fused.map(({ action }) => action)).size).toBe(fused.length);
      for (const { score } of fused) expect(score).toSatisfy((each: number) => each >= 0 && each <= 1);
      expect(fuseHits([words.toReversed(), meaning.toReversed()], { limit: 20, order })).toEqual(fused);
    }),
  );
});
