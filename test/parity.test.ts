import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import {
  createQuartermaster,
  defineAction,
  defineResource,
  fileProvider,
  type Quartermaster,
  type Surface,
} from "../src/index.ts";
import { createMinimalExample } from "../src/invoke/argument-repair.ts";
import { countToolTokens, loadTokenCounter } from "../src/surface/open-surface.ts";
import { universalTools } from "../src/surface/universal/universal-surface.ts";

const root = mkdtempSync(join(tmpdir(), "qm-parity-"));
writeFileSync(join(root, "hello"), "hello\n");
afterAll(() => rmSync(root, { recursive: true }));

async function world(): Promise<Quartermaster> {
  const recall = defineAction("rag_operation", {
    entry: "recall",
    description: "Recall.",
    effect: "read",
    input: z.object({ sources: z.array(z.string()), query: z.string() }),
    run: (args) => args,
  });
  const corpus = defineResource("rag_corpus", {
    entry: "meetings",
    description: "Meetings.",
    target: recall.name,
    transform: { set: { sources: ["$entry"] } },
  });
  const qm = await createQuartermaster({
    providers: [
      fileProvider({ root }),
      { category: "rag_operation", capability: "recall", list: async () => [recall] },
      { category: "rag_corpus", capability: "corpora", list: () => [corpus] },
    ],
  });
  qm.register({
    name: "tasks.list",
    description: "List tasks.",
    inputSchema: z.object({ limit: z.int().max(50).default(10) }),
    handler: (args) => args,
    scope: "generalist",
    effect: "read",
    tags: ["task"],
  });
  return qm;
}

describe("list, describe, export and invoke", async () => {
  const qm = await world();
  afterAll(() => qm.close());
  const listed = qm.list({ limit: 50 }).items.map(({ qualified_name }) => qualified_name);
  const flat = await qm.surface({}, "flat");
  const { tools } = flat;
  const schemas = new Map<string, unknown>(listed.map((name) => [name, qm.describe(name).input_schema]));

  test("cover every action", () => {
    expect(listed).toEqual([
      "file__delete",
      "file__edit",
      "file__glob",
      "file__grep",
      "file__list",
      "file__read",
      "file__watch",
      "file__write",
      "rag_corpus__meetings",
      "rag_operation__recall",
      "tool__tasks.list",
    ]);
    expect(tools).toHaveLength(listed.length);
  });

  test.each(listed)("use the same schema for %s", (name) => {
    const category = name.slice(0, name.indexOf("__"));
    const inList = qm.list({ category: [category], limit: 50 }).items.find((item) => item.qualified_name === name);

    expect(inList?.input_schema).toBe(schemas.get(name));
    expect(tools.some((tool) => tool.inputSchema === schemas.get(name))).toBe(true);
    expect(inList?.description).toBe(qm.describe(name).description);
  });

  test.each(listed)("reach the handler of %s with valid arguments", async (name) => {
    const { input_schema, examples } = qm.describe(name);
    const args = createMinimalExample({ inputSchema: input_schema, examples });

    const outcome = await qm.invoke(name, args);

    // A handler may reject a missing path. The invoke pipeline itself must not reject the call.
    if ("error" in outcome)
      expect([
        "not_found",
        "conflict",
        "path_refused",
        "action_failed",
        "unsupported_content",
        "invalid_arguments",
      ]).toContain(outcome.error.code);
    const decided = await qm.ledger.read({ callId: outcome.callId, type: "call.decided" });
    expect(decided[0]?.data).toMatchObject({ action: name, decision: "allow" });
  });

  test("resolve every wire name to its action", async () => {
    for (const tool of tools) {
      const answer = await flat.call(tool.name, { nonsense: Symbol("no JSON") });
      expect(JSON.stringify(answer.data)).not.toContain("unknown_action");
    }
  });

  test.each(listed)("return an immutable schema for %s", (name) => {
    const described = qm.describe(name) as unknown as { input_schema: { properties: Record<string, unknown> } };

    expect(() => Object.assign(described.input_schema, { type: "string" })).toThrow(TypeError);
    expect(() => Object.assign(described.input_schema.properties, { extra: {} })).toThrow(TypeError);
  });
});

test("a provider adds its whole category, and withdrawing it removes the category", async () => {
  const qm = await world();
  const clock = defineAction("clock", {
    entry: "now",
    description: "Tell the time.",
    effect: "read",
    input: z.object({}),
    run: () => "noon",
  });

  qm.catalog.provide({ category: "clock", capability: "tell the time", list: () => [clock] });

  expect(qm.categories()).toContain("clock");
  expect(qm.list({ category: ["clock"] }).items).toHaveLength(1);
  expect(qm.describe("clock__now").metadata.category).toBe("clock");
  expect(await qm.invoke("clock__now")).toMatchObject({ data: "noon" });
  await qm.catalog.withdraw("clock");
  expect(qm.categories()).not.toContain("clock");
  expect(await qm.invoke("clock__now")).toMatchObject({ error: { code: "unknown_action" } });
  await qm.close();
});

/** The choices of `category` in the wrappers. */
const listChoices = ({ tools }: Surface) =>
  tools.flatMap(({ inputSchema }) => {
    const { category } = inputSchema.properties as Record<string, { items?: { enum?: unknown } } | undefined>;
    return category === undefined ? [] : [category.items?.enum];
  });

describe("the choice of categories", () => {
  const open = async (categories: readonly string[]) => {
    const providers = categories.map((category) => {
      const action = defineAction(category, {
        entry: "x",
        description: "X.",
        effect: "read",
        input: z.object({}),
        run: () => 0,
      });
      return { category, capability: "test", list: () => [action] };
    });
    const qm = await createQuartermaster({ providers });
    onTestFinished(() => qm.close());
    return qm;
  };

  test("has only what the caller sees, sorted, and the same array until that changes", async () => {
    const qm = await open(["zoo", "bank", "payroll"]);
    qm.usePolicy({
      actors: [
        { name: "default", tools: ["*"] },
        { name: "guest", tools: ["zoo__*", "bank__*"] },
      ],
    });
    const surface = await qm.surface({ actor: "guest", session: "s" });
    const before = surface.tools;

    expect(listChoices(surface)).toEqual([
      ["bank", "zoo"],
      ["bank", "zoo"],
    ]);
    await surface.call("list_actions", {});
    expect(surface.tools).toBe(before);
    expect(JSON.stringify((await qm.surface({ actor: "guest", session: "t" })).tools)).toBe(JSON.stringify(before));

    qm.usePolicy({ actors: [{ name: "guest", tools: ["zoo__*"] }] });
    expect(listChoices(surface)).toEqual([["zoo"], ["zoo"]]);
    expect(await surface.call("list_actions", { category: ["payroll"] })).toMatchObject({
      data: { code: "unknown_category", valid: ["zoo"] },
    });
  });

  test.each([
    ["mcp.server", "mcp"],
    ["mcp.tool", "mcp"],
    ["multi_agent", "agent.peer"],
    ["reyn_source", "qm_source"],
    ["workflow", "skill"],
  ])("has a new name for %s", async (former, category) => {
    const surface = await (await open([category])).surface();

    for (const [tool, args] of [
      ["list_actions", {}],
      ["search_actions", { query: "x" }],
    ] as const)
      expect(await surface.call(tool, { ...args, category: [former] })).toMatchObject({
        ok: false,
        data: {
          code: "unknown_category",
          renamed: { [former]: category },
          hint: `${former} is now ${category}; use that name.`,
        },
      });
    expect(await surface.call("list_actions", { category: [category] })).toMatchObject({ data: { total: 1 } });
  });

  test.each([1, 8, 14, 15, 40])("with %s categories leaves the wrappers within 400 tokens", async (amount) => {
    const words = ["mail", "calendar", "memory_operation", "agent.peer", "rag_corpus", "crm", "web", "exec"];
    const names = Array.from(
      { length: amount },
      (_, at) => `${words[at % words.length]}${at < words.length ? "" : at}`,
    );
    const { tools } = await (await open(names)).surface();
    const count = await loadTokenCounter();

    expect(tools.reduce((sum, tool) => sum + countToolTokens(tool, count), 0)).toBeLessThanOrEqual(400);
    if (amount === 1) expect(JSON.stringify(tools)).toContain('"enum":["mail"]');
    if (amount === 40) expect(tools).toEqual(universalTools);
  });
});

describe("the universal surface", async () => {
  const qm = await world();
  afterAll(() => qm.close());
  const surface = await qm.surface();
  const call = async (tool: string, args: unknown) => (await surface.call(tool, args)).data as Record<string, unknown>;

  test("has wrappers that cost at most 400 tokens in total", async () => {
    const count = await loadTokenCounter();
    const total = universalTools.reduce((sum, tool) => sum + countToolTokens(tool, count), 0);

    expect(total).toBeLessThanOrEqual(400);
  });

  test("differs between catalogs only in the categories it lists", async () => {
    const empty = await createQuartermaster();
    const { tools } = await empty.surface();

    expect(tools).toEqual(universalTools);
    expect(listChoices(surface)).toEqual([qm.categories(), qm.categories()]);
    expect(JSON.stringify(surface.tools).replaceAll(`,"enum":${JSON.stringify(qm.categories())}`, "")).toBe(
      JSON.stringify(tools),
    );
    await empty.close();
  });

  test("pages through all actions without gaps or repeats", async () => {
    const seen: string[] = [];
    let offset: number | undefined = 0;
    while (offset !== undefined) {
      const page = (await call("list_actions", { offset, limit: 3 })) as {
        items: { qualified_name: string }[];
        next_offset?: number;
        total: number;
      };
      expect(page.total).toBe(11);
      seen.push(...page.items.map((item) => item.qualified_name));
      offset = page.next_offset;
    }

    expect(seen).toEqual(qm.names());
  });

  test("returns descriptions and schemas in a narrow list, and summaries in a wide one", async () => {
    const wide = await call("list_actions", {});
    const narrow = await call("list_actions", { category: ["tool"] });

    expect((wide.items as object[])[0]).toEqual({
      qualified_name: "file__delete",
      short_description: expect.any(String),
    });
    expect(narrow.items).toEqual([
      {
        qualified_name: "tool__tasks.list",
        description: "List tasks.",
        input_schema: expect.objectContaining({ type: "object" }),
      },
    ]);
  });

  test.each<[string, unknown, object]>([
    ["several categories", { category: ["tool", "rag_corpus"] }, { total: 2 }],
    ["a bare category", { category: "tool" }, { total: 1 }],
    ["an empty category list", { category: [] }, { total: 11 }],
    ["a filter", { filter: "MEET" }, { total: 1 }],
    ["a filter for the summary", { filter: "list TASKS" }, { total: 1 }],
    ["a filter that finds nothing", { filter: "zzz" }, { total: 0, items: [], hint: expect.stringContaining("zzz") }],
    ["an offset past the end", { offset: 99 }, { total: 11, items: [], hint: expect.stringContaining("only 11") }],
    ["a limit above the page maximum", { limit: 5000 }, { total: 11 }],
    ["numbers as text", { offset: "2", limit: "1" }, { total: 11, next_offset: 3 }],
    [
      "an unknown category",
      { category: ["nonsense"] },
      { code: "unknown_category", valid: ["file", "rag_corpus", "rag_operation", "tool"] },
    ],
    [
      "an empty built-in category",
      { category: ["mcp"] },
      { total: 0, items: [], hint: expect.stringContaining("mcp") },
    ],
    ["a category of notes", { category: ["note"] }, { total: 0, items: [] }],
    [
      "a renamed category",
      { category: ["filesystem"] },
      { code: "unknown_category", renamed: { filesystem: "file" }, hint: "filesystem is now file; use that name." },
    ],
    [
      "a renamed category that does not exist here",
      { category: ["mcp.server"] },
      { code: "unknown_category", hint: expect.not.stringContaining("mcp") },
    ],
    ["a wrong argument", { offset: -1 }, { code: "invalid_arguments", input_schema: expect.anything() }],
  ])("list_actions with %s", async (_name, args, expected) => {
    expect(await call("list_actions", args)).toMatchObject(expected);
  });

  test("describe_action returns every detail, and a uniform error for an unknown action", async () => {
    expect(await call("describe_action", { action_name: "rag_corpus__meetings" })).toEqual({
      qualified_name: "rag_corpus__meetings",
      description: "Meetings.",
      input_schema: expect.objectContaining({ required: ["query"] }),
      examples: [],
      metadata: {
        target_tool_name: "rag_operation__recall",
        category: "rag_corpus",
        purity: "read",
        tags: [],
        idempotent: false,
        approval: "never",
        source: "core",
        type: "resource",
        canonical_default: "runs rag_operation__recall",
      },
    });
    expect(await call("describe_action", { action_name: "file__raed" })).toEqual({
      code: "unknown_action",
      error: 'Unknown action "file__raed"',
      reason: expect.any(String),
      suggestions: ["file__read"],
      hint: expect.stringContaining("list_actions"),
    });
    expect(await call("describe_action", {})).toMatchObject({ code: "invalid_arguments" });
  });

  test("invoke_action answers an unknown name like describe_action", async () => {
    const asked = { action_name: "file__raed", args: { path: "hello" } };
    const invoked = await call("invoke_action", asked);

    expect(invoked).toMatchObject({ code: "unknown_action", suggestions: ["file__read"] });
    expect(invoked).toEqual({ status: "failed", ...(await call("describe_action", asked)) });
  });

  test("invoke_action returns the target's result, and an action can be called as a tool", async () => {
    expect(await surface.call("invoke_action", { action_name: "tool__tasks.list", args: { limit: 3 } })).toEqual({
      ok: true,
      data: { limit: 3 },
      text: '{"limit":3}',
      callId: expect.any(String),
    });
    expect(await surface.call("invoke_action", { action_name: "tool__tasks.list" })).toMatchObject({
      ok: true,
      data: { limit: 10 },
    });
    expect(await surface.call("file__read", { path: "hello" })).toMatchObject({ ok: true });
    expect(await surface.call("invoke_action", { action_name: "tool__tasks.list", args: { limit: 99 } })).toMatchObject(
      { ok: false, data: { code: "invalid_arguments", example: expect.anything() } },
    );
    expect(await surface.call("invoke_action", null)).toMatchObject({ ok: false, data: { code: "invalid_arguments" } });
  });

  test("a wrapper cannot be invoked through a wrapper", async () => {
    expect(
      await call("invoke_action", { action_name: "invoke_action", args: { action_name: "file__read" } }),
    ).toMatchObject({ code: "unknown_action" });
  });
});

describe("the auto surface", () => {
  const many = async (count: number, tokenBudget: number) => {
    const qm = await createQuartermaster({ surface: { kind: "auto", tokenBudget } });
    for (let index = 0; index < count; index++) {
      qm.register({
        name: `t${index}`,
        description: `Does the thing numbered ${index}.`,
        inputSchema: { type: "object", properties: { value: { type: "string" } } },
        handler: () => index,
        scope: "generalist",
        effect: "pure",
      });
    }
    return qm;
  };

  test("is flat while all tools fit the token budget, and universal otherwise", async () => {
    const count = await loadTokenCounter();
    const qm = await many(20, 10_000);
    const cost = (await qm.surface({}, "flat")).tools.reduce((sum, tool) => sum + countToolTokens(tool, count), 0);
    await qm.close();

    for (const [budget, kind] of [
      [cost, "flat"],
      [cost - 1, "universal"],
    ] as const) {
      const measured = await many(20, budget);
      const surface = await measured.surface();
      expect(surface.kind).toBe(kind);
      expect(await surface.call("tool__t7", {})).toMatchObject({ ok: true, data: 7 });
      await measured.close();
    }
  });
});
