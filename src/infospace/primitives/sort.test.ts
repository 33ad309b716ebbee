import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Json } from "../../core/json.ts";
import { parseJsonPath } from "../json-path.ts";
import { type SortOptions, sortItems } from "./sort.ts";
import { anyItem, readAll, streamItems, toTexts } from "./testing.ts";

const ranks = ["boolean", "number", "string", "object"];

function isObject(item: Json): item is { [key: string]: Json } {
  return typeof item === "object" && item !== null && !Array.isArray(item);
}

function keyAt(item: Json, name: string): Json {
  if (name === "") return item;
  if (typeof item !== "object" || item === null || Array.isArray(item)) return null;
  return Object.entries(item).find(([key]) => key === name)?.[1] ?? null;
}

/** Ascending order of two keys that are there. */
function isBefore(a: Json, b: Json): boolean {
  const [rankA, rankB] = [ranks.indexOf(typeof a), ranks.indexOf(typeof b)];
  if (rankA !== rankB) return rankA < rankB;
  const [one, other] = typeof a === "object" ? [toTexts([a]), toTexts([b])].map(([text]) => text) : [a, b];
  return (one as string) < (other as string);
}

/** By the least significant key first, each time by insertion, which leaves equal ones where they are. */
function sortedArray(items: readonly Json[], { by, missing }: SortOptions): readonly Json[] {
  let order = [...items];
  for (const { path, direction } of by.toReversed()) {
    const lacking = order.filter((item) => keyAt(item, path.text) === null);
    const there: Json[] = [];
    for (const item of order.filter((each) => !lacking.includes(each) || keyAt(each, path.text) !== null)) {
      const key = keyAt(item, path.text);
      const at = there.findIndex((other) => {
        const otherKey = keyAt(other, path.text);
        return direction === "asc" ? isBefore(key, otherKey) : isBefore(otherKey, key);
      });
      there.splice(at < 0 ? there.length : at, 0, item);
    }
    order = missing === "last" ? [...there, ...lacking] : [...lacking, ...there];
  }
  return order;
}

const someOrder = fc.record({
  path: fc.constantFrom("a", "n", "id", "__proto__", "ü😀", "").map(parseJsonPath),
  direction: fc.constantFrom("asc" as const, "desc" as const),
});

describe("sort", () => {
  test("agrees with a stable sort of an array, and drops nothing", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(anyItem, { maxLength: 12 }),
        fc.array(someOrder, { minLength: 1, maxLength: 3 }),
        fc.constantFrom("first" as const, "last" as const),
        async (contents, by, missing) => {
          // A number of its own makes a swap of equal items visible.
          const items = contents.map((content, mark) => (isObject(content) ? { ...content, mark } : content));
          const sorting = readAll(sortItems(streamItems(items), { by, missing }));
          const isThere = (item: Json, name: string) => name === "" || (isObject(item) && Object.hasOwn(item, name));
          if (items.length > 0 && by.some(({ path }) => !items.some((item) => isThere(item, path.text)))) {
            await expect(sorting).rejects.toMatchObject({ code: "not_found" });
            return;
          }
          const { contents: sorted, report } = await sorting;

          expect(toTexts(sorted)).toEqual(toTexts(sortedArray(items, { by, missing })));
          expect(report).toMatchObject({ input: items.length, dropped: 0 });
          expect(sorted).toHaveLength(items.length);
          for (const { path } of by) {
            const count = items.filter((item) => keyAt(item, path.text) === null).length;
            for (const told of report.missing.filter((each) => each.path === path.text)) expect(told.count).toBe(count);
            expect(report.missing.some((each) => each.path === path.text)).toBe(count > 0);
            const kinds = items.map((item) => keyAt(item, path.text)).filter((key) => key !== null);
            const types = new Set(kinds.map((key) => (Array.isArray(key) ? "array" : typeof key)));
            const told = report.mixed.find((each) => each.path === path.text);
            expect(told === undefined ? [] : Object.keys(told.types).sort()).toEqual(
              types.size > 1 ? [...types].sort() : [],
            );
            expect(Object.values(told?.types ?? {}).reduce((sum, each) => sum + each, 0)).toBe(
              told === undefined ? 0 : kinds.length,
            );
          }
        },
      ),
      { numRuns: 300 },
    );
  });

  test("has a total order over all types", async () => {
    const items = [{ b: 1 }, "b", 10, null, true, [2], "B", 9, false, [10], "é", "a"];
    const by = (direction: "asc" | "desc") => [{ path: parseJsonPath(""), direction }];
    const ascending = [false, true, 9, 10, "B", "a", "b", "é", [10], [2], { b: 1 }];

    expect((await readAll(sortItems(streamItems(items), { by: by("asc"), missing: "last" }))).contents).toEqual([
      ...ascending,
      null,
    ]);
    expect((await readAll(sortItems(streamItems(items), { by: by("desc"), missing: "last" }))).contents).toEqual([
      ...ascending.toReversed(),
      null,
    ]);
    expect((await readAll(sortItems(streamItems(items), { by: by("asc"), missing: "first" }))).contents).toEqual([
      null,
      ...ascending,
    ]);
  });

  test("reports values of several types", async () => {
    const by = [{ path: parseJsonPath("amount"), direction: "asc" as const }];
    const { report } = await readAll(
      sortItems(streamItems([{ amount: 2 }, { amount: "10" }, { amount: 1 }, {}]), { by, missing: "last" }),
    );

    expect(report.mixed).toEqual([{ path: "amount", types: { number: 2, string: 1 } }]);
    expect(report.warning).toMatch(/^amount has values of several types.*infospace__coerce/);
    expect(
      (await readAll(sortItems(streamItems([{ amount: 2 }, {}]), { by, missing: "last" }))).report,
    ).not.toHaveProperty("warning");
  });

  test.each([
    ["amuont", "no item has amuont: they have: id, amount; did you mean amount?", undefined],
    ["-amount", "no item has -amount: they have: id, amount; did you mean amount?", { by: "amount", order: "desc" }],
    ["amount DESC", "no item has amount DESC: they have: id, amount", { by: "amount", order: "desc" }],
    ["amount ascending", "no item has amount ascending: they have: id, amount", { by: "amount", order: "asc" }],
    ["id.of", "no item has id.of: id is a number, which has no parts", undefined],
    ["[0]", "no item has [0]: the value is an object, which has no [0]; it has: id, amount", undefined],
  ])("by %s is an error", async (path, message, instead) => {
    const items = streamItems([{ id: 1, amount: null }]);
    const sorting = readAll(
      sortItems(items, { by: [{ path: parseJsonPath(path), direction: "asc" }], missing: "last" }),
    );

    await expect(sorting).rejects.toMatchObject({
      code: "not_found",
      message,
      hint: instead === undefined ? undefined : expect.stringContaining(JSON.stringify(instead)),
    });
  });

  test("keeps the same notes", async () => {
    const { inputs } = await readAll(
      sortItems(streamItems([3, 1, 2], 7), { by: [{ path: parseJsonPath(""), direction: "asc" }], missing: "last" }),
    );

    expect(inputs.map(({ id }) => id)).toEqual([8, 9, 7]);
  });
});
