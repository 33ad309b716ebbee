import { describe, expect, test } from "vitest";
import { hitOrder } from "./hit.ts";
import { action, viewOf } from "./lexical/testing.ts";
import { regexSearch } from "./regex.ts";

const all = [
  action("file__read", { description: "Reads a text.", tags: ["disk"], aliases: ["cat"] }),
  action("file__read_lines", "Reads some lines."),
  action("mcp__files__list", "Lists what is there."),
  action("note__write", "Writes a note to a file."),
];
const options = { limit: 10, order: hitOrder() };
const found = (pattern: string, view = viewOf(all)) =>
  regexSearch(pattern, view, options)?.map((hit) => [hit.action.name as string, hit.score]);

describe("a regular expression", () => {
  test("counts the more, the more of the name it is", () => {
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
  ])("looks at %s", (_, pattern, name) => {
    expect(found(pattern)).toEqual([[name, 0.75]]);
  });

  test("sees only what the view does, and only what is wanted", () => {
    const [first] = all;

    expect(found("read", viewOf(all, all.slice(0, 1)))).toEqual([["file__read_lines", 0.85]]);
    expect(regexSearch("read", viewOf(all), { ...options, accepts: (each) => each === first })?.length).toBe(1);
    expect(regexSearch("file", viewOf(all), { ...options, limit: 2 })?.length).toBe(2);
  });

  test.each(["(", "[a", "a{3,1}", "(?=ahead)", "(a)\\1", "x".repeat(257)])("%s is none", (pattern) => {
    expect(regexSearch(pattern, viewOf(all), options)).toBeUndefined();
  });

  test("that is large gets less to look at, names first", () => {
    const many = Array.from({ length: 60 }, (_, at) => action(`x__y${at}`, "a".repeat(2_000)));
    const last = action("z__aab");
    const view = viewOf([...many, last]);

    expect(regexSearch("aa", view, { ...options, limit: 100 })?.length).toBe(61);
    expect(regexSearch("(a{1,450}){1,2}b", view, options)?.map((hit) => hit.action)).toEqual([last]);
    expect(regexSearch("(a{1,450}){1,2}", view, { ...options, limit: 100 })?.length).toBeLessThan(40);
  });

  // On an engine that goes back this would not end within the life of the test.
  test.each(["(a+)+$", "(a|aa)*b", "(.*a){25}"])("%s does not hold anybody up", (pattern) => {
    const long = action("x__y", `${"a".repeat(1_900)}!`);

    expect(regexSearch(pattern, viewOf([long]), options)).toBeDefined();
  });
});
