import { chmod, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, describe, expect, test } from "vitest";
import { replaceText } from "./edit.ts";
import { removeTestRoots, testRoot } from "./testing.ts";
import { sha256 } from "./write.ts";

afterEach(removeTestRoots);

test("replaces the one occurrence and keeps everything else", async () => {
  const { call, path } = await testRoot({ "a.ts": "const a = 1;\nconst b = 2;\n" });
  await chmod(join(path, "a.ts"), 0o640);

  const answer = await call("edit", { path: "a.ts", old_string: "b = 2", new_string: "b = $& 3" });

  const content = "const a = 1;\nconst b = $& 3;\n";
  expect(answer).toEqual({ path: "a.ts", replaced: 1, bytes: content.length, sha256: sha256(Buffer.from(content)) });
  expect(await readFile(join(path, "a.ts"), "utf8")).toBe(content);
  expect((await stat(join(path, "a.ts"))).mode & 0o777).toBe(0o640);
});

test("does not choose between several occurrences", async () => {
  const { refusal, call, path } = await testRoot({ "a.txt": "x = 1\ny\nx = 1\n" });

  const error = await refusal("edit", { path: "a.txt", old_string: "x = 1", new_string: "x = 2" });

  expect(error).toMatchObject({ code: "conflict", details: { count: 2, lines: [0, 2] } });
  expect(error.message).toContain("occurs 2 times");
  expect(await readFile(join(path, "a.txt"), "utf8")).toBe("x = 1\ny\nx = 1\n");
  expect(
    await call("edit", { path: "a.txt", old_string: "x = 1", new_string: "x = 2", replace_all: true }),
  ).toMatchObject({ replaced: 2 });
});

test("counts overlapping occurrences as ambiguous", async () => {
  const { refusal } = await testRoot({ "a.txt": "aaa" });

  expect(await refusal("edit", { path: "a.txt", old_string: "aa", new_string: "b" })).toMatchObject({
    details: { count: 2 },
  });
});

test("shows the most similar line when the text is not there", async () => {
  const { refusal } = await testRoot({ "a.ts": "import x;\n\n  function  parse(text: string) {\n}\n" });

  const error = await refusal("edit", { path: "a.ts", old_string: "function parse(text:string) {", new_string: "x" });
  const unlike = await refusal("edit", { path: "a.ts", old_string: "%%%% 1234567 ____", new_string: "x" });

  expect(error).toMatchObject({
    code: "not_found",
    details: { closest: { line: 2, text: "  function  parse(text: string) {" } },
  });
  expect(unlike.details).toEqual({});
});

test.each([
  ["the same strings", { old_string: "a", new_string: "a" }, "invalid_arguments"],
  ["an empty old string", { old_string: "", new_string: "a" }, "invalid_arguments"],
  ["a lone surrogate", { old_string: "a", new_string: "\ud83d" }, "invalid_arguments"],
  ["a result that is too large", { old_string: "a", new_string: "b".repeat(200) }, "too_large"],
])("refuses %s", async (_what, strings, code) => {
  const { refusal, path } = await testRoot({ "a.txt": "a" }, { maxWriteBytes: 100 });

  expect((await refusal("edit", { path: "a.txt", ...strings })).code).toBe(code);
  expect(await readFile(join(path, "a.txt"), "utf8")).toBe("a");
});

test("refuses a file with invalid UTF-8 anywhere, which it could not restore", async () => {
  const { refusal } = await testRoot({ "a.bin": Buffer.concat([Buffer.alloc(20_000, "a\n"), Buffer.from([0xff])]) });

  expect((await refusal("edit", { path: "a.bin", old_string: "zz", new_string: "x" })).code).toBe(
    "unsupported_content",
  );
});

test("a missing file is not found, with suggestions", async () => {
  const { refusal } = await testRoot({ "main.ts": "" });

  expect(await refusal("edit", { path: "mian.ts", old_string: "a", new_string: "b" })).toMatchObject({
    code: "not_found",
    details: { suggestions: ["main.ts"] },
  });
});

describe("line ends", () => {
  test.each([
    ["CRLF stays CRLF", "a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", "x\r\ny\r\nz\r\nc\r\n"],
    ["a new line in a CRLF file is CRLF", "a\r\nb\r\n", "b", "b\nc", "a\r\nb\r\nc\r\n"],
    ["LF stays LF when the strings are CRLF", "a\nb\nc", "a\r\nb", "x\r\ny", "x\ny\nc"],
    ["a mixed file is taken as it is", "a\r\nb\nc\r\n", "b\nc", "x\ny", "a\r\nx\ny\r\n"],
    ["and found in either spelling", "a\r\nb\nc\r\n", "a\nb", "x\ny", "x\r\ny\nc\r\n"],
    ["a byte order mark stays", "\ufeffa\nb", "a\n", "x\n", "\ufeffx\nb"],
  ])("%s", async (_what, before, old_string, new_string, after) => {
    const { call, path } = await testRoot({ "a.txt": before });

    await call("edit", { path: "a.txt", old_string, new_string });

    expect(await readFile(join(path, "a.txt"), "utf8")).toBe(after);
  });
});

test("concurrent edits of one file all take effect", async () => {
  const names = Array.from({ length: 12 }, (_, index) => `<${index}>`);
  const { call, path } = await testRoot({ "a.txt": names.join(" ") });

  await Promise.all(names.map((name) => call("edit", { path: "a.txt", old_string: name, new_string: "done" })));

  expect(await readFile(join(path, "a.txt"), "utf8")).toBe(names.map(() => "done").join(" "));
});

test("replacing agrees with split and join", () => {
  const text = fc.string({ unit: fc.constantFrom("a", "b", "c"), maxLength: 30 });
  const old = fc.string({ unit: fc.constantFrom("a", "b"), minLength: 1, maxLength: 4 });

  fc.assert(
    fc.property(text, old, text, (before, old_string, new_string) => {
      fc.pre(before.includes(old_string));
      const { text: after, replaced } = replaceText(before, { old_string, new_string, replace_all: true }, "a", 1e6);
      expect(after).toBe(before.split(old_string).join(new_string));
      expect(replaced).toBe(before.split(old_string).length - 1);
    }),
  );
});
