import { expect, test } from "vitest";
import { analyzeExpression, listRequiredFields, type PartialAnswer } from "./expression-analysis.ts";

test("lists the fields that are read directly of each variable", () => {
  const { fields } = analyzeExpression(
    `has(args.pth) && (tool.name == "x" || args["a"].b > 1) && tool.tags.exists(t, t == actor.scope)`,
  );

  expect(fields.map(({ variable, field }) => `${variable}.${field}`)).toEqual([
    "args.pth",
    "tool.name",
    "args.a",
    "tool.tags",
    "actor.scope",
  ]);
});

test.each<[string, PartialAnswer]>([
  ["true", "true"],
  ["tool.name == 'a'", "true"],
  ["tool.efect == 'read'", "error"],
  ["args.path == 'x'", "unknown"],
  ["tool.name == 'b' && args.path == 'x'", "false"],
  ["args.path == 'x' && tool.name == 'b'", "false"],
  ["tool.name == 'a' && args.path == 'x'", "unknown"],
  ["tool.name == 'a' || args.path == 'x'", "true"],
  ["!(tool.name == 'b' && args.path == 'x')", "true"],
  ["tool.efect == 'x' && tool.name == 'b'", "false"],
  ["tool.efect == 'x' && tool.name == 'a'", "error"],
  ["tool.efect == 'x' || ctx.tenant == 'x'", "unknown"],
  ["tool.tags.exists(t, t == 'x')", "true"],
])("answers %s without args and ctx: %s", (text, expected) => {
  expect(analyzeExpression(text).answer({ tool: { name: "a", tags: ["x"] }, actor: {} })).toBe(expected);
});

test.each<[string, readonly string[]]>([
  ["'a' in args && args.a > 1", ["a"]],
  ["tool.name == 'x' && (has(args.b) && 'c' in args) && args.d", ["b", "c"]],
  ["'a' in args || has(args.b)", []],
  ["!('a' in args) && !has(args.b)", []],
  ["'a' in args.list && has(args.a.b) && args.a in args", []],
  ["'a' in actor && has(actor.b)", []],
  ["['a'].exists(args, has(args.b))", []],
])("lists the fields that a condition cannot do without: %s", (text, expected) => {
  expect(listRequiredFields(text, "args")).toEqual(expected);
});
