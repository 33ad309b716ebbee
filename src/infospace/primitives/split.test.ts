import { describe, expect, test } from "vitest";
import type { Json } from "../../core/json.ts";
import { parseJsonPath } from "../json-path.ts";
import { splitItems } from "./split.ts";
import { readAll } from "./testing.ts";

const apart = async (contents: readonly Json[], path = "") =>
  readAll(
    splitItems(
      contents.map((content) => ({ content })),
      { path: parseJsonPath(path), delimiter: "" },
    ),
  );

const records = Array.from({ length: 9 }, (_, id) => ({ id, title: `title ${id}` }));
const jsonLines = records.map((each) => JSON.stringify(each)).join("\n");

describe("detection", () => {
  test.each<[string, Json, readonly Json[], object]>([
    ["a list", [1, [2]], [1, [2]], { by: ["items"] }],
    ["an empty list", [], [], { by: ["items"] }],
    ["the JSON of a list", ' [1, {"a": 2}] ', [1, { a: 2 }], { by: ["items"] }],
    ["JSON lines", jsonLines, records, { by: ["json_lines"] }],
    ["an object with one list", { next: null, results: records }, records, { by: ["items"], paths: ["results"] }],
    ["an object with an empty list", { n: 0, results: [] }, [], { by: ["items"], paths: ["results"] }],
    ["an object with several", { tags: ["a", "b"], rows: records }, records, { by: ["items"], paths: ["rows"] }],
    [
      "a list of one beside another",
      { tags: ["a"], rows: [records[0] ?? null] },
      [records[0] ?? null],
      { paths: ["rows"] },
    ],
    [
      "a list of one with a list",
      { rows: [{ title: "a title", tags: [1] }] },
      [{ title: "a title", tags: [1] }],
      { paths: ["rows"] },
    ],
    ["a list farther in", { data: { rows: records } }, records, { by: ["items"], paths: ["data.rows"] }],
    ["a list in a list of one", { results: [{ n: 9, rows: records }] }, records, { paths: ["results[0].rows"] }],
    [
      "a list in the text of an object",
      { content: [{ text: JSON.stringify(records) }] },
      records,
      { paths: ["content[0].text"] },
    ],
    ["lines in the text of an object", { text: jsonLines }, records, { by: ["json_lines"], paths: ["text"] }],
    ["the JSON of an object", JSON.stringify({ next: 1, rows: records }), records, { by: ["items"] }],
    ["keys that are no words", JSON.parse('{"__proto__": [1, 2]}'), [1, 2], { paths: ["__proto__"] }],
    ["paragraphs", "a\nb\n\nc\n", ["a\nb", "c"], { by: ["paragraph"] }],
    ["lines", "a\nb\nc", ["a", "b", "c"], { by: ["line"] }],
    ["lines with a gap among many", `${"x\n".repeat(30)}\ny`, [...Array(30).fill("x"), "", "y"], { by: ["line"] }],
    ["one line", "One. Two.", ["One. ", "Two."], { by: ["sentence"] }],
    [
      "ids with more digits than a number has",
      "[12345678901234567890,\n1]",
      ["[12345678901234567890,", "1]"],
      { by: ["line"] },
    ],
    ["nothing", "", [], { dropped: 0 }],
  ])("%s", async (_, content, parts, told) => {
    const { contents, report } = await apart([content]);

    expect(contents).toEqual(parts);
    expect(report).toMatchObject({ input: 1, dropped: 0, dropped_lines: 0, ...told });
    if ("by" in told && !("paths" in told)) expect(report).not.toHaveProperty("paths");
  });

  test("splits similar items alike, even if another list is longer", async () => {
    const { contents, report } = await apart([
      { tags: ["a", "b"], refs: [1] },
      { tags: ["c"], refs: [1, 2, 3, 4, 5, 6, 7] },
      { refs: [8, 9] },
    ]);

    expect(contents).toEqual(["a", "b", "c", 8, 9]);
    expect(report).toMatchObject({ by: ["items"], paths: ["tags", "refs"] });
    const texts = await apart(["a\n\nb", "c\nd", '["e"]']);
    expect(texts.contents).toEqual(["a", "b", "c\nd", "e"]);
    expect(texts.report.by).toEqual(["paragraph", "items"]);
  });

  test("counts items that cannot be split, with reasons", async () => {
    const { contents, report } = await apart([{ name: "Ada" }, 5, '{"a": 1}', null]);

    expect(contents).toEqual([]);
    expect(report).toMatchObject({
      input: 4,
      dropped: 4,
      by: [],
      reasons: [
        { position: 0, reason: "it is an object without a list: give the path of a text in it" },
        { position: 1, reason: "it is a number, neither a list nor a text" },
        { position: 2, reason: "it is the JSON of an object without a list" },
      ],
    });
  });

  test("reports few paths, and none that is long or has control characters", async () => {
    const odd = [{ [`k${"x".repeat(900)}`]: [1] }, { "a\u202eb": [2] }];
    const many = Array.from({ length: 30 }, (_, at) => ({ [`k${at}`]: [at] }));
    const { contents, report } = await apart([...odd, ...many]);

    expect(contents).toEqual([1, 2, ...many.map((_, at) => at)]);
    expect(report.paths).toEqual(Array.from({ length: 10 }, (_, at) => `k${at}`));
  });

  test("detects lists below a path, and reports the whole path", async () => {
    const { contents, report } = await apart([{ data: { rows: [1, 2] }, more: records }], "data");

    expect(contents).toEqual([1, 2]);
    expect(report.paths).toEqual(["data.rows"]);
  });
});
