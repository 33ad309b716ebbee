import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { compileGlob, expandBraces } from "./glob.ts";

test.each([
  ["*.ts", "a.ts", true],
  ["*.ts", "src/a.ts", false],
  ["**/*.ts", "a.ts", true],
  ["**/*.ts", "src/deep/a.ts", true],
  ["src/**", "src/a/b", true],
  ["src/**", "src", false],
  ["src/**/test/*.ts", "src/test/a.ts", true],
  ["src/**/test/*.ts", "src/x/y/test/a.ts", true],
  ["**", ".hidden/file", true],
  ["*", ".hidden", true],
  ["a?c", "abc", true],
  ["a?c", "a/c", false],
  ["a?c", "a😀c", true],
  ["*.{ts,tsx}", "a.tsx", true],
  ["{src,test}/**/*.{js,ts}", "test/x/a.js", true],
  ["{src/a,b}/c", "src/a/c", true],
  ["{a,{b,c}d}e", "cde", true],
  ["a{b}c", "a{b}c", true],
  ["a{b,c", "a{b,c", true],
  ["[abc].txt", "b.txt", true],
  ["[!abc].txt", "b.txt", false],
  ["[!abc].txt", "d.txt", true],
  ["[^a]x", "bx", true],
  ["a[!b]c", "a/c", false],
  ["a[+-9]c", "a/c", false],
  ["a[+-9]c", "a5c", true],
  ["[]a]", "]", true],
  ["[a-]", "-", true],
  ["[z-a]", "m", false],
  ["[a", "[a", true],
  ["\\[id\\].tsx", "[id].tsx", true],
  ["\\*", "*", true],
  ["\\*", "a", false],
  ["./src/*.ts", "src/a.ts", true],
  ["a+b(c)|d.$^", "a+b(c)|d.$^", true],
  ["a.c", "abc", false],
  ["a**b", "axxb", true],
  ["a**b", "ax/xb", false],
  ["**/a/**/b/**", "x/a/y/b/z", true],
  ["*", "line\nbreak", true],
])("%s against %j is %s", (pattern, path, expected) => {
  expect(compileGlob(pattern).matches(path)).toBe(expected);
});

describe("compared with a simple backtracking matcher", () => {
  const pattern = fc.string({
    unit: fc.constantFrom("a", "b", "/", "*", "**", "?", "[ab]", "[!a]", "{a,b/a}", "{,*}", "/**/", "."),
    maxLength: 7,
  });
  const path = fc
    .array(fc.string({ unit: fc.constantFrom("a", "b", "."), minLength: 1, maxLength: 3 }), {
      minLength: 1,
      maxLength: 4,
    })
    .map((parts) => parts.join("/"));

  test("matches the same paths", () => {
    fc.assert(
      fc.property(pattern, path, (glob, text) => {
        fc.pre(isUsable(glob));
        expect(compileGlob(glob).matches(text)).toBe(oracle(glob, text));
      }),
      { numRuns: 5000 },
    );
  });

  test("would enter every folder above a match", () => {
    fc.assert(
      fc.property(pattern, path, (glob, text) => {
        fc.pre(isUsable(glob) && oracle(glob, text));
        const parts = text.split("/");
        for (let depth = 1; depth < parts.length; depth++) {
          expect(compileGlob(glob).mayEnter(parts.slice(0, depth).join("/"))).toBe(true);
        }
      }),
      { numRuns: 2000 },
    );
  });
});

test("does not enter folders that cannot contain a match", () => {
  expect(compileGlob("src/*.ts").mayEnter("docs")).toBe(false);
  expect(compileGlob("src/*.ts").mayEnter("src")).toBe(true);
  expect(compileGlob("src/*.ts").mayEnter("src/deep")).toBe(false);
  expect(compileGlob("*.ts").mayEnter("src")).toBe(false);
});

test("takes linear time on patterns that make a backtracking matcher hang", () => {
  expect(compileGlob(`${"*a".repeat(200)}b`).matches("a".repeat(4000))).toBe(false);
  expect(compileGlob(`${"**/".repeat(100)}b`).matches("a/".repeat(1000))).toBe(false);
});

test("refuses too many alternatives, absolute patterns and ..", () => {
  expect(() => compileGlob("{a,b}".repeat(30))).toThrow(/alternatives/);
  expect(() => compileGlob("/etc/*")).toThrow(/absolute/);
  expect(() => compileGlob("a/{b,..}/c")).toThrow(/contains \.\./);
});

test("expands braces as a shell does", () => {
  expect(expandBraces("a{b,c{d,e}}f")).toEqual(["abf", "acdf", "acef"]);
  expect(expandBraces("{{a,b}}")).toEqual(["{a}", "{b}"]);
  expect(expandBraces("\\{a,b}")).toEqual(["\\{a,b}"]);
  expect(expandBraces("{a,{b,c}")).toEqual(["{a,b", "{a,c"]);
});

function isUsable(glob: string): boolean {
  return expandBraces(glob).every((one) => !one.startsWith("/") && !one.split("/").includes(".."));
}

function oracle(glob: string, text: string): boolean {
  return expandBraces(glob).some((one) =>
    partsMatch(
      one.split("/").filter((part) => part !== "" && part !== "."),
      text.split("/"),
    ),
  );
}

function partsMatch([part, ...parts]: readonly string[], names: readonly string[]): boolean {
  if (part === undefined) return names.length === 0;
  const [name, ...rest] = names;
  if (part === "**" && parts.length === 0) return names.length > 0;
  if (part === "**") return partsMatch(parts, names) || (name !== undefined && partsMatch([part, ...parts], rest));
  return name !== undefined && nameMatches(part, name) && partsMatch(parts, rest);
}

function nameMatches(part: string, name: string): boolean {
  if (part === "") return name === "";
  if (part[0] === "*") return nameMatches(part.slice(1), name) || (name !== "" && nameMatches(part, name.slice(1)));
  if (name === "") return false;
  const set = /^\[(!?)(.+?)\]/.exec(part);
  if (set !== null)
    return (
      set[2]?.includes(name[0] ?? "") !== (set[1] === "!") && nameMatches(part.slice(set[0].length), name.slice(1))
    );
  return (part[0] === "?" || part[0] === name[0]) && nameMatches(part.slice(1), name.slice(1));
}
