import { afterEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { surfaceKinds } from "../src/core/surface-choice.ts";
import {
  actionName,
  createQuartermaster,
  defineAction,
  defineResource,
  type Embedder,
  type PolicyOptions,
  type Quartermaster,
  type QuartermasterOptions,
  searchTypes,
} from "../src/index.ts";
import { wordEmbedder } from "../src/search/semantic/testing.ts";
import { toAiSdkTools } from "../src/surface/exports/ai-sdk.ts";
import { answerAnthropic, toAnthropicTools } from "../src/surface/exports/anthropic.ts";
import { toLangChainTools } from "../src/surface/exports/langchain.ts";
import { toOpenAiChatTools, toOpenAiResponsesTools } from "../src/surface/exports/openai.ts";

/** One hidden action among several visible ones. */
const SECRET = "vault__open_treasury";
const WORDS = /treasury|vault/i;

const names = ["doc__open", "doc__open_treaty", "doc__list", "doc__write", "mail.box__open", "vaultless__open"];

const make = (name: string, more: object = {}) => {
  const at = name.indexOf("__");
  return defineAction(name.slice(0, at), {
    entry: name.slice(at + 2),
    description: name === SECRET ? "Opens the treasury." : `Does ${name}.`,
    effect: "write",
    tags: name === SECRET ? ["crown"] : ["common"],
    aliases: name === SECRET ? ["open_sesame"] : [],
    requiresApproval: name === SECRET,
    input: z.object({ path: z.string() }),
    run: () => "ran",
    ...more,
  });
};

function toProviders(actions: readonly ReturnType<typeof make>[]): QuartermasterOptions["providers"] {
  const categories = [...new Set(actions.map(({ category }) => category))];
  return categories.map((category) => ({
    category,
    capability: "test",
    list: () => actions.filter((action) => action.category === category),
  }));
}

/** Every way to hide the action. */
const hidings: Record<string, PolicyOptions> = {
  denied: { tools: { denied: [SECRET] } },
  "denied by glob": { tools: { denied: ["vault__*"] } },
  "not allowed": { tools: { allowed: names } },
  "required tag": { tools: { requireTags: ["common"] } },
  gate: { gates: [{ name: "g", guards: "vault__*", shut: () => "closed" }] },
  "tag rule": { rules: [{ rule: "'crown' in tool.tags", effect: "hide" }] },
  "failing tag rule": { rules: [{ rule: "'crown' in tool.tags && ctx.user.rank > 3", effect: "hide" }] },
  visibility: { visibility: { visibleTools: (actions) => actions.filter(({ name }) => name !== SECRET) } },
  "actor list": { actors: [{ name: "default", tools: names }] },
};

/** Names a caller may guess for the hidden action. */
const guesses = [
  SECRET,
  "vault.open_treasury",
  "open_treasury",
  "openTreasury",
  "vault__open_tresury",
  "VAULT__OPEN_TREASURY",
  "open_sesame",
  "default_api.vault__open_treasury",
  "treasury",
];

/** Queries a caller may try. Each must return the same results with and without the hidden action. */
const queries = [
  ...guesses,
  "open the treasury",
  "crown",
  "tresury",
  "open",
  "opn a treaty",
  "vau.*",
  "select:vault__open_treasury,doc__open",
  "path",
];

/** Every place that returns something to a caller. Add a line here for each new surface. */
const places: Record<string, (qm: Quartermaster) => unknown> = {
  "list, all pages": (qm) => Array.from({ length: 5 }, (_, page) => qm.list({ offset: page * 2, limit: 2 })),
  "list by category": (qm) =>
    each(["vault", "doc", "treasury"], (category) => attempt(() => qm.list({ category: [category] }))),
  "list by filter": (qm) => ["treasury", "vault", "opens the", "open", "crown"].map((filter) => qm.list({ filter })),
  describe: (qm) => each(guesses, (name) => attempt(() => qm.describe(name))),
  invoke: (qm) => Promise.all(guesses.map((name) => qm.invoke(name, { path: "x" }).then(withoutIds))),
  "invoke with wrong arguments": (qm) => Promise.all(guesses.map((name) => qm.invoke(name, {}).then(withoutIds))),
  "universal: list_actions": async (qm) => (await qm.surface()).call("list_actions", { limit: 50 }),
  "universal: list_actions by category": async (qm) =>
    (await qm.surface()).call("list_actions", { category: ["vault"] }),
  "universal: describe_action": (qm) =>
    each(guesses, async (action_name) => (await qm.surface()).call("describe_action", { action_name })),
  "universal: invoke_action": (qm) =>
    each(guesses, async (action_name) =>
      (await qm.surface()).call("invoke_action", { action_name, args: { path: "x" } }),
    ),
  "universal: called as a tool": (qm) => each(guesses, async (name) => (await qm.surface()).call(name, { path: "x" })),
  "flat: tools and wire names": async (qm) => (await qm.surface({}, "flat")).tools,
  "flat: called": (qm) => each(guesses, async (name) => (await qm.surface({}, "flat")).call(name, { path: "x" })),
  auto: async (qm) => (await qm.surface({}, "auto")).tools,
  "export: OpenAI chat": async (qm) => toOpenAiChatTools(await qm.surface({}, "flat")),
  "export: OpenAI responses": async (qm) => toOpenAiResponsesTools(await qm.surface({}, "flat")),
  "export: Anthropic": async (qm) => toAnthropicTools(await qm.surface({}, "flat")),
  "export: Anthropic, deferring": async (qm) => {
    const surface = await qm.surface({}, "deferred");
    const blocks = queries.map((query) => ({ type: "tool_use", id: query, name: "tool_search", input: { query } }));
    const answers = await each(blocks, (block) => answerAnthropic(surface, [block], { deferLoading: true }));
    return [toAnthropicTools(surface, { deferLoading: true }), answers];
  },
  "export: AI SDK": async (qm) =>
    Object.entries(toAiSdkTools(await qm.surface({}, "flat"))).map(([name, tool]) => [name, tool.description]),
  "export: LangChain": async (qm) =>
    toLangChainTools(await qm.surface({}, "flat")).map(({ name, description }) => [name, description]),
  search: (qm) => each(queries, (query) => attempt(() => qm.search({ query, limit: 20 }))),
  "search in full": (qm) => each(queries, (query) => qm.search({ query, limit: 20, detail: "full" })),
  "search by type": (qm) =>
    each(queries, (query) => each(searchTypes, (type) => qm.search({ query, type, limit: 20 }))),
  "search by category": (qm) =>
    each(["vault", "doc", "mail.box"], (category) =>
      attempt(() => qm.search({ query: "open the treasury", category: [category] })),
    ),
  "universal: search_actions": async (qm) => {
    const surface = await qm.surface();
    return each(queries, (query) => surface.call("search_actions", { query }));
  },
  hints: (qm) => each(queries, (query) => qm.hints(query)),
  directory: (qm) => qm.directory(),
  "deferred: tool_search": async (qm) => {
    const surface = await qm.surface({}, "deferred");
    return each(queries, (query) => surface.call("tool_search", { query, include_always_loaded: true }));
  },
  "deferred: tool_get": async (qm) => {
    const surface = await qm.surface({}, "deferred");
    const alone = await each(guesses, (name) => surface.call("tool_get", { names: [name] }));
    return [alone, await surface.call("tool_get", { names: ["doc__open", SECRET, "doc__list"] })];
  },
  "deferred: activation": async (qm) => {
    const surface = await qm.surface({}, "deferred");
    const answers = await each([...guesses, "doc__open"], (name) => surface.call(name, { path: "x" }));
    return [answers, surface.tools];
  },
  "deferred: called": (qm) =>
    each(guesses, async (name) => (await qm.surface({}, "deferred")).call(name, { path: "x" })),
  "names and categories": (qm) => [qm.names(), qm.categories()],
  prompt: (qm) => each(surfaceKinds, (kind) => qm.prompt({}, { kind })),
};

const open: Quartermaster[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((qm) => qm.close()));
});

async function createQm(
  withSecret: boolean,
  policy: PolicyOptions,
  { surface = {}, search = {} }: Pick<QuartermasterOptions, "surface" | "search"> = {},
): Promise<Quartermaster> {
  const actions = [...names, ...(withSecret ? [SECRET] : [])].map((name) => make(name));
  const qm = await createQuartermaster({ providers: toProviders(actions) ?? [], policy, surface, search });
  open.push(qm);
  return qm;
}

describe.each(Object.keys(hidings))("hidden by %s", (hiding) => {
  test.each(Object.keys(places))("%s treats the action as nonexistent", async (place) => {
    const policy = hidings[hiding] ?? {};
    const [withIt, without] = await Promise.all([createQm(true, policy), createQm(false, policy)]);

    const answered = serialize(await places[place]?.(withIt));
    const answeredWithout = serialize(await places[place]?.(without));

    expect(answered).toBe(answeredWithout);
    expect(guesses.reduce((text, guess) => text.replaceAll(guess, ""), answered)).not.toContain(SECRET);
  });
});

interface SearchSetup {
  readonly embedder: Embedder;
  /** Short for the embedder that never answers. For the others, even a busy machine must not reach it. */
  readonly embedderTimeoutMs?: number;
  after?(qm: Quartermaster): Promise<unknown>;
}

/** The states of the semantic index. */
const embedders: Record<string, () => SearchSetup> = {
  built: () => ({ embedder: wordEmbedder(), after: (qm) => qm.embeddings.build() }),
  "being built": () => ({ embedder: wordEmbedder("slow", () => new Promise(() => {})), embedderTimeoutMs: 20 }),
  "failing, with the texts in its message": () => ({
    embedder: wordEmbedder("failing", (_signal, texts) => {
      throw new Error(`cannot embed:\n${texts.join("\n")}`);
    }),
    after: (qm) => qm.embeddings.build().catch(() => {}),
  }),
};

const searchPlaces = Object.keys(places).filter((place) => /search|hints|list|deferring/.test(place));

describe.each(Object.keys(embedders))("with vectors %s", (state) => {
  async function collectAnswer(withSecret: boolean, place: string): Promise<string> {
    const { after, embedderTimeoutMs = 10_000, embedder } = embedders[state]?.() ?? { embedder: wordEmbedder() };
    const search = { embedder, embedderTimeoutMs };
    const qm = await createQm(withSecret, { tools: { denied: [SECRET] } }, { search });
    await after?.(qm);
    return serialize(await places[place]?.(qm));
  }

  test.each(searchPlaces)("%s treats the hidden action as nonexistent", async (place) => {
    const [withIt, without] = await Promise.all([collectAnswer(true, place), collectAnswer(false, place)]);

    expect(withIt).toBe(without);
    expect(withIt).not.toContain("Opens the treasury");
  });
});

/** Options that add tools to a surface's constant ones. */
const shortcuts: Record<string, NonNullable<QuartermasterOptions["surface"]>> = {
  enum: { selection: "enum" },
  promotion: { selection: "promote" },
  "hot list": { hotListN: 3, hotListSeed: [SECRET, "doc__open", "doc__list"] },
  "deferred promotion": { kind: "deferred", selection: "promote" },
  "always loaded": { kind: "deferred", alwaysLoadedPatterns: ["vault__*", "doc__*"] },
  "loaded by default": { kind: "deferred", defaultLoadingMode: "always" },
};

async function shownAfterUse(qm: Quartermaster): Promise<string> {
  const surface = await qm.surface({ session: "s" });
  for (const query of queries)
    await surface.call(surface.kind === "deferred" ? "tool_search" : "search_actions", { query });
  await surface.call("list_actions", { limit: 50 });
  await surface.call("tool_get", { names: [SECRET, "doc__open"] });
  for (const name of [SECRET, SECRET, SECRET, "doc__list"]) await surface.call(name, { path: "x" });
  return JSON.stringify([surface.tools, (await qm.surface({ session: "s" })).tools]);
}

describe.each(Object.keys(shortcuts))("tools shown by %s", (shortcut) => {
  test.each(Object.keys(hidings))("do not depend on an action hidden by %s", async (hiding) => {
    const policy = hidings[hiding] ?? {};
    const [withIt, without] = await Promise.all([
      createQm(true, policy, { surface: shortcuts[shortcut] ?? {} }),
      createQm(false, policy, { surface: shortcuts[shortcut] ?? {} }),
    ]);

    const shown = await shownAfterUse(withIt);

    expect(shown).toBe(await shownAfterUse(without));
    expect(shown).not.toContain("treasury");
    expect(shown).toContain("doc__open");
  });

  test("include the action when it is visible", async () => {
    expect(await shownAfterUse(await createQm(true, {}, { surface: shortcuts[shortcut] ?? {} }))).toContain(SECRET);
  });
});

test("hides a specialist's tool from every other actor", async () => {
  const register = (qm: Quartermaster) =>
    qm.register({
      name: "open_treasury",
      description: "Opens the treasury.",
      inputSchema: { type: "object" },
      handler: () => null,
      scope: "specialist",
      justification: "Only the treasurer may open it.",
      effect: "write",
    });
  const actors = [
    { name: "default", tools: ["*"] },
    { name: "treasurer", tools: ["open_treasury"] },
  ];
  const [withIt, without] = await Promise.all([createQm(false, { actors }), createQm(false, { actors })]);
  register(withIt);

  for (const place of Object.keys(places)) {
    expect(serialize(await places[place]?.(withIt)), place).toBe(serialize(await places[place]?.(without)));
  }
  expect(withIt.list({}, { actor: "treasurer" }).items.map(({ qualified_name }) => qualified_name)).toEqual([
    "tool__open_treasury",
  ]);
});

describe("approval__*", () => {
  const listApprovalActions = (qm: Quartermaster, actor = "default") =>
    qm.names({ actor }).filter((name) => /^approval__/.test(name));
  const actors = [
    { name: "default", tools: ["doc__*", "approval__*"] },
    { name: "treasurer", tools: ["vault__*", "approval__*"] },
  ];

  test("is shown only to an actor that sees an action requiring approval", async () => {
    const qm = await createQm(true, { actors });

    expect(listApprovalActions(qm)).toEqual([]);
    expect(listApprovalActions(qm, "treasurer")).toEqual(["approval__await", "approval__list", "approval__withdraw"]);
    expect(await qm.invoke("approval__list", {})).toMatchObject({ error: { code: "unknown_action" } });
    expect(qm.explain("approval__list")).toMatchObject({ visible: false, decision: "deny" });
    expect(qm.explain("approval__list", { actor: "treasurer" })).toMatchObject({ visible: true });
  });

  test("is hidden when the only ask rule covers a hidden action", async () => {
    const rules = [{ rule: "tool.category == 'vault'", effect: "ask" } as const];

    expect(listApprovalActions(await createQm(true, { actors, rules }))).toEqual([]);
  });

  test("is shown when an ask rule depends on arguments", async () => {
    const rules = [{ rule: "args.path == 'x'", effect: "ask" } as const];

    expect(listApprovalActions(await createQm(false, { actors, rules }))).toHaveLength(3);
  });
});

test("hides a resource whose operation is hidden", async () => {
  const policy = { tools: { denied: [SECRET] } };
  const key = defineResource("key", {
    entry: "to_the_treasury",
    description: "The key to the treasury.",
    target: actionName("vault", "open_treasury"),
    transform: { set: { path: "$entry" } },
  });
  const [withIt, without] = await Promise.all([createQm(true, policy), createQm(false, policy)]);
  withIt.catalog.provide({ category: "key", capability: "test", list: () => [key] });

  for (const place of Object.keys(places)) {
    expect(serialize(await places[place]?.(withIt)), place).toBe(serialize(await places[place]?.(without)));
  }
  expect(await withIt.invoke("key__to_the_treasury", {})).toMatchObject({ error: { code: "unknown_action" } });
});

test("every place reveals the action when it is visible", async () => {
  const qm = await createQm(true, {});

  for (const place of Object.keys(places)) {
    const answered = serialize(await places[place]?.(qm));
    expect(
      WORDS.test(guesses.reduce((text, guess) => text.replaceAll(guess, ""), answered)) ||
        answered.includes(SECRET) ||
        answered.includes("ran") ||
        answered.includes("must approve"),
      place,
    ).toBe(true);
  }
});

test("an allowlist does not remove the discovery tools", async () => {
  const qm = await createQm(false, { tools: { allowed: ["doc__list"], requireTags: ["common"] } });

  expect((await qm.surface()).tools.map(({ name }) => name)).toEqual([
    "describe_action",
    "invoke_action",
    "list_actions",
    "search_actions",
  ]);
});

async function attempt(work: () => unknown): Promise<unknown> {
  try {
    return await work();
  } catch (thrown) {
    return (thrown as { toProblem(): unknown }).toProblem();
  }
}

async function each<V, T>(values: readonly V[], work: (value: V) => Promise<T>): Promise<T[]> {
  const answers: T[] = [];
  for (const value of values) answers.push(await work(value));
  return answers;
}

function withoutIds(outcome: object): object {
  const { callId: _id, durationMs: _ms, ...rest } = outcome as Record<string, unknown>;
  return rest;
}

/** Serializes answers without their call ids. */
function serialize(answers: unknown): string {
  return JSON.stringify(answers, (key, value) => (key === "callId" ? undefined : value));
}
