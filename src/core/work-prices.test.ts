import { describe, expect, test } from "vitest";
import { compileOpenCondition } from "./expression.ts";
import { LinearPattern } from "./linear-pattern.ts";
import { editDistance } from "./nearest.ts";
import { getValidator } from "./schema-validator.ts";

// Inputs that once cost few units but seconds of processor time. Each must reach its limit or be cheap.

const many = <T>(length: number, make: (at: number) => T): T[] => Array.from({ length }, (_, at) => make(at));

describe("an expression is charged for", () => {
  const facts = {
    rows: many(300, (at) => at),
    fields: Object.fromEntries(many(3_000, (at) => [`k${at}`, at])),
    numbers: many(100_000, (at) => at),
    text: "ab".repeat(500_000),
  };

  test.each([
    "size(fields) > 0",
    "fields.size() > 0",
    "fields.exists(name, true)",
    "size(numbers + numbers) > 0",
    "size(text) > 0",
    "timestamp('2024-01-01T00:00:00Z').getFullYear('America/New_York') > 0",
    "duration('1h') < duration('2h')",
  ])("%s in a loop in a loop", (body) => {
    const condition = compileOpenCondition(`rows.all(a, rows.all(b, ${body}))`);
    const rounds = { left: 100_000_000 };

    expect(() => condition.holds(facts)).toThrow(/more work/);
    // One round only, to measure its price.
    compileOpenCondition(`rows.exists(a, ${body})`).holds(facts, rounds);
    expect(100_000_000 - rounds.left).toBeGreaterThan(150);
  });

  test("a collected list once, not for every item", () => {
    expect(compileOpenCondition("size(numbers.map(each, each)) > 5").holds({ numbers: many(20_000, (at) => at) })).toBe(
      true,
    );
  });
});

describe("a schema is charged for", () => {
  const list = (schema: object) => ({ type: "object", properties: { list: schema } });

  test.each([
    ["many types", list({ items: { type: [...many(4_900, () => "string"), "object"] } }), many(20_000, () => ({}))],
    [
      "many dependent names",
      list({ items: { dependentRequired: { a: many(4_900, () => "a") } } }),
      many(5_000, () => ({ a: 1 })),
    ],
    [
      "looking for a name that was meant",
      list({
        contains: {
          properties: Object.fromEntries(many(4_900, (at) => [`propertyname${at}`, true])),
          additionalProperties: false,
        },
      }),
      many(2_000, () => ({ propertynamf: 1 })),
    ],
    [
      "marking items as evaluated",
      list({ allOf: many(1_000, () => ({ items: true })), unevaluatedItems: false }),
      many(100_000, () => 1),
    ],
    [
      "regular expressions as values",
      list({ items: { format: "regex" } }),
      many(20, (at) => `${"\\p{L}".repeat(1_990)}${at}`),
    ],
  ])("%s", (_what, schema, value) => {
    expect(() => getValidator(schema as never, "result")({ list: value }, 1)).toThrow(/more work/);
  });

  test("repeated counts of the fields of an object", () => {
    const value = Object.fromEntries(many(100_000, (at) => [`k${at}`, at]));
    const schema = { type: "object", allOf: many(1_000, () => ({ minProperties: 1 })) };

    expect(() => getValidator(schema as never, "result")(value, 1)).toThrow(/more work/);
  });

  test("only the part of a value that a comparison needs", () => {
    const schema = list({ enum: many(1_000, () => [] as unknown[]) });
    const value = { list: many(100_000, (at) => at) };
    // Code that serializes the value for each comparison calls this.
    let reads = 0;
    Object.defineProperty(value.list, "0", { enumerable: true, get: () => ++reads });

    expect(getValidator(schema as never, "result")(value, 1)).toHaveLength(1);
    expect(reads).toBe(0);
  });
});

describe("a pattern is too large because of", () => {
  test.each([
    ["ranges read without regard to case", `(?i)${"[B-\u{1e942}]".repeat(120)}`],
    ["ranges that begin with a hyphen", `(?i)${"[--\u{1e942}]".repeat(120)}`],
    ["ranges in hexadecimal", `(?mi:${"[B-\\x{1e942}]".repeat(120)})`],
    ["ranges in one class", `(?i)[${"B-\u{1e942}".repeat(240)}]`],
    ["Unicode properties in one class", `[${"\\pL".repeat(10_000)}]`],
    ["repetitions behind a quoted bracket", `\\Q[\\E${"(?:ab){900}|".repeat(80)}`],
  ])("%s", (_what, source) => {
    expect(LinearPattern.compile(source)).toBe("too_large");
  });

  test("ranges when the whole pattern ignores case", () => {
    expect(LinearPattern.compile("[B-\u{1e942}]".repeat(120), 1)).toBe("too_large");
    expect(LinearPattern.compile("[B-\u{1e942}]".repeat(120))).not.toBe("too_large");
  });

  test.each(["(?i)[\\p{L}\\p{N}_-]{1,64}", "(?i)^[a-z0-9._%+-]+@[a-z0-9-]+$", "[\\p{L}\\p{M} '-]+", "\\Qa[b\\E+"])(
    "nothing in %s",
    (source) => {
      expect(LinearPattern.compile(source)).toBeInstanceOf(LinearPattern);
    },
  );
});

describe("editDistance with a bound", () => {
  /** Every cell of the table, without a bound. */
  function distance(a: string, b: string): number {
    const rows = many(a.length + 1, (row) =>
      many(b.length + 1, (column) => (row === 0 ? column : column === 0 ? row : 0)),
    );
    const at = (row: number, column: number) => rows[row]?.[column] ?? 0;
    for (let row = 1; row <= a.length; row++) {
      for (let column = 1; column <= b.length; column++) {
        const isSame = a[row - 1] === b[column - 1];
        let edits = Math.min(
          at(row - 1, column) + 1,
          at(row, column - 1) + 1,
          at(row - 1, column - 1) + (isSame ? 0 : 1),
        );
        if (row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1])
          edits = Math.min(edits, at(row - 2, column - 2) + 1);
        (rows[row] ?? [])[column] = edits;
      }
    }
    return at(a.length, b.length);
  }

  test("equals the distance computed over the whole table", () => {
    const texts = many(60, (at) => many((at * 7) % 11, (letter) => "abc"[((at + 1) * (letter + 3) * 31) % 3]).join(""));
    for (const a of texts)
      for (const b of texts)
        for (let bound = 0; bound < 6; bound++)
          expect(editDistance(a, b, bound), `${a} ${b} ${bound}`).toBe(Math.min(distance(a, b), bound + 1));
  });
});
