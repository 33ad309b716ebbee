import { expect, test } from "vitest";
import type { ActivationStore } from "./activation-store.ts";
import { createActivationLists, createLocalActivationList } from "./activation-store.ts";

const noProblem = (problem: string): never => {
  throw new Error(problem);
};

test("keeps each name once, in the order of its first addition", async () => {
  const shelf = createLocalActivationList(10);

  expect(await shelf.put(["b", "a", "b"])).toEqual(["b", "a"]);
  expect(await shelf.put(["a", "c"])).toEqual(["c"]);

  expect(shelf.names()).toEqual(["b", "a", "c"]);
  expect([shelf.has("c"), shelf.has("d")]).toEqual([true, false]);
});

test("answers the same array until a name is added", async () => {
  const shelf = createLocalActivationList(10);
  await shelf.put(["a"]);
  const before = shelf.names();

  await shelf.put(["a"]);
  expect(shelf.names()).toBe(before);
  await shelf.put(["b"]);
  expect(shelf.names()).not.toBe(before);
  expect(before).toEqual(["a"]);
});

test("answers the latest additions in their original order", async () => {
  const shelf = createLocalActivationList(10);
  await shelf.put(["a", "b", "c", "d"]);
  await shelf.put(["b"]);

  expect(shelf.latest(2)).toEqual(["b", "d"]);
  expect(shelf.latest(9)).toEqual(["a", "b", "c", "d"]);
});

test("drops names beyond the limit", async () => {
  const shelf = createLocalActivationList(2);
  await shelf.put(["a", "b", "c"]);

  expect(await shelf.put(["d", "a"])).toEqual([]);
  expect(shelf.names()).toEqual(["a", "b"]);
  expect(shelf.has("d")).toBe(false);
});

test("adds a name at once and writes it once", async () => {
  const { store, writes } = remembering();
  const shelf = await createActivationLists(store, noProblem).open("k", 10);

  const puts = [shelf.put(["a"]), shelf.put(["a"]), shelf.put(["a"])];
  expect(shelf.names()).toEqual(["a"]);

  expect(await Promise.all(puts)).toEqual([["a"], [], []]);
  expect(writes).toEqual([["k", ["a"]]]);
});

test("shares one list per key", async () => {
  const shelves = createActivationLists(remembering().store, noProblem);
  const [one, other, elsewhere] = await Promise.all([
    shelves.open("k", 10),
    shelves.open("k", 10),
    shelves.open("l", 10),
  ]);

  await one.put(["a"]);

  expect(other.names()).toEqual(["a"]);
  expect(elsewhere.names()).toEqual([]);
});

test("appends names of other processes when opened again", async () => {
  const { store } = remembering();
  const here = createActivationLists(store, noProblem);
  const shelf = await here.open("k", 10);
  await shelf.put(["a", "b"]);
  await shelf.put(["a"]);

  const elsewhere = await createActivationLists(store, noProblem).open("k", 10);
  expect(elsewhere.names()).toEqual(["a", "b"]);
  expect(await elsewhere.put(["c", "b"])).toEqual(["c"]);
  expect(shelf.names()).toEqual(["a", "b"]);

  expect((await here.open("k", 10)).names()).toEqual(["a", "b", "c"]);
  expect(shelf.names()).toEqual(["a", "b", "c"]);
  expect(shelf.latest(2)).toEqual(["a", "c"]);
});

test("answers a name that two processes add to only one of them", async () => {
  const { store } = remembering();
  const shelves = await Promise.all([1, 2].map(() => createActivationLists(store, noProblem).open("k", 10)));

  const answers = await Promise.all(shelves.map((shelf) => shelf.put(["a"])));

  expect(answers.flat()).toEqual(["a"]);
});

test("keeps and reports a name that cannot be written", async () => {
  const problems: string[] = [];
  const store: ActivationStore = { read: async () => [], put: () => Promise.reject(new Error("disk full")) };
  const shelf = await createActivationLists(store, (problem) => problems.push(problem)).open("k", 10);

  expect(await shelf.put(["a"])).toEqual(["a"]);

  expect(shelf.names()).toEqual(["a"]);
  expect(problems).toEqual(["a will be forgotten by k with this process: disk full"]);
});

test("keeps a bounded number of lists in memory", async () => {
  const { store } = remembering();
  const shelves = createActivationLists(store, noProblem);
  const first = await shelves.open("first", 10);
  await first.put(["a"]);
  for (let at = 0; at < 600; at++) await shelves.open(`other ${at}`, 10);

  const again = await shelves.open("first", 10);

  expect(again).not.toBe(first);
  expect(again.names()).toEqual(["a"]);
});

function remembering() {
  const kept = new Map<string, readonly string[]>();
  const writes: [string, readonly string[]][] = [];
  const store: ActivationStore = {
    read: async (shelf) => kept.get(shelf) ?? [],
    async put(shelf, names) {
      const there = kept.get(shelf) ?? [];
      const added = names.filter((name) => !there.includes(name));
      kept.set(shelf, [...there, ...added]);
      writes.push([shelf, names]);
      return added;
    },
  };
  return { store, writes };
}
