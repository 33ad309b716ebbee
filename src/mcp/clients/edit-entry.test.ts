import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { getDocumentValue, parseClientDocument } from "./client-document.ts";
import { type EntryLocation, isSameExceptEntry, putEntry, removeEntry } from "./edit-entry.ts";
import { parseTomlTables } from "./toml-edit.ts";

const JSONC: EntryLocation = { format: "jsonc", keys: ["mcpServers"], name: "qm" };
const TOML: EntryLocation = { format: "toml", keys: ["mcp_servers"], name: "qm" };
const entry = { command: "node", args: ["/a b/bin.js", "mcp"] };
const other = { ...entry, args: ["mcp", "--profile", "p"] };

describe("an entry in JSON with comments", () => {
  test("comes first, and leaves the rest as it is", () => {
    const { text } = putEntry(
      '{\n  // all of them\n  "mcpServers": {\n    "a": {"command": "b"}, // mine\n  },\n}\n',
      JSONC,
      entry,
    );

    expect(text).toMatchInlineSnapshot(`
      "{
        // all of them
        "mcpServers": {
          "qm": {
            "command": "node",
            "args": [
              "/a b/bin.js",
              "mcp"
            ]
          },
          "a": {"command": "b"}, // mine
        },
      }
      "
    `);
  });

  test.each([
    ["no text", "", '{\n  "mcpServers": {\n    "qm"'],
    ["a comment alone", "// c", '// c\n{\n  "mcpServers"'],
    ["an empty object", "{}", '{\n  "mcpServers": {\n    "qm"'],
    ["one line", '{"a":1}', '{"mcpServers": {"qm":{"command":"node"'],
    ["tabs and CRLF", '{\r\n\t"mcpServers": {}\r\n}', '{\r\n\t"mcpServers": {\r\n\t\t"qm": {\r\n\t\t\t"command"'],
  ])("goes into %s in its style", (_, text, start) => {
    expect(putEntry(text, JSONC, entry).text.slice(0, start.length)).toBe(start);
  });

  test.each([
    ["the only one", '{"mcpServers":{"qm":1}}', '{"mcpServers":{}}'],
    ["the only one, with a comma", '{"mcpServers": {\n  "qm": {},\n}}', '{"mcpServers": {}}'],
    ["the first", '{"mcpServers":{"qm":1, "a":2}}', '{"mcpServers":{"a":2}}'],
    ["the last", '{"mcpServers":{"a":2, "qm":1}}', '{"mcpServers":{"a":2}}'],
    ["the last, with a comma", '{"mcpServers":{"a":2, "qm":1,}}', '{"mcpServers":{"a":2, }}'],
    ["one of three", '{"mcpServers":{"a":2, /*x*/ "qm":1, /*y*/ "b":3}}', '{"mcpServers":{"a":2, /*x*/ /*y*/ "b":3}}'],
    ["one before a comment", '{"mcpServers":{"a":2 // x\n, "qm":1}}', '{"mcpServers":{"a":2 // x\n}}'],
    ["one that is there twice", '{"mcpServers":{"qm":1, "a":2, "qm":3}}', '{"mcpServers":{"a":2}}'],
  ])("is taken out when it is %s", (_, text, expected) => {
    expect(removeEntry(text, JSONC).text).toBe(expected);
  });

  test.each(['{"mcpServers": []}', '{"mcpServers": null}', '{"mcpServers": "x"}', "[]", "{", "{'a': 1}"])(
    "is not put into %s",
    (text) => {
      expect(() => putEntry(text, JSONC, entry)).toThrow(expect.objectContaining({ code: "invalid_config" }));
    },
  );
});

describe("an entry in TOML", () => {
  test("is a table at the end", () => {
    const { text } = putEntry('model = "m" # c\n\n[mcp_servers.a]\ncommand = "b"', TOML, entry);

    expect(text).toBe(
      'model = "m" # c\n\n[mcp_servers.a]\ncommand = "b"\n\n[mcp_servers.qm]\ncommand = "node"\nargs = [ "/a b/bin.js", "mcp" ]\n',
    );
  });

  test("replaces its tables, and keeps the comment before the next one", () => {
    const before =
      '[mcp_servers.qm]\ncommand = "z"\n[mcp_servers."qm".env]\nA = """\n[x]\n"""\n\n# about b\n[b]\nc = 1\n';

    const { text } = putEntry(before, TOML, { command: "node" });

    expect(text).toBe('[mcp_servers.qm]\ncommand = "node"\n\n# about b\n[b]\nc = 1\n');
  });

  test.each([
    "mcp_servers = {}",
    '[mcp_servers]\nqm = { command = "x" }\n',
    '[mcp_servers]\nqm.command = "x"\n',
    "a = [",
  ])("is not put into %j, where it would do harm", (text) => {
    expect(() => putEntry(text, TOML, entry)).toThrow(expect.objectContaining({ code: "invalid_config" }));
  });

  test("finds tables, and no text that looks like one", () => {
    const text = `# it's [\na = [ # it's [\n  [1],\n]\ns = '''\n[no]\n'''\nt = "\\"[no]" # [no]\n [yes . "a.b"] # [no]\nx = 1\n[[list]]\ny = { a = [ "]" ] }\n`;

    expect(parseTomlTables(text).map(({ keys }) => keys)).toEqual([["yes", "a.b"], ["list"]]);
  });
});

/** JSON as people write it: comments, commas too many, any space, keys that are there twice. */
const space = fc.constantFrom("", " ", "\n", "\r\n", "\t", "\n\n  ", " /* c */ ", " // d\n");
const key = fc.constantFrom("a", "b", "qm2", "__proto__", "mcpServers", 'q"m', "é");
const { value } = fc.letrec<{ value: string; object: string }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small" },
    fc.constantFrom("1", '"x"', "null", "true", '"// no comment"'),
    tie("object"),
    fc.tuple(space, tie("value"), space).map(([before, inner, after]) => `[${before}${inner}${after}]`),
  ),
  object: objectOf(key, tie("value")),
}));

function objectOf(keys: fc.Arbitrary<string>, values: fc.Arbitrary<string>): fc.Arbitrary<string> {
  const property = fc
    .tuple(space, keys, space, values, space)
    .map(([before, name, between, inner, after]) => `${before}${JSON.stringify(name)}:${between}${inner}${after}`);
  return fc
    .tuple(fc.array(property, { maxLength: 4 }), fc.boolean(), space)
    .map(([all, comma, end]) => `{${all.join(",")}${all.length > 0 && comma ? "," : ""}${end}}`);
}

const anyServers = objectOf(fc.constantFrom("a", "b", "constructor", "q"), value);
const anyJson = fc
  .tuple(space, objectOf(fc.constantFrom("a", "b", "z"), value), anyServers, fc.boolean(), space)
  .map(([before, rest, servers, has, after]) =>
    has
      ? `${before}{"mcpServers":${servers}${rest === "{}" ? "" : ","}${rest.slice(1)}${after}`
      : before + rest + after,
  )
  .filter((text) => {
    try {
      parseClientDocument(text, "jsonc");
      return true;
    } catch {
      return false;
    }
  });

const anyToml = fc
  .array(
    fc.constantFrom(
      "\n",
      "# comment\n",
      "#last",
      '[mcp_servers.a]\ncommand = "x"\n',
      "[b]\nc = '''\n[mcp_servers.qm]\n'''\n",
      "[[list]]\nd = [\n 1, # [x]\n]\n",
      "[e]\r\nf = 1\r\n",
    ),
    { maxLength: 6 },
  )
  .map((parts) => parts.join(""))
  .filter((text) => {
    try {
      parseClientDocument(text, "toml");
      return true;
    } catch {
      return false;
    }
  });

describe.each([
  ["JSON", JSONC, anyJson],
  ["TOML", TOML, anyToml],
] as const)("whatever is in a file of %s", (_, place, texts) => {
  test("adds, changes and removes an entry, and keeps the meaning of the rest", () => {
    fc.assert(
      fc.property(texts, (text) => {
        const put = putEntry(text, place, entry).text;
        const changed = putEntry(put, place, other).text;
        const out = removeEntry(changed, place).text;

        expect(getDocumentValue(parseClientDocument(put, place.format), [...place.keys, "qm"])).toEqual(entry);
        expect(putEntry(put, place, entry).edits).toEqual([]);
        expect(isSameExceptEntry(putEntry(text, place, other).text, changed, place)).toBe(true);
        expect(getDocumentValue(parseClientDocument(out, place.format), [...place.keys, "qm"])).toBeUndefined();
      }),
      { numRuns: 500 },
    );
  });

  test("no byte of the rest is touched", () => {
    fc.assert(
      fc.property(texts, (text) => {
        const { edits } = putEntry(text, place, entry);

        expect(edits.map(({ length }) => length)).toEqual([0]);
      }),
      { numRuns: 300 },
    );
  });
});
