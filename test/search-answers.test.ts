import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { countTokens } from "gpt-tokenizer/encoding/o200k_base";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Quartermaster } from "../src/index.ts";
import type { FoundActions } from "../src/surface/universal/search-actions.ts";
import { openWorkspace, type Workspace } from "../src/workspace/workspace.ts";

const reference = (name: string) => ({
  command: process.execPath,
  args: [join(import.meta.dirname, `../node_modules/@modelcontextprotocol/server-${name}/dist/index.js`)],
});

let folder: string;
let workspace: Workspace;
let qm: Quartermaster;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "qm-answers-"));
  const servers = { everything: reference("everything"), thinking: reference("sequential-thinking") };
  await writeFile(join(folder, "quartermaster.yaml"), JSON.stringify({ servers }));
  workspace = await openWorkspace({ cwd: folder, env: { PATH: process.env.PATH } });
  for (const { spec } of workspace.servers.list()) await workspace.servers.hub.connect(spec.name);
  qm = workspace.quartermaster;
  for (const [name, description] of [
    ["concat_text", "Concatenate two strings into one."],
    ["list_emails", "List emails that match a filter."],
    ["search_issues", "Search issues of a repository, ordered by date."],
    ["divide_bill", "Divide a restaurant bill among guests."],
  ] as const)
    qm.register({
      name,
      description,
      effect: "read",
      scope: "generalist",
      inputSchema: { type: "object" },
      handler: () => null,
    });
});

afterAll(async () => {
  await workspace?.close();
  await rm(folder, { recursive: true, force: true });
});

const findNames = async (query: string, limit?: number) =>
  (await qm.search({ query, ...(limit === undefined ? {} : { limit }) })).items.map(
    ({ qualified_name }) => qualified_name,
  );

describe("the actions on notes", () => {
  test.each([
    ["add two numbers", "mcp__everything__get-sum", "infospace__add"],
    ["join two strings", "tool__concat_text", "infospace__join"],
    ["filter emails", "tool__list_emails", "infospace__filter-structured"],
    ["sort issues by date", "tool__search_issues", "infospace__sort"],
    ["split the bill", "tool__divide_bill", "infospace__split"],
  ])("come after another tool for %j, and are still found", async (query, first, later) => {
    const [found, all] = [await findNames(query), await findNames(query, 20)];

    expect(found[0]).toBe(first);
    expect(all).toContain(later);
    expect(all.indexOf(later)).toBeGreaterThan(all.indexOf(first));
  });

  test.each([
    ["join collection__12 and collection__13", "infospace__join"],
    ["sort issues in collection__7 by date", "infospace__sort"],
    ["filter emails in collection__9", "infospace__filter-structured"],
    ["split note__3 into strings", "infospace__split"],
    ["join two collections", "infospace__join"],
    ["sort a collection by date", "infospace__sort"],
    ["filter notes", "infospace__filter-structured"],
    ["infospace__add", "infospace__add"],
  ])("come first for %j", async (query, first) => {
    expect((await findNames(query))[0]).toBe(first);
  });
});

describe("a default answer", () => {
  test.each(["book a flight to mars", "translate poem into Latin", "horoscope for Leo"])(
    "is empty for %j, with the unmatched words",
    async (query) => {
      const { items, unmatched = [] } = await qm.search({ query });

      expect(items).toEqual([]);
      expect(unmatched.length).toBeGreaterThan(1);
    },
  );

  test.each(["universal", "deferred"] as const)("has few whole hits on the %s surface", async (kind) => {
    const surface = await qm.surface({}, kind);
    const tool = kind === "universal" ? "search_actions" : "tool_search";
    for (const query of ["get the sum", "compress a file", "read a resource", "write to a file", "list tools"]) {
      const { text, data } = await surface.call(tool, { query });
      const { items = [], tools = [] } = data as Partial<FoundActions> & { tools?: readonly { name: string }[] };
      const names = [...items.map((item) => item.qualified_name), ...tools.map(({ name }) => name)];

      expect(names.length).toBeGreaterThan(0);
      expect(names.length).toBeLessThanOrEqual(5);
      expect(countTokens(text)).toBeLessThanOrEqual(400);
      for (const name of names) {
        const line = text.split("\n").find((each) => each.startsWith(`${name}(`)) ?? "";
        const { description, input_schema: schema } = qm.describe(name);
        for (const required of (schema.required ?? []) as string[]) expect(line).toContain(`${required}: `);
        expect(line).toContain(description.split(/[.\n]/, 1)[0]?.slice(0, 80));
      }
    }
  });

  test("honours a limit", async () => {
    const surface = await qm.surface();
    const few = await surface.call("search_actions", { query: "file", limit: 2 });
    const many = await surface.call("search_actions", { query: "file", limit: 12 });

    expect((few.data as FoundActions).items).toHaveLength(2);
    expect((many.data as FoundActions).items.length).toBeGreaterThan(5);
  });
});
