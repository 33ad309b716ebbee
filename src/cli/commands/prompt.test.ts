import { afterAll, expect, test } from "vitest";
import { cleanUp, createTestFolder, qm } from "../testing.ts";

afterAll(cleanUp);

const CONFIG = `
providers: { file: { read_only: false } }
mcp: { install: false }
actors:
  default: { tools: ["*"] }
  weak: { tools: ["file__*"], tier: light, instructions: "Keep \\e[31mit short." }
search: { hints: { enabled: true } }
`;

const inFolder = (config = CONFIG) => createTestFolder({ "quartermaster.yaml": config });

test("prints the prompt, the tokens of its sections, and the costs of each surface", async () => {
  const { code, out } = await qm(await inFolder(), ["prompt", "--actor", "weak", "--query", "read a file"]);

  expect(code).toBe(0);
  expect(out).toMatch(/^## Capabilities\n/);
  expect(out).toContain("## Instructions\nKeep \\u{1b}[31mit short.");
  expect(out).toMatch(/^Action categories +\d+ +constant$/m);
  expect(out).toMatch(/^Hints +\d+ +of this turn$/m);
  expect(out).toMatch(/^universal +4( +\d+){3} +the actor's own$/m);
  expect(out).toMatch(/^deferred +2( +\d+){3}$/m);
  expect(out).toMatch(/^flat +8( +\d+){3}$/m);
  expect(out).toMatch(/^auto +8( +\d+){3} +shows flat$/m);
  expect(out).toContain("The model must call list_actions first");
});

test("prints one document with --json, whose numbers add up", async () => {
  const { out } = await qm(await inFolder(), ["prompt", "--json"]);

  const { text, prefix, sections, tokens, first_tool, surfaces } = JSON.parse(out);
  expect(text).toBe(prefix);
  expect(sections.map(({ title }: { title: string }) => title)).toEqual([
    ...["Capabilities", "Action categories", "Behaviour"],
  ]);
  expect(sections.reduce((sum: number, each: { tokens: number }) => sum + each.tokens, 0)).toBe(tokens);
  expect(first_tool).toBeUndefined();
  expect(surfaces.map(({ surface }: { surface: string }) => surface)).toEqual([
    "universal",
    "deferred",
    "flat",
    "auto",
  ]);
  expect(surfaces[0]).toMatchObject({ tools: 4, prompt_tokens: tokens });
  expect(surfaces[0].tool_tokens).toBeLessThanOrEqual(400);
  expect(surfaces[2].tool_tokens).toBeGreaterThan(surfaces[0].tool_tokens);
});

test("says why a surface cannot be used, and that a query has no effect", async () => {
  const { code, out, err } = await qm(await inFolder("search: { enabled: false }"), ["prompt", "--query", "x"]);

  expect(code).toBe(0);
  expect(out).toMatch(/^deferred +the deferred surface needs search/m);
  expect(err).toContain("--query has no effect");
  expect((await qm(await inFolder(), ["prompt", "--actor", "weka"])).err).toContain("Did you mean weak?");
});
