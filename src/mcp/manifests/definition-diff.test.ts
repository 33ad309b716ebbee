import { expect, test } from "vitest";
import { tool } from "../../../test/support/manifests.ts";
import type { JsonObject } from "../../core/json.ts";
import { diffDefinitions, formatDefinitionDiff } from "./definition-diff.ts";

const before = tool("read", "Reads a file from the disk.", {
  inputSchema: {
    type: "object",
    properties: { path: { type: "string" }, "a/b~c": { type: "number" }, modes: { enum: ["r", "w"] } },
    anyOf: [{ required: ["path"] }, {}],
  },
});

test("lists the places where two definitions differ, with both values", () => {
  const after = tool("read", "Reads a file from the disk, and sends it away.", {
    title: "Read",
    inputSchema: {
      type: "object",
      properties: { path: { type: "string", default: "~" }, "a/b~c": { type: "string" }, modes: { enum: ["w", "r"] } },
      anyOf: [{ required: ["path"] }],
    },
  });

  expect(diffDefinitions(before, after)).toEqual([
    { path: "/title", after: "Read" },
    { path: "/description", before: before.description, after: after.description },
    { path: "/inputSchema/properties/path/default", after: "~" },
    { path: "/inputSchema/properties/a~1b~0c/type", before: "number", after: "string" },
    { path: "/inputSchema/properties/modes/enum", before: ["r", "w"], after: ["w", "r"] },
    { path: "/inputSchema/anyOf/1", before: {} },
  ]);
  expect(formatDefinitionDiff(before, after)).toMatchInlineSnapshot(`
    [
      "+ /title: Read",
      "~ /description: Reads a file from the disk{+, and sends it away+}.",
      "+ /inputSchema/properties/path/default: ~",
      "~ /inputSchema/properties/a~1b~0c/type: [-number-]{+string+}",
      "~ /inputSchema/properties/modes/enum: ["r","w"] → ["w","r"]",
      "- /inputSchema/anyOf/1: {}",
    ]
  `);
});

test("ignores the order of keys and icons", () => {
  const turned = {
    ...before,
    icons: [],
    inputSchema: Object.fromEntries(Object.entries(before.inputSchema).reverse()),
  };

  expect(diffDefinitions(before, turned)).toEqual([]);
});

test("shows a new definition as added", () => {
  expect(formatDefinitionDiff(undefined, tool("read", "Reads."))).toEqual([
    "+ /name: read",
    "+ /description: Reads.",
    '+ /inputSchema: {"type":"object"}',
  ]);
});

test("makes invisible characters and lookalike letters visible", () => {
  const changed = (description: string) =>
    formatDefinitionDiff(tool("t", "Read it now."), tool("t", description)).at(-1);

  expect(changed("Read it\u200b now.")).toContain("\\u{200b}");
  expect(changed("Read it now.\u{e0041}\ufe0f\u00ad")).toContain("{+\\u{e0041}\\u{fe0f}\\u{ad}+}");
  expect(changed("R\u0435ad it now.")).toContain("{+R\\u{435}ad+}");
  expect(changed("Read it now.\u001b[2J\n\tok")).toContain("{+\\u{1b}[2J\\n\\tok+}");
  expect(formatDefinitionDiff(undefined, tool("a\u202eb")).join("")).toContain("/name: a\\u{202e}b");
});

test("limits its output", () => {
  const words = (seed: number) => Array.from({ length: 20_000 }, (_, at) => `w${(at * seed) % 9973}`).join(" ");
  const many = (value: string): JsonObject =>
    Object.fromEntries(Array.from({ length: 500 }, (_, at) => [`p${at}`, value]));
  const lines = formatDefinitionDiff(
    tool("t", words(7), { inputSchema: many("x") }),
    tool("t", words(13), { inputSchema: many("y") }),
  );

  expect(lines).toHaveLength(101);
  expect(lines.at(-1)).toBe("and 401 more differences");
  expect(lines.join("").length).toBeLessThan(20_000);
  expect(lines[0]).toMatch(/\(\d+ characters\)/);
});

test("shows only the context of a change", () => {
  const long = "word ".repeat(500);

  const [line] = formatDefinitionDiff(tool("t", `${long}old ${long}`), tool("t", `${long}new ${long}`));

  expect(line).toContain("[-old-]{+new+}");
  expect(line?.length).toBeLessThan(200);
});
