import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { QmError } from "./errors.ts";
import { actionName, getCategory, getEntry, isCategory, isEntry, parseActionName, quoteName } from "./names.ts";

const word = fc.stringMatching(/^[a-z][a-z0-9]{0,6}$/);
const category = fc
  .tuple(word, fc.array(fc.tuple(fc.constantFrom(".", "_", "-"), word), { maxLength: 3 }))
  .map(([first, rest]) => first + rest.map(([separator, part]) => separator + part).join(""));
const entry = fc
  .string({ unit: fc.constantFrom(..."abcXYZ019_.:/@+~-éß日"), minLength: 1, maxLength: 40 })
  .filter(isEntry);

describe("names", () => {
  test("a name gives back its category and entry", () => {
    fc.assert(
      fc.property(category, entry, (c, e) => {
        const name = actionName(c, e);

        expect(parseActionName(name)).toBe(name);
        expect(getCategory(name)).toBe(c);
        expect(getEntry(name)).toBe(e);
      }),
      { numRuns: 2000 },
    );
  });

  test("two different pairs never make the same name", () => {
    fc.assert(
      fc.property(category, entry, category, entry, (c1, e1, c2, e2) => {
        expect(actionName(c1, e1) === actionName(c2, e2)).toBe(c1 === c2 && e1 === e2);
      }),
      { numRuns: 2000 },
    );
  });

  test("parses any text without throwing", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 300 }), (text) => {
        const name = parseActionName(text);

        if (name !== undefined) expect(actionName(getCategory(name), getEntry(name))).toBe(text);
      }),
      { numRuns: 2000 },
    );
  });

  test.each([
    ["agent.peer__alice", "agent.peer", "alice"],
    ["mcp__github__create_issue", "mcp", "github__create_issue"],
    ["mcp__call_tool", "mcp", "call_tool"],
    ["mcp__install_registry", "mcp", "install_registry"],
    ["rag_corpus__meetings", "rag_corpus", "meetings"],
    ["file__read", "file", "read"],
    ["file___hidden", "file", "_hidden"],
  ])("%s is %s and %s", (text, category, entry) => {
    const name = parseActionName(text);

    expect(name && [getCategory(name), getEntry(name)]).toEqual([category, entry]);
  });

  test.each(["", "file", "file_read", "__read", "file__", "File__read", "fi__le", "a.__b", "a b__c", "file__a b"])(
    "%j is no name or splits where it says",
    (text) => {
      const name = parseActionName(text);

      expect(name === undefined || `${getCategory(name)}__${getEntry(name)}` === text).toBe(true);
    },
  );

  test("names the wrong part", () => {
    expect(() => actionName("File", "read")).toThrow(/"File" is not a category name/);
    expect(() => actionName("file", "a b")).toThrow(/"a b" is not an entry name in category file/);
    expect(() => actionName("file", "x".repeat(300))).toThrow(QmError);
    expect(isCategory("a__b")).toBe(false);
    // The same letter written in two ways would be two actions that look alike.
    expect(isEntry("e\u0301")).toBe(false);
  });

  test("escapes hostile text", () => {
    expect(quoteName("a\u001b[31m\u202eb\u0000")).toBe('"a\\u001b[31m\\u{202e}b\\u0000"');
    expect(quoteName("x".repeat(500)).length).toBeLessThan(90);
  });
});
