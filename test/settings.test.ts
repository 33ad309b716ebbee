import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, expect, onTestFinished, test } from "vitest";
import { cleanUp, createTestFolder } from "../src/cli/testing.ts";
import { listConfigKeys } from "../src/config/testing.ts";
import { openWorkspace, type Quartermaster } from "../src/index.ts";
import { embeddingEndpoint } from "../src/search/semantic/testing.ts";

afterEach(cleanUp);

/** Opens a quartermaster with this configuration and returns what `look` sees. */
async function observe(yaml: string, look: (qm: Quartermaster, cwd: string) => Promise<unknown>): Promise<string> {
  const cwd = await createTestFolder({ "quartermaster.yaml": yaml });
  await mkdir(join(cwd, "model"), { recursive: true });
  const { quartermaster, close } = await openWorkspace({ cwd, env: { KEY: "the-key-itself" } });
  try {
    return JSON.stringify(await look(quartermaster, cwd));
  } finally {
    await close();
  }
}

const names = ({ items }: { items: readonly { qualified_name: string }[] }) =>
  items.map(({ qualified_name }) => qualified_name);
const tools = async (qm: Quartermaster) => (await qm.surface({ session: "s", turn: "t" })).tools;
const aids = (qm: Quartermaster) => qm.promptAids("read a file");
const find = async (qm: Quartermaster) => names(await qm.search({ query: "file", limit: 20 }));
const inSearch = (text: string) => `search: ${text}`;

/** For each key: a non-default value, where its effect is visible, and the baseline without it. */
const cases: Record<string, readonly [yaml: string, look: (qm: Quartermaster) => Promise<unknown>, baseline?: string]> =
  {
    "surface.kind": ["surface: { kind: deferred }", tools],
    "surface.token_budget": ["surface: { kind: auto, token_budget: 1 }", tools, "surface: { kind: auto }"],
    "surface.selection": [
      "surface: { selection: enum }",
      async (qm) => {
        const surface = await qm.surface({ session: "s" });
        await surface.call("search_actions", { query: "read" });
        return surface.tools;
      },
    ],
    "surface.hot_list_n": [
      "surface: { hot_list_n: 1, hot_list_seed: [file__read] }",
      tools,
      "surface: { hot_list_seed: [file__read] }",
    ],
    "surface.hot_list_seed": [
      "surface: { hot_list_n: 1, hot_list_seed: [file__grep] }",
      tools,
      "surface: { hot_list_n: 1 }",
    ],
    "surface.default_loading_mode": [
      "surface: { kind: deferred, default_loading_mode: always }",
      tools,
      "surface: { kind: deferred }",
    ],
    "surface.always_loaded_patterns": [
      "surface: { kind: deferred, always_loaded_patterns: [file__*] }",
      tools,
      "surface: { kind: deferred }",
    ],
    "surface.activation_scope": [
      "surface: { kind: deferred, activation_scope: session }",
      async (qm) => {
        await (await qm.surface({ session: "s", turn: "t" })).call("file__list", {});
        return (await qm.surface({ session: "s", turn: "another" })).tools;
      },
      "surface: { kind: deferred }",
    ],
    "action_retrieval.universal_wrappers_enabled": ["action_retrieval: { universal_wrappers_enabled: false }", tools],
    "action_retrieval.hot_list_n": ["action_retrieval: { hot_list_n: 1 }", tools],
    "action_retrieval.embedding_class": [
      "action_retrieval: { embedding_class: local-mini }\nsearch: { embedder: { model_path: model } }",
      async (qm) => qm.embeddings.status().reason,
    ],
    router_model: ["router_model: light", (qm) => qm.prompt()],
    "search.enabled": [inSearch("{ enabled: false }"), tools],
    "search.max_results": [inSearch("{ max_results: 2 }"), find],
    "search.preferred_namespaces": [
      inSearch("{ preferred_namespaces: [tool] }"),
      async (qm) => {
        const handler = () => null;
        const twin = { description: "Twin.", effect: "read", scope: "generalist", handler } as const;
        qm.register({ ...twin, name: "aaaaaaaa", inputSchema: { type: "object" }, tags: ["file"] });
        await qm.catalog.settled();
        return names(await qm.search({ query: "file", type: "exact", limit: 20 }));
      },
    ],
    "search.hints.enabled": [inSearch("{ hints: { enabled: true } }"), aids],
    "search.hints.top_k": [
      inSearch("{ hints: { enabled: true, top_k: 1 } }"),
      aids,
      inSearch("{ hints: { enabled: true } }"),
    ],
    "search.hints.search_type": [
      inSearch("{ hints: { enabled: true, search_type: exact } }"),
      aids,
      inSearch("{ hints: { enabled: true } }"),
    ],
    "search.hints.include_always_loaded": [
      `${inSearch("{ hints: { enabled: true, include_always_loaded: true } }")}\nsurface: { kind: deferred, always_loaded_patterns: [file__read] }`,
      aids,
      `${inSearch("{ hints: { enabled: true } }")}\nsurface: { kind: deferred, always_loaded_patterns: [file__read] }`,
    ],
    ...Object.fromEntries(
      [
        ["enabled", "enabled: true", "enabled: false"],
        [
          "max_groups",
          "enabled: true, max_groups: 1, groups: [{ name: a, actions: [file__read] }]",
          "enabled: true, groups: [{ name: a, actions: [file__read] }]",
        ],
        ["max_actions_per_group", "enabled: true, max_actions_per_group: 1", "enabled: true"],
        [
          "show_counts",
          "enabled: true, show_counts: false, max_actions_per_group: 50",
          "enabled: true, max_actions_per_group: 50",
        ],
        ["default_groups", "enabled: true, default_groups: false", "enabled: true"],
        ["groups", "enabled: true, groups: [{ name: mine, actions: [file__read] }]", "enabled: true"],
      ].map(([key, there, baseline]) => [
        `search.directory.${key}`,
        [inSearch(`{ directory: { ${there} } }`), aids, inSearch(`{ directory: { ${baseline} } }`)] as const,
      ]),
    ),
  };

test.each(Object.keys(cases))("%s has an effect", async (key) => {
  const [yaml, look, baseline = ""] = cases[key] ?? ["", tools];

  expect(await observe(yaml, look)).not.toBe(await observe(baseline, look));
});

async function endpoint() {
  const made = await embeddingEndpoint();
  onTestFinished(made.close);
  return made;
}

const embedder = (url: string, more = "") =>
  `search: { embedder: { class: standard, base_url: "${url}", api_key: "\${env:KEY}"${more} }`;

test("sends the configured model, dimensions and key to the endpoint", async () => {
  const { url, requests } = await endpoint();
  const asked = `${embedder(url, ", model: mine, dimensions: 64")} }`;

  await observe(asked, (qm) => qm.embeddings.build());

  expect(requests[0]).toMatchObject({ path: "/v1/embeddings", authorization: "Bearer the-key-itself" });
  expect(requests[0]?.body).toMatchObject({ model: "mine", dimensions: 64 });
});

test("a search falls back to words after timeout_ms", async () => {
  const silent = await embeddingEndpoint((response, { body }, nth) => {
    if (nth > 1) return;
    response.end(JSON.stringify({ data: body.input.map((_, index) => ({ index, embedding: [1, index] })) }));
  });
  onTestFinished(silent.close);

  const answer = await observe(
    `${embedder(silent.url, ", timeout_ms: 1")} }\ninfospace: { enabled: false }`,
    async (qm) => {
      await qm.embeddings.build();
      return qm.search({ query: "read a file" });
    },
  );

  expect(answer).toContain("Searched by words only");
});

test("rebuild embeds every text again", async () => {
  const { url, texts } = await endpoint();
  const sentBy = async (cwd: string) => {
    const before = texts().length;
    const { quartermaster, close } = await openWorkspace({ cwd, env: { KEY: "k" } });
    await quartermaster.embeddings.build();
    await close();
    return texts().length - before;
  };
  const plain = await createTestFolder({ "quartermaster.yaml": `${embedder(url)} }` });
  const rebuilding = await createTestFolder({ "quartermaster.yaml": `${embedder(url)}, index: { rebuild: true } }` });

  const all = await sentBy(plain);
  expect(all).toBeGreaterThan(0);
  expect(await sentBy(plain)).toBe(0);
  await sentBy(rebuilding);
  expect(await sentBy(rebuilding)).toBeGreaterThanOrEqual(all);
});

test("the ledger never contains an embedder's key", async () => {
  const { url } = await endpoint();
  const cwd = await createTestFolder({ "quartermaster.yaml": `${embedder(url)} }` });
  const { quartermaster, close } = await openWorkspace({ cwd, env: { KEY: "the-key-itself" } });
  await quartermaster.invoke("file__read", { path: "the-key-itself" });
  await quartermaster.ledger.flush(0);
  const events = await quartermaster.ledger.read({});
  await close();

  expect(JSON.stringify(events)).not.toContain("the-key-itself");
});

test("covers every key of search, surface, action_retrieval and router_model", () => {
  const elsewhere = /^search\.(embedder|index)|groups\[\]|^(search|surface|action_retrieval)(\.hints|\.directory)?$/;
  const keys = listConfigKeys()
    .map(({ path }) => path)
    .filter((path) => /^(search|surface|action_retrieval|router_model)/.test(path) && !elsewhere.test(path));

  expect(Object.keys(cases).sort()).toEqual(keys.sort());
});
