import { expect, test } from "vitest";
import { Bag } from "./bag.ts";

test("holds values until they are removed", () => {
  const bag = new Bag<string>();
  for (const item of ["a", "b", "c"]) bag.add(item);

  expect(bag.delete("a")).toBe(true);
  expect(bag.delete("a")).toBe(false);

  expect([...bag].sort()).toEqual(["b", "c"]);
  expect([bag.size, bag.has("b"), bag.has("a")]).toEqual([2, true, false]);
  expect(bag.find((item) => item > "b")).toBe("c");
});

test("may change while it is read", () => {
  const bag = new Bag<number>();
  for (const item of [1, 2, 3, 4]) bag.add(item);
  const seen: number[] = [];

  for (const item of bag) {
    seen.push(item);
    bag.delete(item);
    if (item === 1) bag.add(5);
  }

  expect(seen).toEqual([1, 2, 3, 4]);
  expect([...bag]).toEqual([5]);
});
