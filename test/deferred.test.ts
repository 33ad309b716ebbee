import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import {
  type Action,
  createQuartermaster,
  defineAction,
  defineResource,
  type PolicyOptions,
  type Quartermaster,
  type QuartermasterOptions,
  type Surface,
} from "../src/index.ts";
import { toAiSdkTools } from "../src/surface/exports/ai-sdk.ts";
import { answerAnthropic, toAnthropicTools } from "../src/surface/exports/anthropic.ts";
import { toLangChainTools } from "../src/surface/exports/langchain.ts";
import { toOpenAiChatTools, toOpenAiResponsesTools } from "../src/surface/exports/openai.ts";
import { loadTokenCounter } from "../src/surface/open-surface.ts";

const open: Quartermaster[] = [];
const ran: string[] = [];

afterEach(async () => {
  ran.splice(0);
  await Promise.all(open.splice(0).map((qm) => qm.close()));
});

const make = (name: string, more: object = {}): Action => {
  const at = name.indexOf("__");
  return defineAction(name.slice(0, at), {
    entry: name.slice(at + 2),
    description: `Does the ${name.slice(at + 2)}.`,
    effect: "read",
    input: z.object({ to: z.string().optional() }),
    run() {
      ran.push(name);
      return `did ${name}`;
    },
    ...more,
  });
};

const letters = () => [
  make("mail__send", { aliases: ["post_letter"], tags: ["outbound"], examples: [{ args: { to: "Ann" } }] }),
  make("mail__list"),
  make("mail__draft.new"),
  make("clock__now", { loading: "always" }),
];

const providersOf = (actions: readonly Action[]): NonNullable<QuartermasterOptions["providers"]> =>
  [...new Set(actions.map(({ category }) => category))].map((category) => ({
    category,
    capability: "test",
    list: () => actions.filter((action) => action.category === category),
  }));

async function counter(options: QuartermasterOptions = {}, actions = letters()): Promise<Quartermaster> {
  const qm = await createQuartermaster({ surface: { kind: "deferred" }, providers: providersOf(actions), ...options });
  open.push(qm);
  return qm;
}

const namesOf = ({ tools }: Surface) => tools.map(({ name }) => name);
const eventsOf = async (qm: Quartermaster, type: string, session = "local") => {
  await qm.ledger.flush();
  return (await qm.ledger.read({ session, type })).map(({ data }) => data);
};
const echo = {
  name: "echo",
  description: "Echo a string back to you.",
  inputSchema: z.object({ text: z.string() }),
  handler: ({ text }: { text: string }) => text,
  scope: "generalist",
  effect: "pure",
} as const;

describe("a model on the deferred surface", () => {
  test("searches, gets and calls a tool, which is activated and appended to the list", async () => {
    const qm = await counter();
    qm.register(echo);
    const surface = await qm.surface();
    const before = surface.tools;
    expect(namesOf(surface)).toEqual(["tool_get", "tool_search", "clock__now"]);

    const found = await surface.call("tool_search", { query: "echo", limit: 3 });
    expect(found.data).toMatchObject({
      tools: [
        {
          name: "tool__echo",
          description: "Echo a string back to you.",
          signature: "(text: string)",
          loading: "deferred",
        },
      ],
      query: "echo",
      search_type: "fts",
    });
    const got = await surface.call("tool_get", { names: ["tool__echo"] });
    expect(got.data).toMatchObject({
      tools: [{ name: "tool__echo", effect: "pure", loading: "deferred", approval: "never", examples: [] }],
      requested: 1,
      returned: 1,
    });
    expect(got.data).toHaveProperty("tools.0.input_schema.properties.text");
    expect(surface.tools).toBe(before);

    const answer = await surface.call("tool__echo", { text: "hello" });
    expect(answer).toMatchObject({ ok: true, data: "hello", text: "hello" });
    await surface.call("mail__send", {});
    await surface.call("mail__list", {});
    await surface.call("tool__echo", { text: "again" });

    expect(namesOf(surface)).toEqual([...before.map(({ name }) => name), "tool__echo", "mail__send", "mail__list"]);
    expect(JSON.stringify(surface.tools.slice(0, before.length))).toBe(JSON.stringify(before));
    expect(await eventsOf(qm, "action.activated")).toEqual(
      ["tool__echo", "mail__send", "mail__list"].map((action) => ({
        callId: expect.any(String),
        action,
        scope: "run",
      })),
    );
    expect(await eventsOf(qm, "actions.fetched")).toEqual([{ requested: ["tool__echo"], returned: ["tool__echo"] }]);
    expect(await eventsOf(qm, "surface.called")).toMatchObject([
      { surface: "deferred", tool: "tool_search", ok: true },
      { surface: "deferred", tool: "tool_get", ok: true },
    ]);
  });

  test("activates an action after the decision and before the run", async () => {
    const seen: string[][] = [];
    const peek = make("mail__peek", { run: () => void seen.push(namesOf(surface)) });
    const qm = await counter({}, [peek]);
    const surface = await qm.surface();

    await surface.call("mail__peek", {});

    expect(seen).toEqual([["tool_get", "tool_search", "mail__peek"]]);
    expect((await qm.ledger.read({ session: "local" })).map(({ type }) => type)).toEqual([
      "call.received",
      "call.decided",
      "action.activated",
      "call.ended",
    ]);
  });

  test.each([
    ["alias", "post_letter", "mail__send"],
    ["respelling", "mail.send", "mail__send"],
    ["wire name", "mail__draft_new-", "mail__draft.new"],
    ["qualified name", "mail__draft.new", "mail__draft.new"],
  ])("activates the action itself when it is called by %s", async (_how, written, action) => {
    const qm = await counter();
    const flat = namesOf(await qm.surface({}, "flat"));
    const surface = await qm.surface();

    const tool = written.endsWith("-") ? (flat.find((name) => name.startsWith(written)) ?? "") : written;
    expect(await surface.call(tool, {})).toMatchObject({ ok: true, data: `did ${action}` });

    expect(await eventsOf(qm, "action.activated")).toMatchObject([{ action }]);
    expect(flat).toContain(namesOf(surface).at(-1));
  });

  test("activates nothing for invalid arguments, and returns the schema", async () => {
    const surface = await (await counter()).surface();

    const answer = await surface.call("mail__send", { to: { name: "Ann" } });

    expect(answer).toMatchObject({ ok: false, data: { code: "invalid_arguments" } });
    expect(answer.data).toHaveProperty("input_schema");
    expect(namesOf(surface)).not.toContain("mail__send");
  });

  test("updates the exported tools after each step", async () => {
    const qm = await counter();
    const surface = await qm.surface();
    const exported = () => [
      Object.keys(toAiSdkTools(surface)),
      toOpenAiChatTools(surface).map((tool) => tool.function.name),
      toOpenAiResponsesTools(surface).map(({ name }) => name),
      toAnthropicTools(surface).map(({ name }) => name),
      toLangChainTools(surface).map(({ name }) => name),
    ];
    for (const names of exported()) expect(names).toEqual(["tool_get", "tool_search", "clock__now"]);

    const [result] = await answerAnthropic(surface, [
      { type: "tool_use", id: "1", name: "mail__send", input: {} } as { type: string },
    ]);

    expect(result).toMatchObject({ content: "did mail__send", is_error: false });
    for (const names of exported()) expect(names.slice(0, 4)).toEqual(namesOf(surface));
  });

  test("sends the Anthropic API all tools as deferred, and references to those found", async () => {
    const surface = await (await counter()).surface();
    const asked = (name: string, input: object) => [{ type: "tool_use", id: "1", name, input } as { type: string }];

    const before = toAnthropicTools(surface, { deferLoading: true });
    const [found] = await answerAnthropic(surface, asked("tool_search", { query: "send" }), { deferLoading: true });
    const [got] = await answerAnthropic(surface, asked("tool_get", { names: ["mail__draft.new"] }), {
      deferLoading: true,
    });
    const [ran] = await answerAnthropic(surface, asked("mail__send", {}), { deferLoading: true });
    const [plain] = await answerAnthropic(surface, asked("tool_search", { query: "send" }));

    expect(before.map(({ name, defer_loading = false }) => [name, defer_loading])).toEqual([
      ["tool_get", false],
      ["tool_search", false],
      ["clock__now", false],
      [expect.stringMatching(/^mail__draft_new-[0-9a-f]{12}$/), true],
      ["mail__list", true],
      ["mail__send", true],
    ]);
    expect(found?.content).toEqual([
      { type: "text", text: expect.stringContaining("mail__send") },
      { type: "tool_reference", tool_name: "mail__send" },
    ]);
    expect(got?.content).toMatchObject([{ type: "text" }, { type: "tool_reference", tool_name: before[3]?.name }]);
    expect(ran?.content).toBe("did mail__send");
    expect(toAnthropicTools(surface, { deferLoading: true })).toEqual(before);
    expect(plain?.content).toEqual(expect.any(String));
  });

  test("with promote, lists the tools of tool_get before they are called, as some libraries require", async () => {
    const qm = await counter({ surface: { kind: "deferred", selection: "promote" } });
    const surface = await qm.surface();
    await surface.call("tool_search", { query: "send list" });
    expect(namesOf(surface).slice(3)).toEqual([]);

    await surface.call("mail__list", {});
    await surface.call("tool_get", { names: ["mail__send", "clock__now"] });
    expect(namesOf(surface).slice(2)).toEqual(["clock__now", "mail__list", "mail__send"]);
    expect(Object.keys(toAiSdkTools(surface))).toContain("mail__send");
    expect(await eventsOf(qm, "action.activated")).toMatchObject([{ action: "mail__list" }]);

    await surface.call("mail__send", {});
    expect(namesOf(surface).slice(2)).toEqual(["clock__now", "mail__list", "mail__send"]);
    expect(await eventsOf(qm, "action.activated")).toMatchObject([{ action: "mail__list" }, { action: "mail__send" }]);
  });

  test.each(["tool_search", "tool_get", "parallel", "final_response"])("calls a tool named %s", async (name) => {
    const qm = await counter();
    qm.register({ ...echo, name });
    const surface = await qm.surface();

    expect(await surface.call(`tool__${name}`, { text: "mine" })).toMatchObject({ ok: true, data: "mine" });

    expect(namesOf(surface).at(-1)).toBe(`tool__${name}`);
    expect(await surface.call(`tool__${name}`, { text: "again" })).toMatchObject({ ok: true, data: "again" });
  });
});

describe("tools that are always loaded", () => {
  const world = (surface: QuartermasterOptions["surface"]) => {
    const store = make("doc__open", { input: z.object({ path: z.string() }) });
    const resource = defineResource("page", {
      entry: "home",
      description: "The home page.",
      target: store.name,
      transform: { set: { path: "$entry" } },
    });
    return counter({ surface: { kind: "deferred", ...surface } }, [...letters(), store, resource]);
  };
  const withEcho = async (choice: QuartermasterOptions["surface"]) => {
    const qm = await world(choice);
    qm.register(echo);
    qm.register({ ...echo, name: "tasks.list", loading: "deferred" });
    return namesOf(await qm.surface()).slice(2);
  };

  test("are by default only those marked as such", async () => {
    expect(await withEcho({})).toEqual(["clock__now"]);
  });

  test("are all but those marked as deferred, with defaultLoadingMode always", async () => {
    const shown = await withEcho({ defaultLoadingMode: "always" });

    expect(shown).toEqual([
      "clock__now",
      "doc__open",
      expect.stringMatching(/^mail__draft_new-/),
      "mail__list",
      "mail__send",
      "page__home",
      "tool__echo",
    ]);
  });

  test("include every match of a name or glob", async () => {
    expect(await withEcho({ alwaysLoadedPatterns: ["tasks.*", "page__*", "echo", "mail__send", "no__such"] })).toEqual([
      "clock__now",
      "mail__send",
      "page__home",
      "tool__echo",
      expect.stringMatching(/^tool__tasks_list-/),
    ]);
  });

  test("are neither activated nor listed twice when they are called", async () => {
    const qm = await counter();
    const surface = await qm.surface();

    await surface.call("clock__now", {});

    expect(namesOf(surface)).toEqual(["tool_get", "tool_search", "clock__now"]);
    expect(await eventsOf(qm, "action.activated")).toEqual([]);
  });
});

describe("nested and concurrent calls", () => {
  test("activate the actions that a handler calls", async () => {
    const method = make("method__post", {
      run: async (_args: unknown, { invoke }: { invoke(name: string, args?: unknown): Promise<unknown> }) => {
        await Promise.all([invoke("mail__list", {}), invoke("post_letter", {}), invoke("mail__list", {})]);
      },
    });
    const qm = await counter({}, [...letters(), method]);
    const surface = await qm.surface();

    await surface.call("method__post", {});

    expect(namesOf(surface).slice(3)).toEqual(["method__post", "mail__list", "mail__send"]);
    expect(await eventsOf(qm, "action.activated")).toHaveLength(3);
  });

  test("activate nothing without budget", async () => {
    const qm = await counter({ policy: { budgets: { session: { calls: 1 } } } });
    const surface = await qm.surface({ session: "s", turn: "t" });
    const before = namesOf(surface).length;

    const answers = await Promise.all(["mail__send", "mail__list"].map((name) => surface.call(name, {})));

    expect(answers.filter(({ ok }) => ok)).toHaveLength(1);
    expect(namesOf(surface)).toHaveLength(before + 1);
  });

  test("activate an action once", async () => {
    const qm = await counter();
    const surface = await qm.surface();

    const answers = await Promise.all(Array.from({ length: 12 }, () => surface.call("mail__send", {})));

    expect(answers.every(({ ok }) => ok)).toBe(true);
    expect(namesOf(surface).slice(3)).toEqual(["mail__send"]);
    expect(await eventsOf(qm, "action.activated")).toHaveLength(1);
  });

  test("run the allowed calls when another one is refused", async () => {
    const qm = await counter({ policy: { tools: { denied: ["mail__list"] } } });
    const surface = await qm.surface();

    const [hidden, allowed] = await Promise.all([surface.call("mail__list", {}), surface.call("mail__send", {})]);

    expect(hidden).toMatchObject({ ok: false, data: { code: "unknown_action" } });
    expect(allowed.ok).toBe(true);
    expect(ran).toEqual(["mail__send"]);
    expect(await eventsOf(qm, "activation.denied")).toEqual([
      { callId: expect.any(String), asked: "mail__list", reason: "visibility_policy" },
    ]);
  });
});

describe("no activation", () => {
  const answersOf = async (policy: PolicyOptions, actions = letters()) => {
    const qm = await counter({ policy }, actions);
    const surface = await qm.surface();
    const answer = await surface.call("mail__send", {});
    const events = [await eventsOf(qm, "activation.denied"), await eventsOf(qm, "action.activated")];
    return { answer, shown: namesOf(surface).includes("mail__send"), events };
  };

  test("for a hidden action, which looks like an unknown one", async () => {
    const hidden = await answersOf({ tools: { denied: ["mail__send"] } });
    const absent = await answersOf(
      {},
      letters().filter(({ name }) => name !== "mail__send"),
    );

    expect({ ...hidden.answer, callId: "" }).toEqual({ ...absent.answer, callId: "" });
    expect(hidden).toMatchObject({
      shown: false,
      events: [[{ asked: "mail__send", reason: "visibility_policy" }], []],
    });
    expect(absent.events[0]).toMatchObject([{ asked: "mail__send", reason: "visibility_policy" }]);
    expect(ran).toEqual([]);
  });

  test("for a denied action, whose layer is in the ledger", async () => {
    const denied = await answersOf({ rules: [{ rule: "'outbound' in tool.tags", effect: "deny" }] });

    expect(denied.answer).toMatchObject({ ok: false, data: { status: "refused", code: "denied" } });
    expect(denied).toMatchObject({ shown: false, events: [[{ asked: "mail__send", reason: "tag-rules" }], []] });
    expect(ran).toEqual([]);
  });

  test("for a waiting call, which is not denied either", async () => {
    const asked = await answersOf({ rules: [{ rule: "'outbound' in tool.tags", effect: "ask" }] });

    expect(asked.answer).toMatchObject({ ok: true, data: { status: "waiting" } });
    expect(asked).toMatchObject({ shown: false, events: [[], []] });
  });

  test("event for an active action that is denied later", async () => {
    const qm = await counter();
    const surface = await qm.surface();
    await surface.call("mail__send", {});
    qm.usePolicy({ rules: [{ rule: "'outbound' in tool.tags", effect: "deny" }] });

    expect(await surface.call("mail__send", {})).toMatchObject({ ok: false, data: { code: "denied" } });

    expect(await eventsOf(qm, "activation.denied")).toEqual([]);
    expect(namesOf(surface)).toContain("mail__send");
  });

  test("for calls through other surfaces", async () => {
    const qm = await counter();
    for (const kind of ["universal", "flat"] as const) await (await qm.surface({}, kind)).call("mail__send", {});
    await qm.invoke("mail__nothing", {});

    expect(ran).toHaveLength(2);
    expect(await eventsOf(qm, "action.activated")).toEqual([]);
    expect(await eventsOf(qm, "activation.denied")).toEqual([]);
  });
});

describe("an activated action that is hidden later", () => {
  test.each([
    ["another policy", { tools: { denied: ["mail__send"] } }],
    ["an actor's list", { actors: [{ name: "default", tools: ["mail__list", "clock__*"] }] }],
  ])("disappears at once with %s, and returns to its position", async (_how, policy) => {
    const qm = await counter();
    const surface = await qm.surface();
    for (const name of ["mail__send", "mail__list"]) await surface.call(name, {});
    const before = JSON.stringify(surface.tools);

    qm.usePolicy(policy);
    expect(namesOf(surface).slice(3)).toEqual(["mail__list"]);
    expect(await surface.call("mail__send", {})).toMatchObject({ ok: false, data: { code: "unknown_action" } });

    qm.usePolicy({});
    expect(JSON.stringify(surface.tools)).toBe(before);
  });

  test("disappears at once when a visibility policy hides it", async () => {
    const killed = new Set<string>();
    const visibility = {
      visibleTools: (actions: readonly Action[]) => actions.filter(({ name }) => !killed.has(name)),
    };
    const surface = await (await counter({ policy: { visibility } })).surface();
    await surface.call("mail__send", {});
    expect(namesOf(surface).slice(2)).toEqual(["clock__now", "mail__send"]);

    killed.add("mail__send").add("clock__now");

    expect(namesOf(surface)).toEqual(["tool_get", "tool_search"]);
    expect((await surface.call("tool_search", { query: "send mail" })).text).not.toContain("mail__send");
    expect(await surface.call("tool_get", { names: ["mail__send"] })).toMatchObject({ ok: false });
  });

  test("disappears with its provider or actor, and the discovery tools stay", async () => {
    const qm = await counter({ policy: { actors: [{ name: "clerk", tools: ["*"] }] } });
    const surface = await qm.surface({ actor: "clerk" });
    await surface.call("mail__send", {});

    await qm.catalog.withdraw("mail");
    expect(namesOf(surface)).toEqual(["tool_get", "tool_search", "clock__now"]);
    qm.usePolicy({ actors: [{ name: "other", tools: ["*"] }] });
    expect(namesOf(surface)).toEqual(["tool_get", "tool_search"]);
    expect(await surface.call("clock__now", {})).toMatchObject({ ok: false, data: { code: "unknown_actor" } });
    expect(await eventsOf(qm, "activation.denied")).toEqual([]);
  });
});

describe("the lifetime of an activation", () => {
  const inFolder = async () => {
    const folder = await mkdtemp(join(tmpdir(), "qm-deferred-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    const path = join(folder, "store.db");
    return (activationScope: "run" | "session", alwaysLoadedPatterns: string[] = []) =>
      counter({ store: path, surface: { kind: "deferred", activationScope, alwaysLoadedPatterns } });
  };

  test("survives a restart with session scope, in order", async () => {
    const start = await inFolder();
    const first = await start("session");
    const surface = await first.surface({ session: "s1", turn: "t1" });
    for (const name of ["mail__send", "mail__list"]) await surface.call(name, {});
    const shown = JSON.stringify(surface.tools);
    await first.close();

    const second = await start("session");
    const resumed = await second.surface({ session: "s1", turn: "t2" });
    expect(JSON.stringify(resumed.tools)).toBe(shown);
    await resumed.call("mail__send", {});
    expect(await eventsOf(second, "action.activated", "s1")).toHaveLength(2);

    const others = [{ session: "s2" }, { session: "s1", tenant: "acme" }];
    for (const caller of others) expect(namesOf(await second.surface(caller))).toHaveLength(3);
  });

  test("lists an action once that is always loaded by now", async () => {
    const start = await inFolder();
    const first = await start("session");
    await (await first.surface({ session: "s1" })).call("mail__send", {});
    await first.close();

    const second = await start("session", ["mail__send"]);

    expect(namesOf(await second.surface({ session: "s1" })).slice(2)).toEqual(["clock__now", "mail__send"]);
  });

  test("ends with the turn with run scope, also across processes", async () => {
    const start = await inFolder();
    const first = await start("run");
    await (await first.surface({ session: "s1", turn: "t1" })).call("mail__send", {});
    expect(namesOf(await first.surface({ session: "s1", turn: "t1" }))).toContain("mail__send");
    expect(namesOf(await first.surface({ session: "s1", turn: "t2" }))).not.toContain("mail__send");
    await first.close();

    const second = await start("run");
    expect(namesOf(await second.surface({ session: "s1", turn: "t1" }))).toContain("mail__send");
    expect(namesOf(await second.surface({ session: "s1", turn: "t2" }))).not.toContain("mail__send");
  });

  test("ends with the surface if there is no turn", async () => {
    const qm = await counter();
    const surface = await qm.surface({ session: "s1" });
    await surface.call("mail__send", {});

    expect(namesOf(surface)).toContain("mail__send");
    expect(namesOf(await qm.surface({ session: "s1" }))).not.toContain("mail__send");
  });

  test("is recorded once by two processes on one store", async () => {
    const start = await inFolder();
    const [one, other] = [await start("session"), await start("session")];
    const surfaces = [await one.surface({ session: "s1" }), await other.surface({ session: "s1" })];

    await Promise.all(surfaces.map((surface) => surface.call("mail__send", {})));
    await surfaces[0]?.call("mail__list", {});

    expect(
      (await eventsOf(one, "action.activated", "s1")).filter((data) => JSON.stringify(data).includes("send")),
    ).toHaveLength(1);
    expect(namesOf(await other.surface({ session: "s1" })).slice(3)).toEqual(["mail__send", "mail__list"]);
  });
});

describe("tool_search", () => {
  const search = async (args: object, actions: Action[] = letters()) => {
    const surface = await (await counter({ search: { maxResults: 50 } }, actions)).surface();
    return surface.call("tool_search", args);
  };
  const found = async (args: object, actions?: Action[]) =>
    ((await search(args, actions)).data as { tools: { name: string }[] }).tools.map(({ name }) => name);

  test("leaves out always-loaded tools unless requested, and mentions them in a hint", async () => {
    expect(await found({ query: "clock" })).toEqual([]);
    expect(await search({ query: "clock" })).toMatchObject({
      data: { hint: "Nothing more fits; you have clock__now from the start." },
    });
    expect(await search({ query: "clock", include_always_loaded: true })).toMatchObject({
      data: { tools: [{ name: "clock__now", loading: "always" }] },
    });
  });

  test("uses the requested search type, and returns the type used", async () => {
    expect(await search({ query: "mail__send", search_type: "exact" })).toMatchObject({
      data: { tools: [{ name: "mail__send", score: 1 }], search_type: "exact" },
    });
    expect(await found({ query: "^mail__(send|list)$", search_type: "regex" })).toEqual(["mail__list", "mail__send"]);
    expect(await search({ query: "send", search_type: "semantic" })).toMatchObject({ data: { search_type: "fts" } });
    expect(await search({ query: "send", search_type: "psychic" })).toMatchObject({
      ok: false,
      data: { code: "invalid_arguments" },
    });
  });

  test("caps the limit, and gives a hint when nothing matches", async () => {
    const many = Array.from({ length: 30 }, (_, at) => make(`post__send_${at}`));

    expect(await found({ query: "send", limit: 50 }, many)).toHaveLength(20);
    expect(await found({ query: "send" }, many)).toHaveLength(5);
    expect(await search({ query: "zebra" })).toMatchObject({
      data: { tools: [], unmatched: ["zebra"], hint: "Nothing fits. Say it in other words." },
    });
  });

  test("answers with at most 400 tokens, and both tools have at most 250", async () => {
    const wordy = Array.from({ length: 12 }, (_, at) =>
      make(`post__send_registered_letter_${at}`, {
        description: `Sends a registered letter of kind ${at}, with everything that belongs to it, ${"and more ".repeat(40)}.`,
        input: z.object({
          recipient: z.string(),
          sender: z.string(),
          weight: z.number(),
          express: z.boolean().optional(),
          insurance: z.enum(["none", "basic", "full"]).optional(),
        }),
      }),
    );
    const count = await loadTokenCounter();
    const surface = await (await counter({}, wordy)).surface();

    const { text } = await surface.call("tool_search", { query: "registered letter" });

    expect(text.split("\n")).toHaveLength(5);
    expect(count(text)).toBeLessThanOrEqual(400);
    expect(count(JSON.stringify(toAnthropicTools(surface)))).toBeLessThanOrEqual(250);
  });
});

describe("tool_get", () => {
  test("skips unknown names, and returns each action once", async () => {
    const qm = await counter({ policy: { tools: { denied: ["mail__list"] } } });
    const surface = await qm.surface();
    const names = ["mail__send", "post_letter", "mail__list", "no__such", "  ", "clock__now"];

    const { data } = await surface.call("tool_get", { names });

    expect(data).toMatchObject({ tools: [{ name: "mail__send" }, { name: "clock__now" }], requested: 6, returned: 2 });
    expect(data).toMatchObject({ missing: ["mail__list", "no__such"] });
    expect(await eventsOf(qm, "actions.fetched")).toEqual([
      { requested: names, returned: ["mail__send", "clock__now"] },
    ]);
  });

  test("leaves out schemas and examples on request", async () => {
    const surface = await (await counter()).surface();
    const get = async (more: object) => (await surface.call("tool_get", { names: ["mail__send"], ...more })).data;

    expect(await get({})).toMatchObject({ tools: [{ tags: ["outbound"], examples: [{ args: { to: "Ann" } }] }] });
    const bare = await get({ include_schemas: false, include_examples: false });
    expect(Object.keys((bare as { tools: object[] }).tools[0] ?? {})).toEqual([
      "name",
      "description",
      "effect",
      "loading",
      "tags",
      "approval",
    ]);
  });

  test.each([
    ["hidden", "mail__list"],
    ["unknown", "no__such"],
    ["empty", " "],
  ])("answers like describe_action to a name that is %s", async (_what, name) => {
    const qm = await counter({ policy: { tools: { denied: ["mail__list"] } } });

    const got = await (await qm.surface()).call("tool_get", { names: [name] });

    const described = await (await qm.surface({}, "universal")).call("describe_action", { action_name: name.trim() });
    // Each names the tools of its own surface.
    const { hint: _got, ...gotFacts } = got.data as Record<string, unknown>;
    const { hint: _described, ...describedFacts } = described.data as Record<string, unknown>;
    expect(gotFacts).toEqual(describedFacts);
    expect(got).toMatchObject({ ok: false, data: { code: "unknown_action" } });
    expect(await eventsOf(qm, "actions.fetched")).toEqual([]);
  });

  test("accepts one to ten names", async () => {
    const surface = await (await counter()).surface();

    for (const names of [[], Array.from({ length: 11 }, () => "mail__send")]) {
      expect(await surface.call("tool_get", { names })).toMatchObject({
        ok: false,
        data: { code: "invalid_arguments" },
      });
    }
  });
});

describe("errors with a next step", () => {
  test("when search is off", async () => {
    const qm = await counter({ search: { enabled: false } });

    await expect(qm.surface()).rejects.toMatchObject({
      code: "search_off",
      hint: "Set search.enabled: true, or choose another surface.",
    });
  });

  test("for session scope without a session", async () => {
    const qm = await counter({ surface: { kind: "deferred", activationScope: "session" } });

    await expect(qm.surface()).rejects.toMatchObject({
      code: "invalid_arguments",
      message: "activation_scope session needs caller.session",
      hint: "Give caller.session, or use activation_scope run.",
    });
    expect((await qm.surface({ session: "mine" })).kind).toBe("deferred");
  });

  test("for a found tool that is hidden by now", async () => {
    const qm = await counter();
    const surface = await qm.surface();
    expect((await surface.call("tool_search", { query: "send" })).text).toContain("mail__send");

    qm.usePolicy({ tools: { denied: ["mail__send"] } });

    const answer = await surface.call("mail__send", {});
    expect(answer).toMatchObject({
      ok: false,
      data: { code: "unknown_action", hint: "Search for it with tool_search." },
    });
    expect(qm.explain("mail__send")).toMatchObject({ visible: false, because: { layer: "tool-policy" } });
  });
});
