import { RE2JS } from "re2js";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { createHitOrder, type HitOptions } from "./hits.ts";
import { action, createTestView } from "./lexical/testing.ts";
import { PATTERN_LIMIT, searchByPattern } from "./pattern-search.ts";

const all = [
  action("file__read", { description: "Reads a text.", tags: ["disk"], aliases: ["cat"] }),
  action("file__read_lines", "Reads some lines."),
  action("mcp__files__list", "Lists what is there."),
  action("note__write", "Writes a note to a file."),
];
const options = { limit: 10, order: createHitOrder() };

function hitsOf(pattern: string, view = createTestView(all), wishes: Partial<HitOptions> = {}) {
  const answer = searchByPattern(pattern, view, { ...options, ...wishes });
  if ("unreadable" in answer) throw new Error(answer.unreadable);
  return answer;
}

const found = (pattern: string, view = createTestView(all)) =>
  hitsOf(pattern, view).hits.map((hit) => [hit.action.name as string, hit.score]);

describe("a regular expression", () => {
  test("scores higher the more of the name it matches", () => {
    expect(found("FILE__read")).toEqual([
      ["file__read", 0.95],
      ["file__read_lines", 0.9],
    ]);
    expect(found("file")).toEqual([
      ["file__read", 0.9],
      ["file__read_lines", 0.9],
      ["mcp__files__list", 0.85],
      ["note__write", 0.75],
    ]);
  });

  test.each([
    ["a tag", "^disk$", "file__read"],
    ["an alias", "^cat$", "file__read"],
    ["the description", "what.*there", "mcp__files__list"],
  ])("searches %s", (_, pattern, name) => {
    expect(found(pattern)).toEqual([[name, 0.75]]);
  });

  test("returns only visible and accepted actions", () => {
    const [first] = all;

    expect(found("read", createTestView(all, all.slice(0, 1)))).toEqual([["file__read_lines", 0.85]]);
    expect(hitsOf("read", createTestView(all), { accepts: (each) => each === first }).hits.length).toBe(1);
    expect(hitsOf("file", createTestView(all), { limit: 2 })).toMatchObject({ hits: { length: 2 }, complete: true });
  });

  test.each([
    ["(", "cannot be read (RE2 syntax)"],
    ["[a", "cannot be read (RE2 syntax)"],
    ["a{3,1}", "cannot be read (RE2 syntax)"],
    ["(?=ahead)", "cannot be read (RE2 syntax)"],
    ["(a)\\1", "cannot be read (RE2 syntax)"],
    ["x".repeat(PATTERN_LIMIT + 1), "is too long"],
    ["(a?){1000}x", "asks for too much work"],
    ["(a?a?a?){300}x", "asks for too much work"],
    ["(\\w|a|.){500}z", "asks for too much work"],
    [".{500}", "asks for too much work"],
  ])("%s is unreadable", (pattern, unreadable) => {
    expect(searchByPattern(pattern, createTestView(all), options)).toEqual({ unreadable });
  });

  test("that would be very large is not compiled", () => {
    const compile = vi.spyOn(RE2JS, "compile");
    onTestFinished(() => compile.mockRestore());

    for (const pattern of [`(?:${"a?".repeat(123)}){1000}`, `(((${"a?".repeat(110)}){10,}){2,10}){10}`]) {
      expect(searchByPattern(pattern, createTestView(all), options)).toEqual({ unreadable: "asks for too much work" });
    }
    expect(hitsOf("[0-9]{4}-[0-9]{2}-[0-9]{2}.{0,40}read")).toEqual({ hits: [], complete: true });
    expect(compile).toHaveBeenCalledTimes(2); // once as it is, once for the start of a name
  });

  test("can quote, with or without an end", () => {
    const view = createTestView([action("a__b", "It costs 1.5 (or so)\\")]);

    for (const pattern of ["\\Q1.5 (", "\\Q1.5\\E .o", "\\Qso)\\"])
      expect(found(pattern, view)).toEqual([["a__b", 0.75]]);
    expect(found("\\Qa__")).toEqual([]);
    expect(found("\\Qa__", view)).toEqual([["a__b", 0.9]]);
  });

  test("searches the first 2,000 characters of an action", () => {
    const at = (place: number) => createTestView([action("x__y", `${"a".repeat(place)}!`)]);

    expect(found("a!", at(1_999))).toEqual([["x__y", 0.75]]);
    expect(hitsOf("a!", at(2_000))).toEqual({ hits: [], complete: true });
  });
});

describe("the work of a regular expression", () => {
  test("is small for a usual one, even with many actions", () => {
    const many = Array.from({ length: 5_000 }, (_, at) => action(`x__read_${at}_file`, `${words(at % 100)} write`));

    for (const pattern of [
      "read.*file$",
      "^get_.*(list|item)s?$",
      "\\bfile\\b|\\bnote\\b",
      "\\pL+ \\pN+x",
      "(.*a){25}!",
    ]) {
      expect(hitsOf(pattern, createTestView(many)).complete).toBe(true);
    }
    expect(hitsOf("write$", createTestView(many), { limit: 9_999 }).hits.length).toBe(5_000);
  });

  // Each of them leads to a state of its own at nearly every character, and some to more than the engine keeps.
  test.each(["a.{40}z", "a.{200}z", "a.{450}z", "(a.{0,40}b.{0,40}){3}z", "(a|b\\pL).{30}\\pN", "[a\\pN].{20}\\pN"])(
    "stops at a work limit for %s, and searches names first",
    (pattern) => {
      const many = Array.from({ length: 500 }, (_, at) => action(`x__y${at}`, letters(at)));
      const last = action("x__z", "Something.");
      const test = vi.spyOn(RE2JS.prototype, "test");
      onTestFinished(() => test.mockRestore());

      expect(hitsOf(pattern, createTestView([...many, last])).complete).toBe(false);

      const texts = test.mock.calls.map(([text]) => text as string);
      expect(texts).toContain("x__z");
      // What is left of 950,000 characters: fewer, the larger the program is.
      const characters = texts.reduce((sum, text) => sum + text.length, 0);
      expect(characters * RE2JS.compile(pattern).programSize()).toBeLessThan(30_000_000);
    },
  );

  test("ends at the limit for any pattern", () => {
    const [first, ...others] = Array.from({ length: 9_000 }, (_, at) => action(`x__y${at}`, "b".repeat(2_000)));
    const same = others.map((each) => ({ ...each, description: first?.description ?? "" }));

    expect(hitsOf("a", createTestView(same.slice(0, 5_000))).complete).toBe(true);
    expect(hitsOf("a", createTestView(same)).complete).toBe(false);
  });

  // On an engine that goes back this would not end within the life of the test.
  test.each(["(a+)+$", "(a|aa)*b", "(.*a){25}"])("does not grow without end for %s", (pattern) => {
    const long = action("x__y", `${"a".repeat(1_900)}!`);

    expect(hitsOf(pattern, createTestView([long])).complete).toBe(true);
  });
});

/** As good as random, and the same each time. */
function letters(seed: number): string {
  let state = seed + 1;
  const next = () => {
    state = (state * 1_103_515_245 + 12_345) & 0x7fff_ffff;
    return state > 0x3fff_ffff ? "a" : "b";
  };
  return Array.from({ length: 1_900 }, next).join("");
}

function words(seed: number): string {
  return letters(seed).slice(0, 200).replaceAll("ab", " get ").replaceAll("ba", " item ");
}
