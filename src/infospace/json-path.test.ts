import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { QmError } from "../core/errors.ts";
import type { Json } from "../core/json.ts";
import { formatJsonPath, type PathStep, parseJsonPath, readJsonPath, replaceJsonPath } from "./json-path.ts";

const value: Json = {
  items: [{ id: 7 }, { id: 8 }, { id: null }],
  owner: { name: "Ada", email: "a@x" },
  "b.c": { "": { 'say "hi"': 1 } },
  ünï: "c",
  empty: {},
};

const at = (path: string) => readJsonPath(value, parseJsonPath(path));

describe("a path", () => {
  test.each<[string, readonly PathStep[]]>([
    ["", []],
    ["items", ["items"]],
    ["items[0].id", ["items", 0, "id"]],
    ["[0][-1]", [0, -1]],
    ['a["b.c"][-1]', ["a", "b.c", -1]],
    ['["first name"].x', ["first name", "x"]],
    ["first name.x", ["first name", "x"]],
    ['["\\u0000"]', ["\0"]],
    ["__proto__.constructor", ["__proto__", "constructor"]],
  ])("parses %j", (text, steps) => {
    expect(parseJsonPath(text).steps).toEqual(steps);
  });

  test.each([
    ["a..b", /goes wrong at character 2/],
    [".a", /character 1/],
    ["a.", /character 2/],
    ["a[", /character 2, "\["/],
    ["a[1.5]", /character 2/],
    ["a[]", /character 2/],
    ["a[0]b", /character 5/],
    ["a['b']", /character 2/],
    ['a["b]', /character 2/],
    ['a["\\x"]', /character 2/],
    ["a\nb", /character 2/],
    ["x".repeat(513), /longer than 512/],
  ])("rejects %.20j", (text, message) => {
    expect(() => parseJsonPath(text)).toThrow(message);
    expect(() => parseJsonPath(text)).toThrow(QmError);
    try {
      parseJsonPath(text);
    } catch (thrown) {
      expect((thrown as QmError).code).toBe("invalid_arguments");
    }
  });

  test("reads the value", () => {
    expect(at("")).toEqual({ found: true, value });
    expect(at("items[1].id")).toEqual({ found: true, value: 8 });
    expect(at("items[-1].id")).toEqual({ found: true, value: null });
    expect(at('["b.c"][""]["say \\"hi\\""]')).toEqual({ found: true, value: 1 });
    expect(at("ünï")).toEqual({ found: true, value: "c" });
  });

  test.each([
    ["items[3]", "items has 3 items, so there is no [3]"],
    ["items[-4].id", "items has 3 items, so there is no [-4]"],
    ["items.id", "items is a list of 3 items, whose parts have positions: items[0]"],
    ["owner.phone", "owner has no phone; it has: name, email"],
    ["owner[0]", "owner is an object, which has no [0]; it has: name, email"],
    ["owner.name.first", "owner.name is a string, which has no parts"],
    ["items[2].id.x", "items[2].id is null"],
    ["empty.x", "empty has no x; it has no fields"],
    ["nobody.x", "the value has no nobody; it has: items, owner, b.c, ünï, empty"],
  ])("describes where %s ends", (path, missing) => {
    expect(at(path)).toEqual({ found: false, missing });
  });

  test("finds own properties only", () => {
    for (const name of ["__proto__", "constructor", "toString"]) expect(at(name).found).toBe(false);
    expect(at("items.length").found).toBe(false);
    expect(readJsonPath(JSON.parse('{"__proto__":{"x":1}}'), parseJsonPath("__proto__.x"))).toEqual({
      found: true,
      value: 1,
    });
    expect(readJsonPath("text", parseJsonPath("length")).found).toBe(false);
  });

  test("describes a missing part briefly, without control characters", () => {
    const wide = Object.fromEntries(Array.from({ length: 5000 }, (_, index) => [`field\u001b[2J${index}`, index]));
    const answer = readJsonPath({ ["x".repeat(2000)]: wide }, { steps: ["x".repeat(2000), "y".repeat(2000)] });

    expect(answer).toMatchObject({ found: false });
    if (answer.found) throw new Error("found");
    expect(answer.missing.length).toBeLessThan(1200);
    expect(answer.missing).not.toContain("\u001b");
    expect(answer.missing).toContain("and 4992 more");
  });

  test("replaces a value and keeps the rest", () => {
    const hostile = JSON.parse('{"__proto__":{"a":[1,2]},"b":1}') as Json;
    const changed = replaceJsonPath(hostile, parseJsonPath("__proto__.a[-1]"), "new");

    expect(JSON.stringify(changed)).toBe('{"__proto__":{"a":[1,"new"]},"b":1}');
    expect(JSON.stringify(hostile)).toBe('{"__proto__":{"a":[1,2]},"b":1}');
    expect(replaceJsonPath(hostile, parseJsonPath(""), 5)).toBe(5);
  });

  test("parses back what was formatted, for any names", () => {
    const step = fc.oneof(fc.string({ unit: "binary", maxLength: 6 }), fc.integer({ min: -999, max: 999 }));
    fc.assert(
      fc.property(fc.array(step, { maxLength: 6 }), (steps) => {
        expect(parseJsonPath(formatJsonPath(steps)).steps).toEqual(
          steps.map((each) => (Object.is(each, -0) ? 0 : each)),
        );
      }),
    );
  });

  test("takes -0 as the first position", () => {
    expect(parseJsonPath("[-0]").steps).toEqual([0]);
  });

  test("parses or rejects any text", () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(...'ab.[]"\\0-1 é'), maxLength: 20 }), (text) => {
        try {
          const { steps } = parseJsonPath(text);
          expect(parseJsonPath(formatJsonPath(steps)).steps).toEqual(steps);
        } catch (thrown) {
          expect((thrown as QmError).code).toBe("invalid_arguments");
        }
      }),
      { numRuns: 2000 },
    );
  });
});
