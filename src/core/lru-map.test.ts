import { expect, test } from "vitest";
import { LruMap } from "./lru-map.ts";

test("drops the entry used longest ago", () => {
  const map = new LruMap<string, number>(2);
  map.set("a", 1);
  map.set("b", 2);
  expect(map.get("a")).toBe(1);
  map.set("c", 3);

  expect([map.get("a"), map.get("b"), map.get("c"), map.size]).toEqual([1, undefined, 3, 2]);
});

test("does not count an entry that is set again twice", () => {
  const map = new LruMap<string, number>(2);
  map.set("a", 1);
  map.set("a", 2);
  map.set("b", 3);

  expect([map.get("a"), map.get("b")]).toEqual([2, 3]);
});

test("hands over only the value that it drops", () => {
  const evicted: number[] = [];
  const map = new LruMap<string, number>(2, (value) => evicted.push(value));
  map.set("a", 1);
  map.set("b", 2);
  map.delete("b");
  map.set("c", 3);
  map.set("d", 4);

  expect(evicted).toEqual([1]);
  expect([...map.values()]).toEqual([3, 4]);
});
