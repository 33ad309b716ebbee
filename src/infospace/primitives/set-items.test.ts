import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Json } from "../../core/json.ts";
import { parseJsonPath } from "../json-path.ts";
import type { PrimitiveItem } from "./operation.ts";
import { combineSets, setOperations } from "./sets.ts";
import { anyItem, readAll, toTexts } from "./testing.ts";

/** Few, so that they repeat on both sides; some are values that are no note. */
const someItems = fc
  .array(
    fc.record({
      content: fc.oneof(anyItem, fc.constantFrom<Json>(1, "1", null, { a: 1 }, { a: null }, [1], "x".repeat(90))),
      id: fc.option(fc.integer({ min: 1, max: 4 })),
    }),
    { maxLength: 8 },
  )
  .map((items) => items.map(({ content, id }): PrimitiveItem => (id === null ? { content } : { id, content })));

/** In a list of one, or nothing: what is compared. */
function compared(item: PrimitiveItem, by: string): readonly unknown[] {
  if (by === "content") return [item.content];
  if (by === "note") return item.id === undefined ? [] : [item.id];
  const { content } = item;
  if (typeof content !== "object" || content === null || Array.isArray(content)) return [];
  const value = Object.entries(content).find(([key]) => key === by)?.[1] ?? null;
  return value === null ? [] : [value];
}

const same = (by: string) => (one: PrimitiveItem, other: PrimitiveItem) => {
  const [a, b] = [compared(one, by), compared(other, by)];
  return a.length > 0 && b.length > 0 && isDeepStrictEqual(a, b);
};

describe.each(setOperations)("%s", (operation) => {
  test.each(["content", "note", "a", "__proto__"])("by %s agrees with a model over arrays", async (by) => {
    const isSame = same(by);
    await fc.assert(
      fc.asyncProperty(someItems, someItems, async (left, right) => {
        const path = by === "content" || by === "note" ? by : parseJsonPath(by);
        const { inputs, report } = await readAll(combineSets(operation, left, right, path));
        const from = operation === "union" ? [...left, ...right] : left;
        const isIn = (item: PrimitiveItem) => right.some((other) => isSame(item, other));
        const fitting = from.filter((item) => operation === "union" || isIn(item) === (operation === "intersection"));
        const expected = fitting.filter((item, index) => !fitting.slice(0, index).some((other) => isSame(item, other)));

        expect(inputs.map(({ id }) => id)).toEqual(expected.map(({ id }) => id));
        expect(toTexts(inputs.map(({ content }) => content))).toEqual(toTexts(expected.map(({ content }) => content)));
        expect(report).toEqual({
          input: { left: left.length, right: right.length },
          dropped: from.length - expected.length,
          repeated: fitting.length - expected.length,
          incomparable: [...left, ...right].filter((item) => compared(item, by).length === 0).length,
        });
      }),
      { numRuns: 200 },
    );
  });
});
