import { describe, expect, test } from "vitest";
import { readYaml } from "./yaml.ts";

const read = (text: string) => readYaml(Buffer.from(text));

test("reads plain data and locates it", () => {
  const yaml = read("# note\na:\n  - x\n  - { b: 1, c: true }\nd: ~\n");

  expect(yaml.problems).toEqual([]);
  expect(yaml.value).toEqual({ a: ["x", { b: 1, c: true }], d: null });
  expect(yaml.locateValue(["a", 0])).toEqual({ line: 3, column: 5 });
  expect(yaml.locateValue(["a", 1, "c"])).toEqual({ line: 4, column: 16 });
  expect(yaml.locateKey(["a", 1, "c"])).toEqual({ line: 4, column: 13 });
  expect(yaml.locateValue(["a", 1, "nope", "deeper"])).toEqual({ line: 4, column: 5 });
  expect(yaml.locateKey(["nope"])).toEqual({ line: 2, column: 1 });
});

test.each([[""], ["# only a comment\n"], ["---\n"], ["\uFEFF"], ["null\n"]])("reads %j as nothing", (text) => {
  const yaml = read(text);

  expect(yaml.problems).toEqual([]);
  expect(yaml.value).toBeNull();
});

test("accepts a byte order mark, Windows line ends and JSON", () => {
  expect(read("\uFEFFa: 1\r\nb: 2\r\n").value).toEqual({ a: 1, b: 2 });
  expect(read('{"a": {"b": [1, 2]}}').value).toEqual({ a: { b: [1, 2] } });
  expect(read(`${"[".repeat(21)}${"]".repeat(21)}`).problems).toEqual([]);
  expect(read("a: !!str 5\n").value).toEqual({ a: "5" });
});

const bomb = `a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c]\n`;

test.each([
  ["a key twice", "a: 1\nb: 2\na: 3\n", "a: the key is repeated", 3],
  ["a key twice, deeper", "a:\n  b: 1\n  b: 1\n", "a.b: the key is repeated", 3],
  ["a key twice, quoted", `a: 1\n"a": 1\n`, "a: the key is repeated", 2],
  ["a bomb", bomb, "a: anchors and aliases are not supported", 1],
  ["an alias without an anchor", "a: *nope\n", "a: anchors and aliases are not supported", 1],
  ["a star", "a: [*]\n", 'a * or & at the beginning of a value must be quoted: ["*"]', 1],
  ["a name that begins with a star", "a: [*__x]\n", 'or quote it: ["*"]', 1],
  ["an alias as a key", "a: &x b\n? *x\n: 1\n", "a key must be plain text", 2],
  ["a tab", "a:\n\tb: 1\n", "a tab is used to indent; use spaces", 2],
  ["two documents", "a: 1\n---\nb: 2\n", "more than one document", 2],
  ["an empty and a full document", "---\n---\na: 1\n", "more than one document", 2],
  ["a tag of its own", "a: !secret x\n", "tags like !name are not supported", 1],
  ["a function", "a: !!js/function 'x'\n", "tags like !name are not supported", 1],
  ["binary", "a: !!binary aGk=\n", "tags like !name are not supported", 1],
  ["a tag on a mapping", "a: !map {b: 1}\n", "tags like !name are not supported", 1],
  ["__proto__", "a: 1\n__proto__: {polluted: true}\n", "__proto__: a key may not have this name", 2],
  ["__proto__, deeper", "a: {b: {__proto__: 1}}\n", "a.b.__proto__: a key may not have this name", 1],
  ["constructor", "constructor: 1\n", "constructor: a key may not have this name", 1],
  ["a list as a key", "? [a, b]\n: 1\n", "a key must be plain text", 1],
  ["YAML 1.1", "%YAML 1.1\n---\na: yes\n", "YAML 1.1 is not supported", 1],
  ["an open quote", 'a: "x\n', "not YAML: Missing closing", 2],
  ["a wrong indent", "a:\n    b: 1\n  c: 2\n", "not YAML", 3],
  ["depth", `${"[".repeat(22)}${"]".repeat(22)}`, "nested more than 20 deep", 1],
  ["depth that would end the process", "[".repeat(100_000), "nested more than 20 deep", 1],
  ["a NUL", "a: \0\n", "not UTF-8 text", 1],
])("refuses %s", (_what, text, message, line) => {
  const { problems } = read(text);

  const said = problems.map(({ key, message }) => (key === "" ? message : `${key}: ${message}`));
  expect(said).toContainEqual(expect.stringContaining(message));
  expect(problems.map((problem) => problem.line)).toContain(line);
});

test("rejects text that is not UTF-8", () => {
  for (const bytes of [Buffer.from([0x61, 0x3a, 0x20, 0xff]), Buffer.from("a: 1", "utf16le")]) {
    expect(readYaml(bytes).problems).toMatchObject([{ message: "not UTF-8 text" }]);
  }
});

test("does not quote a file that is not YAML", () => {
  const { problems } = read("a: b\n]hunter2\n");

  expect(problems.length).toBeGreaterThan(0);
  expect(JSON.stringify(problems)).not.toContain("hunter2");
});

describe("a large file", () => {
  test.each([
    ["open lists", "["],
    ["open mappings", "{a: "],
    ["lists in lists", "- "],
    ["keys of keys", "? "],
    ["keys", (n: number) => `k${n}: 1\n`],
    ["anchors", (n: number) => `k${n}: &a${n} x\n`],
    ["aliases", (n: number) => `- &a${n} x\n- *a${n}\n`],
    ["errors", "]\n"],
    ["quotes", '"'],
    ["documents", "---\n"],
    ["tags", (n: number) => `k${n}: !x y\n`],
  ])("of %s is answered soon", (_what, piece) => {
    let text = "";
    for (let n = 0; text.length < 400_000; n++) text += typeof piece === "string" ? piece : piece(n);
    const started = process.cpuUsage();

    read(text);

    // Processor time: a busy machine does not fail it.
    expect(process.cpuUsage(started).user / 1000).toBeLessThan(20_000);
  });

  test("is read up to a million bytes and rejected above", () => {
    expect(read("#".repeat(1_000_000)).problems).toEqual([]);
    expect(read("#".repeat(1_000_001)).problems).toMatchObject([{ message: "larger than 1000000 bytes" }]);
  });
});
