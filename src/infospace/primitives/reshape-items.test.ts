import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Json } from "../../core/json.ts";
import { parseJsonPath } from "../json-path.ts";
import { type Coercion, coerceFailureModes, coerceItems, coercions } from "./coerce.ts";
import { gatherList, gatherText, spreadLists } from "./flatten.ts";
import { takeFirst } from "./operation.ts";
import { type SplitMode, splitItems } from "./split.ts";
import { anyItem, anyJson, createEndlessItems, readAll, streamItems, toTexts } from "./testing.ts";

const made = async (content: Json, to: Coercion, delimiter = ",") => {
  const { contents, report } = await readAll(
    coerceItems([{ content }], { to, path: parseJsonPath(""), delimiter, failing: "drop" }),
  );
  return contents.length === 0 ? report.reasons[0]?.reason : contents[0];
};

describe("coerce", () => {
  test.each<[Json, Coercion, Json]>([
    ["as it is", "string", "as it is"],
    [{ b: [1] }, "string", '{"b":[1]}'],
    [null, "string", "null"],
    ["3", "int", 3],
    [" -3.0 ", "int", -3],
    [true, "int", 1],
    ["2.5e1", "float", 25],
    [".5", "float", 0.5],
    [7, "float", 7],
    ["Yes", "bool", true],
    [0, "bool", false],
    ["off", "bool", false],
    ['{"a":[1]}', "json", { a: [1] }],
    [[1], "json", [1]],
    ["a, b,,c ", "list", ["a", "b", "", "c"]],
    ["", "list", []],
    [[1, 2], "list", [1, 2]],
    [5, "list", [5]],
    [{ name: "Ada", tags: ["x"] }, "text", 'name: Ada\ntags: ["x"]'],
    [["a", 1], "text", "a\n1"],
  ])("%j to %s is %j", async (value, to, expected) => {
    expect(await made(value, to)).toEqual(expected);
  });

  test.each<[Json, Coercion, RegExp]>([
    ["3.7", "int", /^3.7 is not a whole number/],
    ["9007199254740993", "int", /whole number that fits/],
    ["0x10", "float", /^"0x10" is not a number/],
    ["", "float", /not a number/],
    ["1e999", "float", /not a number/],
    [null, "int", /^null is not a number/],
    [[1], "float", /^a list is not a number/],
    ["", "bool", /neither true nor false/],
    [2, "bool", /^2 is neither/],
    ["{", "json", /not JSON/],
  ])("%j to %s fails, with the reason", async (value, to, reason) => {
    expect(await made(value, to)).toMatch(reason);
  });

  test("counts every loss, and changes only the value at the path", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(anyItem, { maxLength: 8 }),
        fc.constantFrom(...coercions),
        fc.constantFrom(...coerceFailureModes),
        fc.constantFrom("", "a", "__proto__"),
        async (items, to, failing, name) => {
          const { contents, report } = await readAll(
            coerceItems(streamItems(items), { to, path: parseJsonPath(name), delimiter: ",", failing }),
          );

          expect(contents.length + report.dropped).toBe(items.length);
          expect(report.dropped).toBe(failing === "drop" ? report.failed : 0);
          expect(report.reasons).toHaveLength(Math.min(report.failed, 3));
          if (failing === "drop" || name === "") return;
          const rest = (item: Json) =>
            typeof item === "object" && item !== null && !Array.isArray(item)
              ? Object.fromEntries(Object.entries(item).filter(([key]) => key !== name))
              : item;
          expect(toTexts(contents.map(rest))).toEqual(toTexts(items.map(rest)));
        },
      ),
    );
  });
});

const parts = async (content: Json, by: SplitMode, delimiter = ",", path = "") => {
  const { contents, report } = await readAll(splitItems([{ content }], { by, delimiter, path: parseJsonPath(path) }));
  return report.dropped + report.dropped_lines === 0 ? contents : report;
};

describe("split", () => {
  test.each<[Json, SplitMode, readonly Json[]]>([
    ["One.  Two?\nThree", "sentence", ["One.  ", "Two?\n", "Three"]],
    ["a\n\n  b\nc  \n \t\n\n\nd\n", "paragraph", ["a", "  b\nc  ", "d"]],
    ["a\r\n\n b \rc\n", "line", ["a", "", " b ", "c"]],
    ["a,,b ,", "delimiter", ["a", "", "b ", ""]],
    [[1, [2], null], "items", [1, [2], null]],
    [' [1, {"a": 2}] ', "items", [1, { a: 2 }]],
    ['{"a":1}\n\n[2]\n', "json_lines", [{ a: 1 }, [2]]],
    ["", "sentence", []],
    ["\n \n", "paragraph", []],
    ["", "delimiter", []],
    ["", "json_lines", []],
    ["", "items", []],
    [[], "items", []],
  ])("%j by %s is %j", async (content, by, expected) => {
    expect(await parts(content, by)).toEqual(expected);
  });

  test("counts items that cannot be split, with reasons", async () => {
    expect(await parts([1], "line")).toMatchObject({
      dropped: 1,
      reasons: [{ position: 0, reason: 'it is an array, not a text: "items" takes its items' }],
    });
    expect(await parts({ a: 1 }, "items")).toMatchObject({
      dropped: 1,
      reasons: [{ reason: "it is an object, not a list" }],
    });
    expect(await parts("{}", "items")).toMatchObject({
      dropped: 1,
      reasons: [{ reason: "it is the JSON of an object, not of a list" }],
    });
    expect(await parts({ a: 1 }, "items", ",", "b")).toMatchObject({
      dropped: 1,
      reasons: [{ reason: "the value has no b; it has: a" }],
    });
    expect(await parts('1\n{"a":\n2', "json_lines")).toMatchObject({
      dropped: 0,
      dropped_lines: 1,
      reasons: [{ reason: expect.stringMatching(/^line 2 is not JSON/) }],
    });
  });

  test("keeps every character", async () => {
    const text = fc.string({ unit: fc.constantFrom(..."ab. !?\n\r\t,;é😀"), maxLength: 40 });
    await fc.assert(
      fc.asyncProperty(text, fc.constantFrom(",", "ab", ". "), async (value, delimiter) => {
        expect(((await parts(value, "sentence")) as string[]).join("")).toBe(value);
        expect(((await parts(value, "delimiter", delimiter)) as string[]).join(delimiter)).toBe(value);
        const unended = value.replace(/(\r\n|\n|\r)$/, "");
        expect(await parts(value, "line")).toEqual(value === "" ? [] : unended.split(/\r\n|\n|\r/));
        const blank = (each: string) => each.replace(/\s/g, "");
        expect(blank(((await parts(value, "paragraph")) as string[]).join(""))).toBe(blank(value));
      }),
      { numRuns: 500 },
    );
  });

  test("reads no more of its input than is consumed", async () => {
    const source = createEndlessItems((n) => `${n}a,${n}b`);
    const taken = [];
    for await (const { content } of takeFirst(
      splitItems(source.inputs, { by: "delimiter", delimiter: ",", path: parseJsonPath("") }).items,
      3,
    ))
      taken.push(content);

    expect(taken).toEqual(["0a", "0b", "1a"]);
    expect(source.read()).toBe(2);
  });
});

describe("flatten", () => {
  test("replaces lists by their items, one level down", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyJson, { maxLength: 8 }), async (items) => {
        const { contents, report } = await readAll(spreadLists(streamItems(items, 1)));

        expect(toTexts(contents)).toEqual(toTexts(items.flat(1) as Json[]));
        expect(report).toEqual({
          input: items.length,
          dropped: 0,
          lists: items.filter((item) => Array.isArray(item)).length,
        });
      }),
    );
  });

  test("makes one text or one list, and counts items beyond the limit", async () => {
    expect(await gatherText(streamItems(["a", { n: 1 }, 2]), "--", 100)).toEqual({
      value: "a--n: 1--2",
      input: 3,
      leftOut: 0,
    });
    expect(await gatherText(streamItems(["aaaa", "bb", "c"]), "", 5)).toEqual({ value: "aaaa", input: 3, leftOut: 2 });
    expect(await gatherList(streamItems(["a", [1]]), 100)).toEqual({ value: ["a", [1]], input: 2, leftOut: 0 });
    expect(await gatherList(streamItems(["a", "bbbb"]), 6)).toEqual({ value: ["a"], input: 2, leftOut: 1 });
    expect(await gatherText([], "\n", 5)).toEqual({ value: "", input: 0, leftOut: 0 });
  });
});
