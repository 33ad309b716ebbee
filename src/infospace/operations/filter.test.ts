import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { QmError } from "../../core/errors.ts";
import type { Json } from "../../core/json.ts";
import { head } from "./derived.ts";
import { filter } from "./filter.ts";
import { anyItem, ended, endless, streamed, texts } from "./testing.ts";

type Verdict = boolean | "undecided";

const own = (item: Json, name: string): unknown =>
  typeof item === "object" && item !== null && !Array.isArray(item)
    ? Object.entries(item).find(([key]) => key === name)?.[1]
    : undefined;

/** Each condition as a person would decide it for one item. */
const conditions: Readonly<Record<string, (item: Json, position: number) => Verdict>> = {
  "n > 1": (item) => {
    const n = own(item, "n");
    return typeof n === "number" ? n > 1 : "undecided";
  },
  "n == 1 || a == 'a'": (item) => {
    const [n, a] = [own(item, "n"), own(item, "a")];
    if (n === 1 || a === "a") return true;
    return n === undefined || a === undefined ? "undecided" : false;
  },
  "a == 'a' && n > 1": (item) => {
    const [n, a] = [own(item, "n"), own(item, "a")];
    if (a !== undefined && a !== "a") return false;
    if (typeof n === "number" && n <= 1) return false;
    return a === undefined || typeof n !== "number" ? "undecided" : true;
  },
  "constructor == 1": (item) => {
    const value = own(item, "constructor");
    return value === undefined ? "undecided" : value === 1;
  },
  "toString == null": (item) => {
    const value = own(item, "toString");
    return value === undefined ? "undecided" : value === null;
  },
  "position % 2 == 0": (_, position) => position % 2 === 0,
  "item == 'a'": (item) => item === "a",
};

describe("filter", () => {
  test.each(Object.entries(conditions))("%s keeps what an array would", async (expression, verdict) => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyItem, { maxLength: 10 }), async (items) => {
        const { inputs, contents, report } = await ended(filter(streamed(items, 100), expression));
        const verdicts = items.map(verdict);
        const places = (wanted: Verdict) => verdicts.flatMap((each, index) => (each === wanted ? [index] : []));

        expect(inputs.map(({ id }) => id)).toEqual(places(true).map((index) => index + 100));
        expect(texts(contents)).toEqual(texts(items.filter((_, index) => verdicts[index] === true)));
        expect(report).toMatchObject({
          input: items.length,
          dropped: places(false).length,
          undecided: places("undecided").length,
        });
        expect(contents.length + report.dropped + report.undecided).toBe(items.length);
        expect(report.reasons.map(({ position }) => position)).toEqual(places("undecided").slice(0, 3));
      }),
      { numRuns: 200 },
    );
  });

  test.each([
    ["name == 'x AND y' || (price > 1 && !sold)", [0, 1]],
    ["item['first name'] == 'A' && 'red' in tags", [2]],
    ["owner.name.startsWith('A')", [1]],
    ["tags.exists(tag, tag == 'red') && item.type == 'b'", [2]],
    ["has(item.owner)", [1]],
  ])("%s", async (expression, expected) => {
    const items = [
      { name: "x AND y" },
      { name: "z", price: 2, sold: false, owner: { name: "Ada" } },
      { name: "z", price: 0, sold: false, "first name": "A", tags: ["red"], type: "b" },
    ];
    const { inputs } = await ended(filter(streamed(items, 0), expression));

    expect(inputs.map(({ id }) => id)).toEqual(expected);
  });

  test.each(["price >", "a AND b", "type == 'x'", "1 + 1", "__proto__ == 1"])(
    "%s is an error, with a hint",
    (expression) => {
      expect(() => filter([], expression)).toThrow(QmError);
      try {
        filter([], expression);
      } catch (thrown) {
        expect(thrown).toMatchObject({ code: "invalid_expression", hint: expect.stringContaining("item.type") });
      }
    },
  );

  test("says why it could not be decided", async () => {
    const { report } = await ended(
      filter(streamed([{}, { price: "x" }, 5, { price: null }, { price: 4 }]), "price > 3"),
    );

    expect(report).toMatchObject({ input: 5, dropped: 0, undecided: 4 });
    expect(report.reasons).toHaveLength(3);
    expect(report.reasons[0]).toEqual({ position: 0, reason: expect.stringContaining("Unknown variable: price") });
    expect(report.reasons[1]).toEqual({ position: 1, reason: expect.stringContaining("no such overload") });
  });

  test("knows no names but those of the item", async () => {
    const { report } = await ended(filter(streamed([{}]), "valueOf == 1"));

    expect(report.reasons[0]?.reason).toContain("Unknown variable: valueOf");
  });

  test("reads little more of its input than is asked of it", async () => {
    const source = endless((n) => ({ n }));
    const taken = [];
    for await (const { content } of head(filter(source.inputs, "n >= 2").items, 2)) taken.push(content);

    expect(taken).toEqual([{ n: 2 }, { n: 3 }]);
    expect(source.read()).toBeLessThanOrEqual(100);
  });
});
