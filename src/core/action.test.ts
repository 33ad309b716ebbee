import { expect, test } from "vitest";
import { summarizeAction } from "./action.ts";

test.each([
  ["the rest", "Sort issues. Use daily."],
  ["an abbreviation", "Run a statement, e.g. SELECT, on data of the U.S. Treasury, incl. Bonds. More."],
  ["a version", "Move from React 18.2 to 19.0 with Node.js 22. More."],
  ["a name that begins with a dot", "Upgrade projects of .NET to the next version. More."],
  ["a URL", "Read https://example.com/a.b?c=d. More."],
  ["a colon", "Use when: a test fails, or asked. More."],
  ["a quoted question", 'Answers "what is left?" and "who waits?" for a team. More.'],
  ["a question in brackets at the end of a quotation", "Finds a cause ('why now?') → a plan. More."],
  ["sentences in brackets", "Creates folders (one each. Or more.), and moves notes. More."],
  ["a quotation at the end", 'Use it when asked to "write a release." It reads tags.'],
  ["no space after the stop", "改善を続ける。小さく始める。"],
  ["no stop", "Sort issues by age"],
  ["300 characters", `Sort ${"all issues and ".repeat(20)}labels. More.`],
])("the summary of an action is its whole first sentence with %s", (_what, description) => {
  const rest = / (?:More|Use daily|It reads tags)\.$|小さく始める。$/;

  expect(summarizeAction({ description })).toBe(description.replace(rest, ""));
});

test("the summary joins wrapped lines, but not a title with what follows", () => {
  expect(summarizeAction({ description: "Sort issues\n  by age. More." })).toBe("Sort issues by age.");
  expect(summarizeAction({ description: "Sort issues\nArgs: by" })).toBe("Sort issues");
});

test("the summary is limited, also in an open bracket", () => {
  expect(summarizeAction({ description: `(${"a. ".repeat(100_000)}` })).toHaveLength(1024);
});
