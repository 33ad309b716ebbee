import { writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { atTerminal, cleanUp, qm as runCommand } from "../src/cli/testing.ts";
import { providersSchema } from "../src/config/providers-schema.ts";
import { errorCodes } from "../src/core/errors.ts";
import {
  createQuartermaster,
  defineAction,
  fileProvider,
  type Json,
  type JsonObject,
  type Outcome,
  openWorkspace,
  type Workspace,
} from "../src/index.ts";
import { countToolTokens, loadTokenCounter } from "../src/surface/open-surface.ts";
import { startModelServer } from "../src/testing/model-server.ts";
import { createScriptedModel } from "../src/testing/scripted-model.ts";
import { startFakeRegistry } from "./support/registry/fake-registry.ts";
import { createSandboxFolder } from "./support/sandbox.ts";

const caller = { session: "census", user: { id: "ann" } } as const;
const closing: (() => unknown)[] = [];
let workspace: Workspace;
let names: readonly string[];

/** Every category that the configuration can switch on, so that a new one is counted without a change here. */
const providers = Object.keys(providersSchema.unwrap().shape);

/** Files that the examples of the actions name. */
const files = {
  "README.md": "# Readme\n",
  "src/config.ts": "retries: 3,\nexport function parse() {}\n",
  "src/core/a.test.ts": "// TODO\n",
  "logs/server.log": "line\n".repeat(5000),
  "notes/old.md": "old\n",
  "docs/guide.md": "# Backups\n\nBackups are restored with one command.\n",
  "skills/greet/SKILL.md": "---\nname: greet\ndescription: Greet politely.\n---\nSay hello.\n",
  "shop.json": JSON.stringify({
    openapi: "3.1.0",
    info: { title: "Shop", version: "1" },
    paths: {
      "/orders/{id}": {
        get: {
          operationId: "getOrder",
          summary: "Get an order.",
          parameters: [{ name: "id", in: "path", required: true, schema: { type: "string" }, example: "o1" }],
          responses: { default: { description: "The order." } },
        },
      },
    },
  }),
};

/** Plays the web, a search engine and an API. */
async function startSite(): Promise<string> {
  const server = createServer((request, response) => {
    if (request.url === "/robots.txt") return void response.writeHead(404).end();
    const isPage = request.url === "/page";
    response.setHeader("Content-Type", isPage ? "text/html" : "application/json");
    response.end(isPage ? "<title>Page</title><p>Hello</p>" : JSON.stringify({ results: [], id: "o1" }));
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  closing.push(() => server.close());
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

beforeAll(async () => {
  const site = await startSite();
  const registry = await startFakeRegistry();
  const model = await startModelServer(createScriptedModel(() => '{"result":"ok"}'));
  closing.push(registry.close, model.close);
  const cwd = await createSandboxFolder(files);
  const settings: Record<string, object> = {
    file: { read_only: false },
    web: { allow_hosts: [site], search: { kind: "searxng", url: `http://${site}` } },
  };
  const config = {
    providers: Object.fromEntries(providers.map((name) => [name, { enabled: true, ...settings[name] }])),
    skills: { folders: ["skills"] },
    mcp: { registry: registry.url },
    servers: { github: { command: "node", args: [join(import.meta.dirname, "fixtures/mcp-servers/plain.mjs")] } },
    models: { default: { provider: "openai-compatible", model: "m", base_url: model.url } },
    actors: { default: { tools: ["*"] }, helper: { tools: ["*"], description: "Helps." } },
  };
  await writeFile(join(cwd, "quartermaster.yaml"), JSON.stringify(config));
  const imported = await runCommand(
    cwd,
    ["import", "openapi", "shop.json", "--server", `http://${site}`],
    atTerminal("y\n"),
  );
  expect(imported.code, imported.err).toBe(0);
  workspace = await openWorkspace({ cwd, env: { PATH: process.env.PATH, HOME: cwd } });
  const { quartermaster } = workspace;
  closing.push(() => workspace.close());
  quartermaster.register({
    name: "translate",
    description: "Translate a text.",
    inputSchema: z.strictObject({ text: z.string(), to: z.string() }),
    handler: ({ text }) => text,
    scope: "generalist",
    effect: "read",
    examples: [{ args: { text: "hello", to: "de" } }],
  });
  await invoke("mcp__list_tools", { server: "github" });
  samples = createSamples(site);
  names = quartermaster.names(caller);
}, 60_000);

afterAll(async () => {
  for (const close of closing.splice(0).reverse()) await close();
  await cleanUp();
});

const invoke = (name: string, args: unknown): Promise<Outcome> =>
  workspace.quartermaster.invoke(name, args as JsonObject, { caller });

async function invokeDone(name: string, args: JsonObject): Promise<JsonObject> {
  const outcome = await invoke(name, args);
  if (outcome.status !== "done") throw new Error(`${name}: ${JSON.stringify(outcome)}`);
  return outcome.data as JsonObject;
}

/** Arguments for the actions whose examples name something that is not in the folder. */
let samples: Readonly<Record<string, readonly JsonObject[]>>;
const createSamples = (site: string): typeof samples => ({
  web__fetch: [{ url: `http://${site}/page` }, { url: `http://${site}/page`, raw: true }],
  infospace__apply: [{ action: "file__read", args: { path: "README.md" }, name: "readme" }],
  mcp__call_tool: [{ tool: "github__echo", tool_args: { text: "hello" } }],
  mcp__install_registry: [{ server_id: "io.github.example/notes-bundle" }],
  skill__extract: [{ input: "Ann is 30.", fields: ["name"] }],
  skill__summarize: [{ input: "A long text." }],
  skill__greet: [{}],
});

/** Endings other than a result that are right here. */
const otherEndings: Readonly<Record<string, string>> = {
  infospace__index: "search_off", // no embedder is configured
  mcp__drop_server: "waiting",
  mcp__install_local: "waiting",
  mcp__install_package: "waiting",
  mcp__install_registry: "waiting",
};

function listSamples(name: string): readonly JsonObject[] {
  const { examples = [] } = workspace.quartermaster.describe(name, caller);
  return samples[name] ?? (examples.length > 0 ? examples.map(({ args }) => args) : [{}]);
}

const row = {
  id: 1,
  status: "open",
  amount: 2,
  price: 3.5,
  owner_id: 1,
  title: "Tea",
  owner: { name: "Ann", email: "a@b" },
};

let asked = 0;

/** Replaces the handles of the examples by new ones, and brings about what the action needs. */
async function prepare(name: string, args: JsonObject): Promise<JsonObject> {
  const { quartermaster } = workspace;
  let text = JSON.stringify(args);
  const create = async (entry: string, value: JsonObject) =>
    String((await invokeDone(`infospace__${entry}`, value)).handle);
  for (const [handle, make] of [
    ["collection__7", () => create("create-collection", { items: [row, { ...row, id: 2, price: 20 }] })],
    ["collection__9", () => create("create-collection", { items: [row] })],
    ["note__12", () => create("create-note", { value: { items: [{ title: "Tea" }], body: "One.\n\nTwo." } })],
    ["01J00000000000000000000000", () => waitForApproval()],
  ] as const)
    if (text.includes(handle)) text = text.replaceAll(handle, await make());
  async function waitForApproval() {
    // Different for each call, because two identical calls share one approval.
    const outcome = await invoke("mcp__install_local", { name: `n${++asked}`, command: "node", args: ["n.mjs"] });
    return outcome.status === "waiting" ? outcome.approval.id : "";
  }
  const first = quartermaster.describe(name, caller).metadata.category;
  if (first === "memory_operation" && /forget|history|read|restore/.test(name)) {
    const [remembered = {}] = listSamples("memory_operation__remember_shared");
    await invokeDone("memory_operation__remember_shared", remembered);
  }
  if (first === "rag_operation" && /drop|recall|index/.test(name))
    await invokeDone("rag_operation__index", { source: "docs", description: "The manual.", files: ["docs/*.md"] });
  return JSON.parse(text) as JsonObject;
}

test("every category that can be switched on has actions", () => {
  const categories = workspace.quartermaster.categories(caller);
  const expected = ["agent.peer", "api", "approval", "file", "infospace", "mcp", "memory_operation", "qm_source"];

  expect(categories).toEqual(expect.arrayContaining([...expected, "rag_operation", "skill", "tool", "web"]));
  expect(names.length).toBeGreaterThanOrEqual(70);
});

test("every action is listed, described and invocable, and no other is", async () => {
  const { quartermaster } = workspace;
  const listed: string[] = [];
  for (let offset: number | undefined = 0; offset !== undefined; ) {
    const page: ReturnType<typeof quartermaster.list> = quartermaster.list({ offset, limit: 50 }, caller);
    listed.push(...page.items.map(({ qualified_name }) => qualified_name));
    offset = page.next_offset;
  }

  expect(listed).toEqual(names);
  const { tools } = await quartermaster.surface(caller, "flat");
  expect(tools).toHaveLength(names.length);
  expect(quartermaster.inventory().filter(({ name }) => !names.includes(name))).toEqual([]);
  for (const name of names) expect(quartermaster.describe(name, caller).qualified_name).toBe(name);
});

test("every built-in operation has an example", () => {
  const without = names.filter((name) => {
    const { metadata, examples = [] } = workspace.quartermaster.describe(name, caller);
    return metadata.source === "core" && metadata.type === "operation" && examples.length === 0;
  });

  expect(without).toEqual([]);
});

test("every action works with its examples", async () => {
  const endings: string[] = [];
  for (const name of names)
    for (const sample of listSamples(name)) {
      const outcome = await invoke(name, await prepare(name, sample));
      const ending = outcome.status === "failed" ? outcome.error.code : outcome.status;
      if (ending !== (otherEndings[name] ?? "done"))
        endings.push(`${name} ${JSON.stringify(sample)}: ${JSON.stringify(outcome)}`);
    }

  expect(endings).toEqual([]);
}, 60_000);

type Properties = Readonly<Record<string, { readonly type?: string | readonly string[] }>>;

function readSchema(name: string) {
  const { input_schema } = workspace.quartermaster.describe(name, caller);
  return {
    required: (input_schema.required ?? []) as string[],
    properties: (input_schema.properties ?? {}) as Properties,
  };
}

/** No repair turns these into a value of the type. */
const wrongValues: Readonly<Record<string, Json>> = {
  string: { a: [] },
  integer: "many",
  number: "many",
  boolean: "perhaps",
  array: { a: [] },
  object: "text",
};

const refusals: Readonly<Record<string, (name: string, sample: JsonObject) => readonly unknown[]>> = {
  "arguments that are no object": () => [12, "text", [], [{}], true],
  "missing arguments": (name, sample) =>
    readSchema(name).required.map((key) => Object.fromEntries(Object.entries(sample).filter(([each]) => each !== key))),
  "values of the wrong type": (name, sample) =>
    Object.entries(readSchema(name).properties).flatMap(([key, { type }]) => {
      const wrong = typeof type === "string" ? wrongValues[type] : undefined;
      return wrong === undefined ? [] : [{ ...sample, [key]: wrong }];
    }),
};
const oddities: Readonly<Record<string, (name: string, sample: JsonObject) => readonly unknown[]>> = {
  "unknown names": (_, sample) => [{ ...sample, no_such_key: 1 }],
  "the names of prototypes": (_, sample) => {
    const odd = JSON.parse(
      '{"__proto__":{"path":"x"},"constructor":{"prototype":{}},"toString":1,"hasOwnProperty":null}',
    );
    return [odd, { ...sample, ...odd }];
  },
  "huge texts": (name, sample) =>
    Object.entries(readSchema(name).properties).flatMap(([key, { type }]) =>
      type === "string" ? [{ ...sample, [key]: "x/".repeat(100_000) }] : [],
    ),
  "numbers out of range": (name, sample) =>
    Object.entries(readSchema(name).properties).flatMap(([key, { type }]) =>
      type === "integer" || type === "number" ? [-1, 1e308, -0.5].map((value) => ({ ...sample, [key]: value })) : [],
    ),
};

describe.each([
  ["refuses", refusals],
  ["ends well with", oddities],
])("every action %s", (verb, kinds) => {
  test.each(Object.keys(kinds))(
    "%s",
    async (kind) => {
      const wrong: string[] = [];
      for (const name of names) {
        const [sample = {}] = listSamples(name);
        for (const args of kinds[kind]?.(name, sample) ?? []) {
          const outcome = await invoke(name, args);
          const code = "error" in outcome ? outcome.error.code : outcome.status;
          const isKnown = code === "done" || code === "waiting" || Object.hasOwn(errorCodes, code);
          const isRight = verb === "refuses" ? code === "invalid_arguments" : isKnown && code !== "internal";
          if (!isRight)
            wrong.push(`${name} ${JSON.stringify(args).slice(0, 200)}: ${JSON.stringify(outcome).slice(0, 300)}`);
        }
      }

      expect(wrong).toEqual([]);
      expect(Object.keys(Object.prototype)).toEqual([]);
    },
    60_000,
  );
});

/** The memory `release-day` and the corpus `docs`. */
async function createResources(): Promise<void> {
  for (const name of ["memory_operation__remember_shared", "rag_operation__index"]) {
    const [sample = {}] = listSamples(name);
    await invokeDone(name, sample);
  }
}

test("resources run the operation of their kind", async () => {
  const note = String((await invokeDone("infospace__create-note", { value: "Ann prefers tea." })).handle);
  const collection = String((await invokeDone("infospace__create-collection", { items: [row] })).handle);
  await createResources();
  const resources = [
    [note, {}, "infospace__load"],
    [collection, {}, "infospace__load"],
    ["memory_entry__release-day", {}, "memory_operation__read"],
    ["rag_corpus__docs", { query: "backups" }, "rag_operation__recall"],
  ] as const;
  const surface = await workspace.quartermaster.surface(caller, "universal");
  for (const [name, args, target] of resources) {
    expect([name, await invoke(name, args)]).toMatchObject([name, { status: "done" }]);
    const { data } = await surface.call("describe_action", { action_name: name });
    expect([name, data]).toMatchObject([name, { metadata: { target_tool_name: target } }]);
  }
});

test.each([
  ["reyn_source__list", {}, "qm_source__list"],
  ["reyn_repo__list", {}, "qm_source__list"],
  ["memory__list", {}, "memory_operation__list"],
  ["memory.entry__release-day", {}, "memory_entry__release-day"],
  ["rag.corpus__docs", { query: "backups" }, "rag_corpus__docs"],
  ["mcp.server__list_servers", {}, "mcp__list_servers"],
  ["agent_peer__helper", { message: "hello" }, "agent.peer__helper"],
  ["workflow__greet", {}, "skill__greet"],
  ["files__list", {}, "file__list"],
])("the former name %s still works", async (former, args, action) => {
  await createResources();

  expect(await invoke(former, args)).toMatchObject({ status: "done", action });
});

test("a former name is free for a category of the host", async () => {
  const read = defineAction("files", {
    entry: "count",
    description: "Count.",
    effect: "read",
    input: z.object({}),
    run: () => 1,
  });
  const providers = [
    fileProvider({ root: "." }),
    { category: "files", capability: "Count files.", list: () => [read] },
  ];
  const quartermaster = await createQuartermaster({ providers });
  closing.push(() => quartermaster.close());

  expect(await quartermaster.invoke("files__list", {})).toMatchObject({ error: { code: "unknown_action" } });
  expect(await quartermaster.invoke("files__count", {})).toMatchObject({ status: "done", data: 1 });
});

test("the universal surface costs at most 400 tokens, and the prompt names the live categories", async () => {
  const { quartermaster } = workspace;
  const { tools } = await quartermaster.surface(caller, "universal");
  const count = await loadTokenCounter();
  const { text } = await quartermaster.prompt(caller, { kind: "universal" });
  const [, section = ""] = text.split("## Action categories");
  const bullets = [...(section.split("\n## ")[0] ?? "").matchAll(/^- ([\w.]+)/gm)].map(([, name]) => name);

  expect(tools.reduce((sum, tool) => sum + countToolTokens(tool, count), 0)).toBeLessThanOrEqual(400);
  const live = ["collection", "memory_entry", "note", "rag_corpus"];
  expect(bullets).toEqual([...quartermaster.categories(caller), ...live].sort());
});
