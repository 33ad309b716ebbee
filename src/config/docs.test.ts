import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { parseConfig } from "./parse.ts";
import { type ConfigKey, listConfigKeys, toConfigJsonSchema } from "./testing.ts";

const page = await readFile(new URL("../../docs/config.md", import.meta.url), "utf8");

test.each(listConfigKeys())("docs/config.md has the row of $path", (key) => {
  expect(key.meaning).not.toBe("");
  expect(page.split("\n")).toContain(rowOf(key));
});

test("docs/config.md has one row for each key and no other (written by: vitest run src/config/docs -u)", async () => {
  const lines = page.split("\n");
  const isRow = (line: string) => line.startsWith("| `");
  const written = lines.toSpliced(lines.findIndex(isRow), lines.filter(isRow).length, ...listConfigKeys().map(rowOf));

  await expect(written.join("\n")).toMatchFileSnapshot("../../docs/config.md");
});

test("docs/config.schema.json is the schema (written by: vitest run src/config/docs -u)", async () => {
  const text = `${JSON.stringify(toConfigJsonSchema(), null, 2)}\n`;

  await expect(text).toMatchFileSnapshot("../../docs/config.schema.json");
  expect(toConfigJsonSchema()).toMatchObject({
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: "Quartermaster configuration",
    additionalProperties: false,
  });
});

test("every example in docs/config.md loads, and the first one has every section", () => {
  const examples = [...page.matchAll(/```yaml\n(.*?)```/gs)].map(([, text]) => text ?? "");

  const [first] = examples.map((text) => parseConfig(Buffer.from(text), "/docs/config.md"));

  const sections = listConfigKeys().filter(({ path }) => !path.includes("."));
  for (const { path } of sections) expect(examples[0]).toMatch(new RegExp(`^${path}:`, "m"));
  expect(first?.config.policy.rules).toHaveLength(2);
});

function rowOf({ path, type, default: preset, required, meaning }: ConfigKey): string {
  const absent = required ? "required" : "";
  return `| \`${path}\` | ${type} | ${preset === undefined ? absent : `\`${preset}\``} | ${meaning.replaceAll("|", "\\|")} |`;
}
