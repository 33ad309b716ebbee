import { describe, expect, test } from "vitest";
import { isUnfinished, readMethod } from "./method-file.ts";

const read = (fields: Record<string, unknown>) => readMethod(fields, "1. Do it.\n");
const messages = (fields: Record<string, unknown>) =>
  read(fields).problems.map(({ rule, level, message }) => `${level} ${rule}: ${message}`);

describe("the front matter of a method", () => {
  test("has defaults", () => {
    expect(read({})).toMatchObject({
      method: { tools: [], outcomes: ["success"], exports: [], accept: [], budget: 16 },
      problems: [],
    });
  });

  test("takes lists or single texts", () => {
    const { method, problems } = read({
      tools: "file__read, infospace__*",
      outcomes: ["success", "inapplicable", "failed"],
      exports: "summary",
      accept: "exports.summary != ''",
      budget: 100,
    });

    expect(problems).toEqual([]);
    expect(method).toMatchObject({ tools: ["file__read", "infospace__*"], outcomes: ["success", "inapplicable"] });
    expect(method).toMatchObject({ exports: ["summary"], accept: [{ text: "exports.summary != ''" }], budget: 100 });
  });

  test.each<[Record<string, unknown>, string]>([
    [{ tools: [7] }, "error tools"],
    [{ tools: ["two words"] }, "error tools"],
    [{ outcomes: [] }, "error outcomes"],
    [{ outcomes: ["Very Good"] }, "error outcomes"],
    [{ exports: ["a-b"] }, "error exports"],
    [{ accept: { when: "true" } }, "error accept"],
    [{ accept: "exports.x +" }, "error accept"],
    [{ accept: "secrets.x" }, "error accept"],
    [{ accept: "'text'" }, "error accept"],
    [{ accept: "exports.x == 1" }, "warning accept"],
    [{ accept: "notes.x == 1" }, "warning accept"],
    [{ accept: "args.x == 1" }, "warning accept"],
    [{ accept: 'outcome != "won"' }, "warning accept"],
    [{ budget: 101 }, "error budget"],
    [{ budget: "many" }, "error budget"],
    [{ inputs: 7 }, "error inputs"],
  ])("%j is a finding", (fields, start) => {
    expect(messages(fields)).toEqual([expect.stringMatching(new RegExp(`^${start}: `))]);
  });
});

test("an outcome of the method's own counts as finished work", () => {
  expect(["approved", "success", "failed", "inapplicable", "needs_input"].filter(isUnfinished)).toEqual([
    "failed",
    "inapplicable",
    "needs_input",
  ]);
});
