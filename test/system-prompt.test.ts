import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import {
  type Action,
  type ActorConfig,
  createQuartermaster,
  defineAction,
  defineResource,
  fileProvider,
  openWorkspace,
  type PolicyOptions,
  type Provider,
  type Quartermaster,
  type QuartermasterOptions,
  type SystemPrompt,
} from "../src/index.ts";

const input = { type: "object", properties: { query: { type: "string" } } } as const;
const recall = defineAction("rag_operation", {
  entry: "recall",
  description: "Find passages in indexed sources: the best ones first. More than one may be asked.",
  effect: "read",
  input: { type: "object", properties: { query: { type: "string" }, sources: { type: "array" } } },
  run: (args) => args,
});
const meetings = defineResource("rag_corpus", {
  entry: "meetings",
  description: "Minutes of meetings.",
  target: recall.name,
  transform: { set: { sources: ["$entry"] } },
});
const open = defineAction("vault", { entry: "open", description: "Open.", effect: "write", input, run: () => null });

const provide = (capability: string, action: Action): Provider => ({
  category: action.category,
  capability,
  list: () => [action],
});

const actors: readonly ActorConfig[] = [
  { name: "default", tools: ["*"] },
  { name: "weak", tools: ["*"], tier: "light" },
  { name: "reader", tools: ["file__read", "file__list"], tier: "light" },
  { name: "nobody", tools: [], tier: "light" },
  { name: "told", tools: ["*"], tier: "light", instructions: "You look after the minutes." },
];

async function createFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "qm-prompt-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await writeFile(join(folder, "a.txt"), "hello\n");
  return folder;
}

async function world(options: QuartermasterOptions = {}, folder?: string): Promise<Quartermaster> {
  const qm = await createQuartermaster({
    providers: [
      fileProvider({ root: folder ?? (await createFolder()) }),
      provide("Find passages in texts.", recall),
      provide("Ask one indexed text.", meetings),
      provide("Open what is locked", open),
    ],
    policy: { actors },
    infospace: {},
    ...options,
  });
  onTestFinished(qm.close);
  qm.register({
    name: "greet",
    description: "Greet.",
    effect: "pure",
    scope: "generalist",
    inputSchema: input,
    handler: () => 1,
  });
  return qm;
}

const kinds = ["universal", "deferred", "flat", "auto"] as const;
const sectionOf = ({ sections }: SystemPrompt, title: string) =>
  sections.find((section) => section.title === title)?.text ?? "";
const bulletsOf = (prompt: SystemPrompt) =>
  [...sectionOf(prompt, "Action categories").matchAll(/^- ([\w.]+)/gm)].map(([, name]) => name);
const titlesOf = ({ sections }: SystemPrompt) => sections.map(({ title }) => title);
const count = (text: string, part: RegExp) => [...text.matchAll(new RegExp(part, "g"))].length;

const LIST_FIRST = /Your first tool call MUST be \w+, before reading, writing, editing or running anything\./;
const EDIT = /To change a part of a file, you MUST use file__edit, NOT file__write\./;

describe("the action categories", () => {
  /** What the schema of `list_actions` offers. */
  async function listChoices(qm: Quartermaster, actor: string): Promise<unknown> {
    const { tools } = await qm.surface({ actor }, "universal");
    const { properties } = tools.find(({ name }) => name === "list_actions")?.inputSchema ?? {};
    return (properties as Record<string, { items: { enum?: string[] } }>).category?.items.enum ?? [];
  }

  test.each<[string, PolicyOptions]>([
    ["without a policy", { actors }],
    ["with a hidden category", { actors, tools: { denied: ["vault__*"] } }],
    ["with a closed gate", { actors, gates: [{ name: "g", guards: "rag_*", shut: () => "closed" }] }],
    ["with a hidden operation", { actors, tools: { denied: ["infospace__load", "rag_operation__*"] } }],
    ["with a rule", { actors, rules: [{ rule: "tool.category == 'file'", effect: "hide" }] }],
  ])("have a bullet for each category that the caller sees, and no other, %s", async (_, policy) => {
    const qm = await world({ policy });

    for (const { name: actor } of actors) {
      const bullets = bulletsOf(await qm.prompt({ actor }, { kind: "universal" }));
      expect(bullets).toEqual(await listChoices(qm, actor));
      expect(bullets.filter((name) => name !== "note" && name !== "collection")).toEqual(qm.categories({ actor }));
      expect(bulletsOf(await qm.prompt({ actor }, { kind: "deferred" }))).toEqual(qm.categories({ actor }));
    }
  });

  test("follow providers and policy at run time", async () => {
    const qm = await world();
    const clock = defineAction("clock", { entry: "now", description: "Now.", effect: "read", input, run: () => 1 });

    qm.catalog.provide(provide("Tell the time.", clock));
    expect(sectionOf(await qm.prompt(), "Action categories")).toContain("- clock: Tell the time.");
    qm.usePolicy({ actors, tools: { denied: ["clock__*"] } });
    expect((await qm.prompt()).text).not.toContain("clock");
    qm.usePolicy({ actors });
    qm.catalog.provide(provide("Tell the hour.", clock));
    expect((await qm.prompt()).text).toContain("- clock: Tell the hour.");
    await qm.catalog.withdraw("clock");
    expect((await qm.prompt()).text).not.toContain("clock");
  });

  test("say what a resource does when it is invoked, and where nothing can be changed", async () => {
    const qm = await world();
    const text = sectionOf(await qm.prompt(), "Action categories");

    expect(text).toContain("- rag_corpus: Ask one indexed text. Invoking one: Find passages in indexed sources.\n");
    expect(text).toMatch(/^- note: Open .+\. Invoking one: Read a part of a note or a collection\.$/m);
    expect(text).toMatch(/^- vault: Open what is locked\.$/m);
    expect(text).toMatch(/^- file: .* change or remove them\.$/m);
    const forReader = sectionOf(await qm.prompt({ actor: "reader" }), "Action categories");
    expect(forReader).toMatch(/^- file: .* Your actions here change nothing\.$/m);
  });

  test("of the product each say what they are for", async () => {
    const folder = await createFolder();
    const config = { peers: { helper: { url: "http://127.0.0.1:9" } }, providers: { file: { read_only: false } } };
    await writeFile(join(folder, "quartermaster.yaml"), JSON.stringify(config));
    const workspace = await openWorkspace({ cwd: folder, env: {} });
    onTestFinished(workspace.close);
    const text = sectionOf(await workspace.quartermaster.prompt(), "Action categories");

    const bullets = text.split("\n").filter((line) => line.startsWith("- "));
    expect(bullets.filter((line) => !/^- [\w.]+: \w.{15,}\.$/.test(line))).toEqual([]);
    expect(text).toMatch(/^- agent\.peer: Delegate/m);
    expect(text).toMatch(/^- skill: Run /m);
  });

  test("keep a capability on one line, whatever it holds", async () => {
    const qm = await world();
    const bell = defineAction("bell", { entry: "ring", description: "Ring.", effect: "write", input, run: () => 1 });

    qm.catalog.provide(provide(`Ring.\n\n## Behaviour\n${"x".repeat(1000)}`, bell));
    const prompt = await qm.prompt();
    expect(prompt.text.match(/^## .*$/gm)).toEqual(["## Capabilities", "## Action categories", "## Behaviour"]);
    expect(prompt.text.length).toBeLessThan(3000);
    qm.catalog.provide({ ...provide("", bell), capability: undefined as never });
    expect((await qm.prompt()).text).toMatch(/^- bell$/m);
  });

  test("are left out where every action is a tool", async () => {
    const qm = await world({ surface: { kind: "flat" } });

    expect(titlesOf(await qm.prompt())).toEqual(["Capabilities", "Behaviour"]);
    expect(titlesOf(await qm.prompt({}, { kind: "auto" }))).toEqual(["Capabilities", "Behaviour"]);
  });
});

describe.each(kinds)("on the surface %s", (kind) => {
  test.each(actors.map(({ name }) => name))("the prompt of %s fits its tools", async (actor) => {
    const qm = await world();
    const prompt = await qm.prompt({ actor }, { kind });
    const { tools } = await qm.surface({ actor }, kind);
    const names = new Set([...tools.map(({ name }) => name), ...qm.categories({ actor })]);

    // Words with an underscore are names of tools, of categories, or of the actions in the mandates.
    const named = (prompt.prefix.match(/\b[a-z]+_\w+/g) ?? []).filter((word) => !/^file__(edit|write)$/.test(word));
    expect(named.filter((word) => !names.has(word))).toEqual([]);
    if (prompt.firstTool !== undefined) expect(names).toContain(prompt.firstTool);
  });

  test.each(actors.map(({ name }) => name))("the prompt of %s names no action outside of mandates", async (actor) => {
    const qm = await world();
    const { prefix } = await qm.prompt({ actor }, { kind });

    const rest = prefix.replaceAll(new RegExp(EDIT, "g"), "");
    expect(qm.inventory().filter(({ name }) => rest.includes(name))).toEqual([]);
  });

  test("tells both tiers that conversation needs no tools, and named or obvious ones no discovery", async () => {
    const qm = await world();

    for (const actor of ["default", "weak"]) {
      const { prefix } = await qm.prompt({ actor }, { kind });
      expect(prefix).toMatch(/- Conversation, .* answer without tools\./);
      expect(prefix).toMatch(/named or obvious, (run|call) it directly/);
      expect(prefix).toContain("- A question: ");
      expect(prefix).not.toMatch(/[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}]/u);
    }
  });

  test("gives each order three times to a weak model, before everything that changes", async () => {
    const qm = await world({ search: { hints: { enabled: true }, directory: { enabled: true } } });
    const weak = await qm.prompt({ actor: "told" }, { kind, query: "read a file" });
    const strong = await qm.prompt({}, { kind, query: "read a file" });
    const hasDiscovery = kind === "universal" || kind === "deferred";

    expect(count(weak.text, LIST_FIRST)).toBe(hasDiscovery ? 3 : 0);
    expect(count(weak.text, EDIT)).toBe(3);
    expect(weak.firstTool).toBe(hasDiscovery ? (kind === "universal" ? "list_actions" : "tool_search") : undefined);
    expect(weak.text.lastIndexOf("MUST")).toBeLessThan(weak.text.indexOf("## Instructions"));
    expect(weak.text.indexOf("## Instructions")).toBeLessThan(weak.prefix.length);
    expect(weak.text).not.toMatch(/before any other|prefer/i);
    expect(strong.text).not.toContain("MUST");
    expect(strong.firstTool).toBeUndefined();
  });

  test("orders nothing that the caller has not", async () => {
    const qm = await world();
    const reader = await qm.prompt({ actor: "reader" }, { kind });
    const nobody = await qm.prompt({ actor: "nobody" }, { kind });

    expect(reader.text).not.toMatch(EDIT);
    expect(nobody.text).not.toContain("MUST");
    expect(nobody.firstTool).toBeUndefined();
    qm.usePolicy({ actors, tools: { denied: ["file__write"] } });
    expect((await qm.prompt({ actor: "weak" }, { kind })).text).not.toMatch(EDIT);
  });
});

test("the sections that change come last, the most volatile at the end", async () => {
  const qm = await world({
    search: { hints: { enabled: true }, directory: { enabled: true } },
    surface: { hotListN: 2 },
  });
  const prompt = await qm.prompt({ actor: "told", session: "s" }, { query: "read a file" });

  expect(titlesOf(prompt)).toEqual([
    ...["Capabilities", "Action categories", "Behaviour", "Instructions"],
    ...["Directory", "Hot list", "Hints"],
  ]);
  expect(prompt.text).toBe(prompt.sections.map(({ text }) => text).join("\n\n"));
  expect(prompt.text.startsWith(`${prompt.prefix}\n\n## Directory of actions`)).toBe(true);
  const { tools } = await qm.surface({ actor: "told", session: "s" });
  const hot = tools.slice(4).map(({ name }) => name);
  expect(hot).toEqual(["file__list", "file__read"]);
  expect(sectionOf(prompt, "Hot list")).toContain(`these actions as tools: ${hot.join(", ")}.`);
  expect(titlesOf(await qm.prompt({ actor: "told" }, { dynamic: false, query: "read" }))).toHaveLength(4);
});

test("the hot list begins with what most callers need, unless the host chooses", async () => {
  const listTools = async (qm: Quartermaster) => (await qm.surface()).tools.slice(4).map(({ name }) => name);

  expect(await listTools(await world({ surface: { hotListN: 3 } }))).toEqual([
    "file__grep",
    "file__list",
    "file__read",
  ]);
  const chosen = await world({ surface: { hotListN: 3, hotListSeed: ["file__edit"] } });
  expect(await listTools(chosen)).toEqual(["file__edit"]);
  const none = await world({ surface: { hotListN: 3, hotListSeed: [] } });
  expect(await listTools(none)).toEqual([]);
  expect(titlesOf(await none.prompt())).not.toContain("Hot list");
});

describe("the prefix", () => {
  test("is the same bytes in every turn, session and process", async () => {
    const folder = await createFolder();
    const options = {
      store: join(folder, "store.db"),
      search: { hints: { enabled: true }, directory: { enabled: true } },
      surface: { hotListN: 3 },
      valueLimit: 256,
    };
    const first = await world(options, folder);
    const { prefix } = await first.prompt({ actor: "told", session: "one", turn: "t1" });
    const surface = await first.surface({ actor: "told", session: "one" });
    await writeFile(join(folder, "long.txt"), "word ".repeat(2000));
    const read = await surface.call("invoke_action", { action_name: "file__read", args: { path: "long.txt" } });
    await surface.call("search_actions", { query: "read a file" });
    const second = await first.prompt({ actor: "told", session: "one", turn: "t2" }, { query: "read", tokens: true });
    const other = await first.prompt({ actor: "told", session: "two", user: { id: "ann" } }, { query: "write" });
    await first.close();
    const restarted = await (await world(options, folder)).prompt({ actor: "told" });

    // A result was stored, and a use was counted.
    expect(read.text).toContain("note__");
    expect([second.prefix, other.prefix, restarted.prefix]).toEqual([prefix, prefix, prefix]);
    expect(prefix).not.toMatch(/\d/);
  });

  test("costs the same for 20 and for 200 actions", async () => {
    const qm = await world();
    const register = (from: number, to: number) => {
      for (let at = from; at < to; at++)
        qm.register({
          name: `task_${at}`,
          description: `Do the task ${at}.`,
          effect: "write",
          scope: "generalist",
          inputSchema: input,
          handler: () => at,
        });
    };
    register(0, 20);
    const { prefix } = await qm.prompt();
    register(20, 200);

    expect((await qm.prompt()).prefix).toBe(prefix);
  });

  test("changes with categories, policy and instructions", async () => {
    const qm = await world();
    const read = async () => (await qm.prompt({ actor: "told" })).prefix;
    const before = await read();

    qm.usePolicy({ actors: actors.map((actor) => ({ ...actor, instructions: "You tidy up." })) });
    const instructed = await read();
    qm.usePolicy({ actors, tools: { denied: ["vault__*"] } });
    const hidden = await read();

    expect(instructed).toBe(before.replace("You look after the minutes.", "You tidy up."));
    expect(hidden).toBe(before.replace("- vault: Open what is locked.\n", ""));
    qm.usePolicy({ actors });
    expect(await read()).toBe(before);
  });
});

test("an action that is named runs without a list, for a weak model too", async () => {
  const qm = await world();
  const surface = await qm.surface({ actor: "weak" });

  const answer = await surface.call("invoke_action", { action_name: "file__read", args: { path: "a.txt" } });

  expect(answer).toMatchObject({ ok: true, text: expect.stringContaining("hello") });
});

test("counts the tokens of each section if asked", async () => {
  const qm = await world();
  const { sections } = await qm.prompt({}, { tokens: true });
  const plain = await qm.prompt();

  expect(sections.every(({ tokens = 0 }) => tokens > 10)).toBe(true);
  expect(sections.reduce((sum, { tokens = 0 }) => sum + tokens, 0)).toBeLessThan(500);
  expect(plain.sections.every((section) => section.tokens === undefined)).toBe(true);
});

test("names no search where it is off, and notes only where they are stored", async () => {
  const qm = await world({ search: { enabled: false }, infospace: { enabled: false } });
  const { prefix } = await qm.prompt();

  expect(prefix).not.toMatch(/search|handle|\bnote\b/i);
  await expect(qm.prompt({}, { kind: "deferred" })).rejects.toMatchObject({ code: "search_off" });
});

test("no description of a tool that finds or runs actions names an action", async () => {
  const qm = await world();
  const tools = [...(await qm.surface({}, "universal")).tools, ...(await qm.surface({}, "deferred")).tools];

  const described = JSON.stringify(tools);
  expect(qm.inventory().filter(({ name }) => described.includes(name))).toEqual([]);
});

test("rejects unknown options and actors", async () => {
  const qm = await world();

  await expect(qm.prompt({}, { quer: "x" } as never)).rejects.toMatchObject({ code: "invalid_config" });
  await expect(qm.prompt({ actor: "nemo" })).rejects.toMatchObject({ code: "unknown_actor" });
});
