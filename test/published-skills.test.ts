import { existsSync, readdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { createQuartermaster, type Quartermaster } from "../src/app/quartermaster.ts";
import { loadSkills } from "../src/providers/skill/skill-folders.ts";

/** Folders as their authors published them. They are beside a checkout, not in it. */
const folder = resolve(import.meta.dirname, "../../shared/skills");

describe.skipIf(!existsSync(folder))("published skills", async () => {
  const roots = [{ folder, source: "configured", trusted: true }];
  const { skills, problems } = await loadSkills(roots);
  const qm = await createQuartermaster({ skills: { roots }, infospace: {} });
  afterAll(qm.close);

  test("all load", () => {
    const sources = readdirSync(folder).filter((name) => name !== "README.md");
    const expected = sources.flatMap((source) => readdirSync(join(folder, source)));

    expect(skills).toHaveLength(expected.length);
    expect(problems.filter(({ level }) => level === "error")).toEqual([]);
  });

  test("are listed with their whole first sentences", () => {
    const summaries = new Map(listAll(qm).map((item) => [item.qualified_name, item.short_description ?? ""]));

    for (const { name, description } of skills) {
      const summary = summaries.get(`skill__${name}`) ?? "";
      expect(description.startsWith(summary), name).toBe(true);
      // It is the first line, or it ends where another sentence begins.
      const rest = description.slice(summary.length);
      expect(summary, name).toMatch(rest === "" || rest.startsWith("\n") ? /\S$/ : /[.!?。]["')”]*$/);
      expect(rest, name).toMatch(/^$|^\n|^\s+[^\s\p{Ll}]/u);
    }
  });

  test("are found by their first sentences and by the words of their names", async () => {
    const missed: string[] = [];
    for (const { name, description } of skills)
      for (const query of [/^.*?[.](?=\s|$)/.exec(description)?.[0] ?? description, name.replaceAll("-", " ")]) {
        const { items } = await qm.search({ query });
        if (!items.some((item) => item.qualified_name === `skill__${name}`)) missed.push(`${name}: ${query}`);
      }

    expect(missed).toEqual([]);
  });
});

function listAll(qm: Quartermaster) {
  const items = [];
  for (let offset: number | undefined = 0; offset !== undefined; ) {
    const page: ReturnType<Quartermaster["list"]> = qm.list({ offset, limit: 50 });
    items.push(...page.items);
    offset = page.next_offset;
  }
  return items;
}
