import { describe, expect, onTestFinished, test, vi } from "vitest";
import { createHitOrder } from "./hits.ts";
import { action, createTestView } from "./lexical/testing.ts";
import { searchExact } from "./pattern-search.ts";

const read = action("file__read", { description: "Reads a text.", tags: ["Disk"], aliases: ["cat"] });
const write = action("file__write", { description: "Writes a text.", tags: ["disk"] });
const view = createTestView([read, write]);
const options = { limit: 10, order: createHitOrder() };

describe("an exact search", () => {
  test.each([
    ["the name", "FILE__READ", [read], 1],
    ["the name without its category", "read", [read], 1],
    ["an alias", "Cat", [read], 1],
    ["the whole description", " reads a text. ", [read], 0.9],
    ["a tag", "disk", [read, write], 0.9],
    ["nothing less than that", "file", [], 0],
    ["nothing", "", [], 0],
  ])("matches %s", (_, query, expected, score) => {
    expect(searchExact(query, view, options)).toEqual(expected.map((each) => ({ action: each, score })));
  });

  test("returns only visible and accepted actions, up to the limit", () => {
    expect(searchExact("disk", createTestView([read, write], [read]), options).length).toBe(1);
    expect(searchExact("disk", view, { ...options, accepts: (each) => each === write }).length).toBe(1);
    expect(searchExact("disk", view, { ...options, limit: 1 })).toEqual([{ action: read, score: 0.9 }]);
  });

  test("matches text that is longer in lower case", () => {
    const istanbul = action("map__city", "İİİ");

    for (const query of ["İİİ", "İİİ".toLowerCase()]) {
      expect(searchExact(query, createTestView([istanbul]), options)).toEqual([{ action: istanbul, score: 0.9 }]);
    }
  });

  test("does not lower-case text that cannot match", () => {
    const many = Array.from({ length: 50 }, (_, at) =>
      action(`thing__number_${at}`, `Handles thing ${at} quite well.`),
    );
    const view = createTestView([...many, read]);
    const lowerCase = vi.spyOn(String.prototype, "toLowerCase");
    onTestFinished(() => lowerCase.mockRestore());

    const hits = searchExact("CAT", view, options);

    const calls = lowerCase.mock.calls.length;
    expect([hits.length, calls]).toEqual([1, 2]); // the query and the alias
  });
});
