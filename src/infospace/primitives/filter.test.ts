import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Json } from "../../core/json.ts";
import { filterItems } from "./filter.ts";
import { takeFirst } from "./operation.ts";
import { anyItem, createEndlessItems, readAll, streamItems, toTexts } from "./testing.ts";

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
  test.each(Object.entries(conditions))(
    "%s keeps the same items as a filter over an array",
    async (expression, verdict) => {
      await fc.assert(
        fc.asyncProperty(fc.array(anyItem, { maxLength: 10 }), async (items) => {
          const verdicts = items.map(verdict);
          const filtering = readAll(filterItems(streamItems(items, 100), expression));
          if (items.length > 0 && verdicts.every((each) => each === "undecided")) {
            await expect(filtering).rejects.toMatchObject({ code: "invalid_expression" });
            return;
          }
          const { inputs, contents, report } = await filtering;
          const places = (wanted: Verdict) => verdicts.flatMap((each, index) => (each === wanted ? [index] : []));

          expect(inputs.map(({ id }) => id)).toEqual(places(true).map((index) => index + 100));
          expect(toTexts(contents)).toEqual(toTexts(items.filter((_, index) => verdicts[index] === true)));
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
    },
  );

  test.each([
    ["name == 'x AND y' || (price > 1 && !sold)", [0, 1]],
    ["item['first name'] == 'A' && 'red' in tags", [2]],
    ["owner.name.startsWith('A')", [1]],
    ["tags.exists(tag, tag == 'red') && item.type == 'b'", [2]],
    ["has(item.owner)", [1]],
    ["has(owner) && !has( type )", [1]],
    ["type == 'b'", [2]],
    ["has(type) && type == 'b' && type(position) == int", [2]],
    ["package == 'type' || string > 1", [1]],
  ])("%s", async (expression, expected) => {
    const items = [
      { name: "x AND y" },
      { name: "z", price: 2, sold: false, owner: { name: "Ada" }, package: "type", string: 0 },
      { name: "z", price: 0, sold: false, "first name": "A", tags: ["red"], type: "b" },
    ];
    const { inputs } = await readAll(filterItems(streamItems(items, 0), expression));

    expect(inputs.map(({ id }) => id)).toEqual(expected);
  });

  test.each([
    ["price >", "It is CEL: "],
    ["a AND b", "&& for and"],
    ["a > 1 or b", "|| for or"],
    ["not sold", "! for not"],
    ["a = 1", "== for equal"],
    ["a === 1", "== for equal"],
    ["a <> 1", "!= for not equal"],
    ["name LIKE '%x%'", 'name.contains("x")'],
    ["status in ('a', 'b')", 'status in ["a", "b"]'],
    ["owner is not null", "== null"],
    ["name.toLowerCase() == 'x'", "lowerAscii()"],
    ["contains(name, 'x')", 'name.contains("x")'],
    ["1 + 1", "It is CEL: "],
    ["__proto__ == 1", "It is CEL: "],
  ])("%s is an error, with a hint", (expression, hint) => {
    expect(() => filterItems([], expression)).toThrow(
      expect.objectContaining({ code: "invalid_expression", hint: expect.stringContaining(hint) }),
    );
  });

  test("gives no hint for words inside a text", () => {
    expect(() => filterItems([], "name == 'this and that' &&")).toThrow(
      expect.objectContaining({ hint: expect.stringMatching(/^It is CEL/) }),
    );
  });

  test("reports why items are undecided", async () => {
    const { report } = await readAll(
      filterItems(streamItems([{}, { price: "x" }, 5, { price: null }, { price: 4 }]), "price > 3"),
    );

    expect(report).toMatchObject({ input: 5, dropped: 0, undecided: 4 });
    expect(report.warning).toBe(
      "4 of 5 items are left out because the condition cannot be decided for them. has(item.name) && … is false where a field is missing.",
    );
    expect(report.reasons).toHaveLength(3);
    expect(report.reasons[0]).toEqual({ position: 0, reason: "Unknown variable: price" });
    expect(report.reasons[1]).toEqual({ position: 1, reason: expect.stringContaining("no such overload") });
  });

  test("does not warn if all items were decided", async () => {
    expect((await readAll(filterItems(streamItems([{ a: 1 }, { a: 2 }]), "a > 1"))).report).not.toHaveProperty(
      "warning",
    );
  });

  test("fails if no item can be decided, and lists the fields", async () => {
    const items = [
      { id: 1, status: "open" },
      { id: 2, amount: "7" },
    ];

    await expect(readAll(filterItems(streamItems(items), "statsu == 'open'"))).rejects.toMatchObject({
      code: "invalid_expression",
      message:
        "it can be decided for none of 2 items: Unknown variable: statsu; they have: id, status, amount; did you mean status?",
      hint: expect.stringContaining("has(item.name)"),
    });
    await expect(readAll(filterItems(streamItems(items.slice(1)), "amount > 3"))).rejects.toMatchObject({
      message: expect.stringContaining("none of 1 item: no such overload"),
      hint: expect.stringContaining("double(name)"),
    });
    await expect(readAll(filterItems(streamItems(["a", [1]]), "amount > 3"))).rejects.toThrow(
      "they have no fields: each is a string or an array",
    );
    await expect(readAll(filterItems(streamItems([]), "amount > 3"))).resolves.toMatchObject({ report: { input: 0 } });
  });

  test("lists a limited number of fields", async () => {
    const wide = Object.fromEntries(Array.from({ length: 2_000 }, (_, at) => [`field_${at}`, at]));

    await expect(readAll(filterItems(streamItems([wide]), "other == 1"))).rejects.toThrow(/field_19, and 980 more$/);
  });

  test("knows only names of the item", async () => {
    await expect(readAll(filterItems(streamItems([{}]), "valueOf == 1"))).rejects.toThrow("Unknown variable: valueOf");
  });

  test("reads little more of its input than is consumed", async () => {
    const source = createEndlessItems((n) => ({ n }));
    const taken = [];
    for await (const { content } of takeFirst(filterItems(source.inputs, "n >= 2").items, 2)) taken.push(content);

    expect(taken).toEqual([{ n: 2 }, { n: 3 }]);
    expect(source.read()).toBeLessThanOrEqual(100);
  });
});
