import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { findReferenceProblem, hasReferenceSyntax, listVariables, resolveReference } from "./references.ts";

const env = { HOME: "/home/ann", TOKEN: "s3cret", NESTED: `\${env:TOKEN}`, EMPTY: "" };

describe("resolveReference", () => {
  test.each([
    ["", ""],
    ["plain $ {text} $5", "plain $ {text} $5"],
    [`\${env:HOME}`, "/home/ann"],
    [`\${env:HOME}/a/\${env:TOKEN}`, "/home/ann/a/s3cret"],
    [`$\${env:HOME}`, `\${env:HOME}`],
    [`$\${env:HOME}\${env:HOME}`, `\${env:HOME}/home/ann`],
    [`$$\${env:HOME}`, `$\${env:HOME}`],
    [`$\${anything`, `\${anything`],
    [`\${env:NESTED}`, `\${env:TOKEN}`],
  ])("makes %j into %j", (text, expected) => {
    expect(resolveReference(text, env, "store.path")).toBe(expected);
  });

  test.each([
    [`\${env:NOPE}`, "store.path: the environment variable NOPE is not set"],
    [`\${env:EMPTY}`, "the environment variable EMPTY is not set, or is empty"],
    [`\${env:toString}`, "the environment variable toString is not set"],
    [`\${env:__proto__}`, "the environment variable __proto__ is not set"],
    [`\${file:/etc/passwd}`, `unknown kind of reference "file"; there are \${env:NAME} and \${secret:NAME}`],
    [`\${ENV:HOME}`, 'unknown kind of reference "ENV"'],
    [`\${HOME}`, `"\${HOME}" is not a reference`],
    [`\${}`, `"\${}" is not a reference`],
    [`\${env:}`, '"" is not the name of an environment variable'],
    [`\${env: HOME}`, '" HOME" is not the name'],
    [`\${env:A:-b}`, '"A:-b" is not the name'],
    [`\${env:HOME`, "is never closed"],
  ])("refuses %j", (text, expected) => {
    expect(() => resolveReference(text, env, "store.path")).toThrow(
      expect.objectContaining({ code: "invalid_config", message: expect.stringContaining(expected) }),
    );
  });

  test("returns every escaped text unchanged", () => {
    const text = fc.string({ unit: fc.constantFrom("$", "{", "}", "env:", "HOME", "x") });

    fc.assert(
      fc.property(text, (text) => {
        expect(
          resolveReference(
            text.replaceAll(`\${`, () => `$\${`),
            env,
            "k",
          ),
        ).toBe(text);
      }),
    );
  });
});

test("listVariables lists variables in order, and none of a malformed text", () => {
  expect(listVariables(`\${env:A}-\${env:B}-\${env:A} $\${env:C}`)).toEqual(["A", "B", "A"]);
  expect(listVariables(`\${env:A}\${oops}`)).toEqual([]);
});

test("findReferenceProblem explains a malformed reference", () => {
  expect(findReferenceProblem(`\${env:A}`)).toBeUndefined();
  expect(findReferenceProblem(`\${vault:a}`)).toContain("vault");
});

test.each([
  [`\${env:A}`, true],
  [`a \${ file:b}`, true],
  [`$\${env:A}`, false],
  [`\${amount}`, false],
  ["{env:A}", false],
])("looksReferring(%j) is %j", (text, expected) => {
  expect(hasReferenceSyntax(text)).toBe(expected);
});
