import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Json } from "../../core/json.ts";
import { parseJsonPath } from "../json-path.ts";
import { type AggregateOptions, aggregateItems, measureKinds } from "./aggregate.ts";
import { anyItem, readAll, streamItems, toTexts } from "./testing.ts";

const keys = ["a", "n", "id", "__proto__", "ü😀", ""] as const;

/** The value in a list, or an empty one. */
function at(item: Json, name: string): readonly Json[] {
  if (name === "") return [item];
  if (typeof item !== "object" || item === null || Array.isArray(item)) return [];
  return Object.entries(item)
    .filter(([key]) => key === name)
    .map(([, value]) => value as Json);
}

const valuesAt = (items: readonly Json[], name: string) =>
  items.flatMap((item) => at(item, name)).filter((value) => value !== null);
const numbersIn = (values: readonly Json[]) => values.filter((value) => typeof value === "number");
const textsIn = (values: readonly Json[]) => values.filter((value) => typeof value === "string");

function measured(kind: string, group: readonly Json[], all: readonly Json[], name: string): Json {
  const numbers = numbersIn(valuesAt(group, name));
  const sum = numbers.reduce((total, each) => total + each, 0);
  if (kind === "sum" || kind === "mean")
    return numbers.length === 0 ? null : kind === "sum" ? sum : sum / numbers.length;
  const comparable = numbersIn(valuesAt(all, name)).length > 0 ? numbers : textsIn(valuesAt(group, name));
  const ordered = [...comparable].sort((x, y) => (x < y ? -1 : 1));
  return (kind === "min" ? ordered[0] : ordered.at(-1)) ?? null;
}

const asked = (by: readonly string[], measures: readonly (readonly [string, string])[], limit = 1_000) =>
  ({
    by: by.map(parseJsonPath),
    measures: measures.map(([kind, path]) => ({ kind, path: parseJsonPath(path) })),
    limit,
  }) as AggregateOptions;

const someMeasures = fc.uniqueArray(fc.tuple(fc.constantFrom(...measureKinds), fc.constantFrom(...keys)), {
  maxLength: 4,
  comparator: isDeepStrictEqual,
});
const someItems = fc.array(anyItem, { maxLength: 12 });

describe("aggregate", () => {
  test("agrees with a model over arrays, and counts everything", async () => {
    await fc.assert(
      fc.asyncProperty(
        someItems,
        fc.uniqueArray(fc.constantFrom(...keys), { maxLength: 2 }),
        someMeasures,
        fc.integer({ min: 1, max: 5 }),
        async (items, by, measures, limit) => {
          const aggregating = readAll(aggregateItems(streamItems(items, 1), asked(by, measures, limit)));
          const paths = [...by, ...measures.map(([, path]) => path)];
          if (items.length > 0 && paths.some((path) => !items.some((item) => at(item, path).length > 0))) {
            await expect(aggregating).rejects.toMatchObject({ code: "not_found" });
            return;
          }
          const { contents, report } = await aggregating;

          const groups: { values: Json[]; items: Json[] }[] = by.length === 0 ? [{ values: [], items: [] }] : [];
          let dropped = 0;
          for (const item of items) {
            const values = by.map((path) => at(item, path)[0] ?? null);
            const group = groups.find((each) => isDeepStrictEqual(each.values, values));
            if (group !== undefined) group.items.push(item);
            else if (groups.length < limit) groups.push({ values, items: [item] });
            else dropped++;
          }
          const grouped = groups.flatMap((group) => group.items);
          const nameOf = (path: string) => (path === "" ? "value" : path);
          const expected = groups.map((group) =>
            Object.fromEntries<Json>([
              ...by.map((path, index): [string, Json] => [nameOf(path), group.values[index] ?? null]),
              ["count", group.items.length],
              ...measures.map(([kind, path]): [string, Json] => [
                `${kind}_${nameOf(path)}`,
                measured(kind, group.items, grouped, path),
              ]),
            ]),
          );

          expect(toTexts(contents)).toEqual(toTexts(expected));
          expect(report).toMatchObject({ input: items.length, dropped, limit_reached: dropped > 0 });
          expect(contents.reduce<number>((sum, each) => sum + Number((each as { count: number }).count), dropped)).toBe(
            items.length,
          );
          expect("warning" in report).toBe(report.skipped.some((each) => each.other_type > 0));
          for (const path of by) {
            const lacking = items.filter((item) => (at(item, path)[0] ?? null) === null).length;
            expect(report.missing.find((each) => each.path === path)?.count ?? 0).toBe(lacking);
          }
          for (const [kind, path] of measures) {
            const told = report.skipped.find(({ field }) => field === `${kind}_${nameOf(path)}`);
            const values = valuesAt(grouped, path);
            const isText = ["min", "max"].includes(kind) && numbersIn(values).length === 0;
            expect(told?.missing ?? 0).toBe(grouped.length - values.length);
            if ((told?.other_type ?? 0) > 0) expect(report.warning).toContain(`${kind}_`);
            expect(told?.other_type ?? 0).toBe(values.length - (isText ? textsIn(values) : numbersIn(values)).length);
          }
        },
      ),
      { numRuns: 500 },
    );
  });

  test("lists the distinct values of a path in order of first appearance", async () => {
    const { contents } = await readAll(
      aggregateItems(streamItems([{ s: "b" }, { s: "a" }, { s: "b" }, {}]), asked(["s"], [])),
    );

    expect(contents).toEqual([
      { s: "b", count: 2 },
      { s: "a", count: 1 },
      { s: null, count: 1 },
    ]);
  });

  test("makes one record without a path, also for no items", async () => {
    const one = asked([], [["sum", "n"]]);

    expect((await readAll(aggregateItems(streamItems([{ n: 1 }, { n: 2 }]), one))).contents).toEqual([
      { count: 2, sum_n: 3 },
    ]);
    expect((await readAll(aggregateItems(streamItems([]), one))).contents).toEqual([{ count: 0, sum_n: null }]);
    expect((await readAll(aggregateItems(streamItems([]), asked(["s"], [])))).contents).toEqual([]);
  });

  test("sums without rounding errors, and reports results that are too large", async () => {
    const cents = await readAll(aggregateItems(streamItems(Array(10).fill({ n: 0.1 })), asked([], [["sum", "n"]])));
    const large = await readAll(
      aggregateItems(
        streamItems([{ n: 1e308 }, { n: 1e308 }]),
        asked(
          [],
          [
            ["sum", "n"],
            ["max", "n"],
          ],
        ),
      ),
    );

    expect(cents.contents).toEqual([{ count: 10, sum_n: 1 }]);
    expect(large.contents).toEqual([{ count: 2, sum_n: null, max_n: 1e308 }]);
    expect(large.report.skipped).toEqual([{ field: "sum_n", missing: 0, other_type: 0, too_large: 1 }]);
  });

  test("gives every field a name of its own", async () => {
    const items = [{ count: 5, a: { b: 1 }, a_b: 2 }];
    const { contents } = await readAll(
      aggregateItems(streamItems(items), asked(["count", "a.b", "a_b"], [["max", "a.b"]])),
    );

    expect(contents).toEqual([{ count_2: 5, a_b: 1, a_b_2: 2, count: 1, max_a_b: 1 }]);
  });

  test("compares texts where there are no numbers", async () => {
    const items = [{ at: "2026-02-01" }, { at: "2026-01-31" }, { at: true }];
    const { contents, report } = await readAll(
      aggregateItems(
        streamItems(items),
        asked(
          [],
          [
            ["min", "at"],
            ["max", "at"],
          ],
        ),
      ),
    );

    expect(contents).toEqual([{ count: 3, min_at: "2026-01-31", max_at: "2026-02-01" }]);
    expect(report.skipped[0]).toEqual({ field: "min_at", missing: 0, other_type: 1 });
  });
});
