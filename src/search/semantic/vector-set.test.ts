import { expect, test } from "vitest";
import type { Action } from "../../core/action.ts";
import { toUnitVectors } from "../embedders/embedder.ts";
import { createHitOrder } from "../hits.ts";
import { hashActionText, hashCatalog } from "./action-text.ts";
import { createSearchView, testAction, testActions, wordVector } from "./testing.ts";
import { readVectorSet } from "./vector-set.ts";

const order = createHitOrder();
const fruit = [
  testAction("tool__apple", "apple tree fruit"),
  testAction("tool__pear", "pear tree fruit"),
  testAction("tool__stone", "stone"),
];

test("ranks by cosine, and leaves out actions below the floor", async () => {
  const set = await setOf(fruit);

  const hits = set?.rank(unit("apple tree"), createSearchView(fruit), { limit: 10, order, floor: 0.25 }) ?? [];

  expect(hits.map(({ action }) => action.name)).toEqual(["tool__apple", "tool__pear"]);
  for (const { score } of hits) expect(score).toSatisfy((each: number) => each >= 0.25 && each <= 1);
});

test("hidden actions change neither scores nor order", async () => {
  const visible = fruit.filter(({ name }) => name !== "tool__apple");
  const options = { limit: 10, order, floor: 0 };

  const hidden = (await setOf(fruit))?.rank(unit("apple tree"), createSearchView(fruit, "tool__apple"), options);
  const absent = (await setOf(visible))?.rank(unit("apple tree"), createSearchView(visible), options);

  expect(hidden).toEqual(absent);
  expect(hidden?.map(({ action }) => action.name)).toContain("tool__pear");
});

test("returns the same best hits as a full sort", async () => {
  const actions = testActions(300).toReversed(); // so that what comes first among equals is met last
  const set = await setOf(actions);
  const accepts = (action: Action) => !action.name.endsWith("7");

  for (const query of ["thing", "thing11 thing250", "handles thing3", "7 8 9 10", "well thing299 thing0 thing150"]) {
    const rank = (limit: number) =>
      set?.rank(unit(query), createSearchView(actions), { limit, order, floor: 0, accepts }) ?? [];
    const all = rank(1_000);

    expect(all).toHaveLength(270);
    expect(all).toEqual(all.toSorted(order));
    for (const limit of [1, 2, 7, 40, 200]) expect(rank(limit)).toEqual(all.slice(0, limit));
  }
});

test("ranks the actions of the current catalog", async () => {
  const set = await setOf(fruit);
  const [apple, , stone] = fruit;
  const changed = testAction("tool__pear", "now something else");
  const later = [changed, stone, testAction("tool__new", "pear tree fruit")] as Action[];

  const hits = set?.rank(unit("pear tree fruit"), createSearchView(later), { limit: 10, order, floor: 0.25 });

  expect(hits?.map(({ action }) => action)).toEqual([changed]);
  expect(apple).toBeDefined();
});

test("opposite meanings are no hits, even without a floor", async () => {
  const set = await setOf(fruit);
  const against = unit("apple tree").map((number) => -number);

  const hits = set?.rank(against, createSearchView(fruit), { limit: 10, order, floor: 0 }) ?? [];

  expect(hits.every(({ score }) => score >= 0)).toBe(true);
  expect(hits.map(({ action }) => action.name)).not.toContain("tool__apple");
});

test("is undefined if a row is missing or has other dimensions", async () => {
  const [apple = fail()] = fruit;

  expect(await setOf(fruit, (hash) => hash !== hashActionText(apple))).toBeUndefined();
  expect(
    await setOf(
      fruit,
      () => true,
      (hash) => (hash === hashActionText(apple) ? 32 : 64),
    ),
  ).toBeUndefined();
  expect(await setOf([])).toMatchObject({ dimensions: 0 });
});

function unit(text: string, dimensions = 64): Float32Array {
  const read = toUnitVectors([wordVector(text, dimensions)], 1);
  return ("vectors" in read ? read.vectors[0] : undefined) ?? fail();
}

function setOf(actions: readonly Action[], has = (_hash: string) => true, dimensions = (_hash: string) => 64) {
  const byHash = new Map(actions.map((action) => [hashActionText(action), action]));
  const read = async (_model: string, hashes: Iterable<string>, take: (hash: string, vector: Float32Array) => void) => {
    for (const hash of hashes) {
      const action = byHash.get(hash) ?? fail();
      if (has(hash)) take(hash, unit(`${action.name} ${action.description}`, dimensions(hash)));
    }
  };
  return readVectorSet({ read }, "words", hashCatalog(actions));
}

function fail(): never {
  throw new Error("not there");
}
