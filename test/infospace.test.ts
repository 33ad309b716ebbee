import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { z } from "zod";
import {
  annotate,
  type CallerOptions,
  createQuartermaster,
  defineAction,
  type JsonObject,
  type Outcome,
  type Quartermaster,
  type QuartermasterOptions,
  Streamed,
} from "../src/index.ts";
import { systemRuntime } from "../src/system-runtime.ts";

const open: Quartermaster[] = [];
const folders: string[] = [];
afterEach(async () => {
  for (const each of open.splice(0)) await each.close();
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

const people = Array.from({ length: 200 }, (_, at) => ({
  id: at,
  name: `Person ${at}`,
  town: `T${at % 5}`,
  age: at % 90,
}));
const towns = Array.from({ length: 5 }, (_, at) => ({ town: `T${at}`, country: at % 2 === 0 ? "A" : "B" }));

interface World {
  readonly qm: Quartermaster;
  readonly got: unknown[];
  call(name: string, args?: unknown, caller?: CallerOptions): Promise<Outcome>;
  /** The data of a call that must end well. */
  done(name: string, args?: unknown, caller?: CallerOptions): Promise<JsonObject>;
  later(ms: number): void;
}

const me: CallerOptions = { session: "mine" };

async function world(options: QuartermasterOptions = {}): Promise<World> {
  let offset = 0;
  const runtime = { ...systemRuntime, now: () => new Date(Date.now() + offset) };
  const qm = await createQuartermaster({ runtime, infospace: {}, ...options });
  open.push(qm);
  const got: unknown[] = [];
  const common = { scope: "generalist", effect: "read", inputSchema: { type: "object", properties: {} } } as const;
  qm.register({ ...common, name: "people", description: "All people.", handler: () => people });
  qm.register({ ...common, name: "report", description: "A long text.", handler: () => "word ".repeat(5_000) });
  qm.register({ ...common, name: "short", description: "A short text.", handler: () => "short" });
  qm.register({
    ...common,
    name: "secretive",
    description: "Records with a field that models do not see.",
    handler: () => annotate({ rows: people, pin: "4711" }, { pin: { hidden: ["llm-session"] } }),
  });
  qm.register({
    ...common,
    name: "nested",
    description: "Calls another.",
    handler: async (_args, context) => {
      const inner = await context.invoke("tool__people");
      return inner.status === "done"
        ? { rows: (inner.data as readonly unknown[]).length, kept: inner.kept ?? null }
        : inner;
    },
  });
  qm.register({
    ...common,
    name: "take",
    description: "Takes rows.",
    effect: "write",
    inputSchema: {
      type: "object",
      properties: {
        rows: { type: "array", items: { type: "object" } },
        one: { type: "integer" },
        password: { type: "string" },
        any: {},
      },
    },
    handler: (args) => {
      got.push(args);
      return "taken";
    },
  });
  qm.register({
    ...common,
    name: "contact",
    description: "A person with an address that models have a token for.",
    handler: () => annotate({ email: "ann@private.example" }, { email: { composition: "anchored", label: "Email" } }),
  });
  qm.register({
    ...common,
    name: "mail",
    description: "Mails somebody.",
    effect: "external",
    inputSchema: { type: "object", properties: { to: { type: "string" } }, required: ["to"] },
    handler: (args) => {
      got.push(args);
      return "mailed";
    },
  });
  qm.register({
    ...common,
    name: "endless",
    description: "Records without end.",
    handler: () =>
      Streamed.records(
        (async function* () {
          for (let n = 0; ; n++) yield { n };
        })(),
      ),
  });
  qm.register({
    ...common,
    name: "stream",
    description: "Records, bit by bit.",
    handler: () => Streamed.records(people),
  });
  const call: World["call"] = (name, args = {}, caller = me) => qm.invoke(name, args, { caller });
  return {
    qm,
    got,
    call,
    async done(name, args, caller) {
      const outcome = await call(name, args, caller);
      if (outcome.status !== "done") throw new Error(`${name}: ${outcome.value}`);
      return outcome.data as JsonObject;
    },
    later(ms) {
      offset += ms;
    },
  };
}

/** Of a provider; a person is shown whom it would go to, and must agree. */
const posting = defineAction("post", {
  entry: "send",
  description: "Sends something.",
  effect: "external",
  requiresApproval: true,
  input: z.object({ to: z.string() }),
  preview: async ({ to }) => `mails ${to}`,
  run: () => "sent",
});

async function keptPeople({ call }: World, caller = me): Promise<string> {
  const outcome = await call("tool__people", {}, caller);
  if (outcome.status !== "done" || outcome.kept === undefined) throw new Error(outcome.value);
  return outcome.kept.handle;
}

describe("a result that is longer than a model is shown", () => {
  test("is kept as a collection where it is a list, with data whole and value bounded", async () => {
    const { call } = await world();

    const outcome = await call("tool__people");

    expect(outcome).toMatchObject({ status: "done", data: people, kept: { handle: "collection__1", count: 200 } });
    expect(outcome.value.length).toBeLessThanOrEqual(1_200);
    expect(JSON.parse(outcome.value)).toMatchObject({
      handle: "collection__1",
      count: 200,
      keys: { id: "number", name: "string" },
      first: expect.arrayContaining([expect.objectContaining({ id: 0, name: "Person 0" })]),
      next: expect.stringContaining("$from"),
    });
  });

  test("is kept as a note where it is a text, and read slice by slice", async () => {
    const { call, done } = await world();

    const outcome = await call("tool__report");

    expect(outcome).toMatchObject({ status: "done", data: "word ".repeat(5_000), kept: { handle: "note__1" } });
    const slice = await done("note__1", { from: 24_990, to: 25_000 });
    expect(JSON.stringify(slice)).toContain("word word ");
  });

  test("is left as it is where it is short, where a handler asked for it, and where nobody wants it kept", async () => {
    const { qm, call } = await world();

    expect(await call("tool__short")).not.toHaveProperty("kept");
    expect(await call("tool__nested")).toMatchObject({ data: { rows: 200, kept: null } });
    const whole = await qm.invoke("tool__people", {}, { caller: me, keep: false });
    expect(whole).not.toHaveProperty("kept");
    expect(whole.value).toContain("[cut:");
  });

  test("is cut, and handles are data, where the infospace is switched off", async () => {
    const { qm, call, got } = await world({ infospace: { enabled: false } });

    expect((await call("tool__people")).value).toContain("[cut:");
    await call("tool__take", { any: { $from: "note__1" } });
    expect(got).toEqual([{ any: { $from: "note__1" } }]);
    expect(qm.categories()).not.toContain("infospace");
    expect(await call("tool__stream")).toMatchObject({ status: "failed", error: { code: "invalid_output" } });
  });

  test("is cut for whom the policy does not let load it again", async () => {
    for (const denied of ["infospace__load", "collection__*"]) {
      const { call } = await world({ policy: { tools: { denied: [denied] } } });

      expect(await call("tool__people")).not.toHaveProperty("kept");
    }
  });

  test("is kept without what the model may not see", async () => {
    const { call, done } = await world();

    const outcome = await call("tool__secretive");

    expect(outcome).toMatchObject({ data: { pin: "4711" }, kept: { handle: "note__1" } });
    expect(await done("note__1", { path: "rows[3].name" })).toMatchObject({ text: "Person 3" });
    expect(await call("note__1", { path: "pin" })).toMatchObject({ status: "failed" });
    expect(await done("infospace__search-notes", { query: "4711" })).toMatchObject({ hits: [], searched: 1 });
  });

  test("comes bit by bit and becomes a collection as it comes", async () => {
    const { call, done } = await world();

    const outcome = await call("tool__stream");

    expect(outcome).toMatchObject({ data: { handle: "collection__1", count: 200 }, kept: { count: 200 } });
    expect(await done("infospace__size", { target: "collection__1" })).toMatchObject({ count: 200 });
  });
});

test("a result that comes bit by bit has the time that its action has", async () => {
  const w = await world({ limits: { timeoutMs: 300 } });

  const outcome = await w.call("tool__endless");

  expect(outcome).toMatchObject({ status: "failed", error: { code: "timed_out" } });
  await w.qm.close();
  open.length = 0;
});

describe("a handle in arguments", () => {
  test("stands for what is there: all of it, or a part by its path", async () => {
    const w = await world();
    const handle = await keptPeople(w);

    await w.done("tool__take", {
      rows: { $from: handle },
      one: { $from: handle, path: "[7].id" },
      any: [{ deep: { $from: handle, path: "[-1].name" } }],
    });

    expect(w.got).toEqual([{ rows: people, one: 7, any: [{ deep: "Person 199" }] }]);
  });

  test("is checked as what it stands for, and repaired like it", async () => {
    const w = await world();
    const handle = await keptPeople(w);

    expect(await w.call("tool__take", { one: { $from: handle } })).toMatchObject({
      status: "failed",
      error: { code: "invalid_arguments" },
    });
    expect(w.got).toEqual([]);
  });

  test("is filled in arguments that come as the JSON of an object, too", async () => {
    const w = await world();
    const handle = await keptPeople(w);

    await w.done("tool__take", JSON.stringify({ one: { $from: handle, path: "[7].id" } }));

    expect(w.got).toEqual([{ one: 7 }]);
  });

  test("that leads nowhere is an error that says where and what is missing", async () => {
    const w = await world();
    const handle = await keptPeople(w);
    const failing = async (args: object) => {
      const outcome = await w.call("tool__take", args);
      return outcome.status === "failed" ? outcome.error : outcome;
    };

    expect(await failing({ any: [{ $from: handle, path: "[3].email" }] })).toMatchObject({
      code: "not_found",
      at: "any[0]",
      error: expect.stringMatching(/any\[0\].*email.*name/),
    });
    expect(await failing({ any: { $from: handle, path: "[900]" } })).toMatchObject({
      code: "not_found",
      error: expect.stringContaining("200"),
    });
    expect(await failing({ any: { $from: "note__9999" } })).toMatchObject({ code: "not_found", at: "any" });
    expect(await failing({ any: { $from: "nonsense" } })).toMatchObject({ code: "invalid_arguments" });
    expect(await failing({ any: { $from: handle, part: "x" } })).toMatchObject({ code: "invalid_arguments" });
    expect(w.got).toEqual([]);
  });

  test("in a note is data: it is not followed, however it points", async () => {
    const w = await world();
    await w.done("infospace__create-note", { value: { next: "x" } });
    const made = await w.qm.notes.write({ $from: "note__2" }, {}, me);

    await w.done("tool__take", { any: { $from: `note__${made.id}` } });

    expect(w.got).toEqual([{ any: { $from: "note__2" } }]);
  });

  test("in what a handler passes on is data too: nobody can have a note of the caller's looked up", async () => {
    const w = await world();
    const secret = await w.done("infospace__create-note", { value: "mine" });
    const items = await w.qm.notes.collect([{ content: { any: { $from: String(secret.handle) } } }], {}, me);

    await w.done("infospace__map", { target: `collection__${items.id}`, action: "tool__take" });
    await w.done("infospace__apply", { action: "tool__take", args: { any: { $from: `collection__${items.id}` } } });

    expect(w.got).toEqual([{ any: { $from: secret.handle } }, { any: [{ any: { $from: secret.handle } }] }]);
  });

  test("is bounded: many handles, and much behind them", async () => {
    const w = await world({ infospace: { fillLimit: 10_000 } });
    const handle = await keptPeople(w);

    expect(await w.call("tool__take", { rows: { $from: handle } })).toMatchObject({ error: { code: "too_large" } });
    const many = Array.from({ length: 65 }, () => ({ $from: handle, path: "[0].id" }));
    expect(await w.call("tool__take", { any: many })).toMatchObject({ error: { code: "too_large" } });
    const twice = Array.from({ length: 20 }, (_, at) => ({ $from: handle, path: `[${at}]` }));
    expect(await w.call("tool__take", { any: twice })).toMatchObject({ status: "done" });
  });

  test("is filled before a person is asked, and what they agreed to is what runs", async () => {
    const w = await world({ policy: { rules: [{ rule: "tool.name == 'tool__take'", effect: "ask" }] } });
    const note = await w.done("infospace__create-note", { value: { id: 1 }, name: "one" });

    const waiting = await w.call("tool__take", { any: { $from: note.handle } });
    if (waiting.status !== "waiting") throw new Error(waiting.value);
    const [asked] = await w.qm.approvals.list({});
    expect(asked?.args).toEqual({ any: { id: 1 } });
    await w.done("infospace__create-note", { value: { id: 2 }, name: "one" });
    const ann = { id: "ann", roles: ["approver"], via: "test" };
    await w.qm.approvals.answer(waiting.approval.id, { decision: "approved" }, ann);
    await w.qm.approvals.outcome(waiting.approval.id, { timeoutMs: 10_000 });

    expect(w.got).toEqual([{ any: { id: 1 } }]);
  });

  test("is in the ledger with what it stood for, without secrets, and replays without the note", async () => {
    const w = await world();
    const { handle } = await w.done("infospace__create-note", { value: { id: 5, password: "hunter2hunter2" } });
    await w.done("tool__take", { one: { $from: handle, path: "id" }, any: { $from: handle } });
    await w.done("infospace__remove", { target: handle });

    const events = await w.qm.ledger.read({ session: "mine" });
    const filled = events.find(({ type }) => type === "arguments.filled");
    expect(filled?.data).toMatchObject({
      args: { one: 5, any: { id: 5 } },
      from: [
        { at: "one", handle, path: "id", version: 1 },
        { at: "any", handle, version: 1 },
      ],
    });
    expect(JSON.stringify(filled)).not.toContain("hunter2");
    const { calls } = await w.qm.replay({ session: "mine" });
    expect(calls.filter(({ differs }) => differs.length > 0).map(({ asked }) => asked)).toEqual([]);
  });
});

describe("values that a model has only tokens for", () => {
  async function token(w: World): Promise<string> {
    const outcome = await w.call("tool__contact");
    return (JSON.parse(outcome.value) as { readonly email: string }).email;
  }

  test("stay tokens in notes, whatever is done with them, and are values where something else is called", async () => {
    const w = await world();
    const email = await token(w);
    const note = await w.done("infospace__create-note", { value: { to: email } });
    const list = await w.done("infospace__create-collection", { items: [{ to: email }, { to: "x" }] });

    const seen = JSON.stringify([
      note,
      list,
      await w.done("infospace__load", { target: note.handle }),
      await w.done("infospace__filter-structured", { target: list.handle, where: "to != 'x'" }),
      await w.call("infospace__load", { target: email }),
      await w.call(String(note.handle), { path: email }),
      await w.done("infospace__search-notes", { query: email }),
    ]);
    expect(seen).toContain("{{Email:");
    expect(seen).not.toContain("private.example");
    await w.done("tool__mail", { to: { $from: note.handle, path: "to" } });
    await w.done("infospace__map", { target: list.handle, action: "tool__mail", limit: 1 });
    expect(w.got).toEqual([{ to: "ann@private.example" }, { to: "ann@private.example" }]);
  });

  test("are not told in what a person is shown before they agree, however they got there", async () => {
    const w = await world({ providers: [{ category: "post", capability: "post", list: () => [posting] }] });
    const note = await w.done("infospace__create-note", { value: await token(w) });

    const waiting = await w.call("post__send", { to: { $from: note.handle } });

    expect(waiting.status).toBe("waiting");
    expect(waiting.value).not.toContain("private.example");
    const [asked] = await w.qm.approvals.list({});
    expect(asked?.preview).toBe("mails ann@private.example");
  });
});

describe("access follows the handle", () => {
  const others: readonly [string, CallerOptions, CallerOptions][] = [
    ["another session", { session: "mine" }, { session: "yours" }],
    ["another user", { session: "s", user: { id: "ann" } }, { session: "s", user: { id: "bob" } }],
    ["nobody in particular", { session: "s", user: { id: "ann" } }, { session: "s" }],
    ["another tenant", { session: "s", tenant: "a" }, { session: "s", tenant: "b" }],
    ["no tenant", { session: "s", tenant: "a" }, { session: "s" }],
  ];

  test.each(others)("and %s is told just what is told of what is not there", async (_who, owner, other) => {
    const w = await world();
    const handle = await keptPeople(w, owner);
    const hidden = async (name: string, args: object) => {
      const outcome = await w.call(name, args, other);
      return JSON.stringify([outcome.status, outcome.status === "done" ? outcome.data : outcome.reason]);
    };
    const absent = (told: string) => told.replaceAll(handle, "collection__404");

    for (const [name, args] of [
      [handle, {}],
      ["infospace__load", { target: handle }],
      ["infospace__save", { target: handle }],
      ["infospace__remove", { target: handle }],
      ["infospace__size", { target: handle }],
      ["infospace__filter-structured", { target: handle, where: "true" }],
      ["tool__take", { any: { $from: handle } }],
    ] as const) {
      const swapped = JSON.parse(JSON.stringify(args).replaceAll(handle, "collection__404")) as object;
      expect(absent(await hidden(name, args))).toBe(await hidden(name.replace(handle, "collection__404"), swapped));
    }
    expect(await w.done("infospace__search-notes", { query: "Person" }, other)).toMatchObject({
      hits: [],
      searched: 0,
    });
    const surface = await w.qm.surface(other, "universal");
    expect(await surface.call("describe_action", { action_name: handle })).toMatchObject({ ok: false });
    expect(await surface.call("list_actions", { category: ["collection"] })).toMatchObject({ ok: false });
    expect(w.got).toEqual([]);
    expect(await w.call("infospace__size", { target: handle }, owner)).toMatchObject({ data: { count: 200 } });
  });

  test("saved for the actor it is reached from every session, for the tenant by everybody in it", async () => {
    const w = await world({
      policy: {
        actors: [
          { name: "default", tools: ["*"] },
          { name: "other", tools: ["*"] },
        ],
      },
    });
    const caller = { session: "mine", tenant: "t", user: { id: "ann" } };
    const handle = await keptPeople(w, caller);
    const reached = async (who: CallerOptions) => (await w.call("infospace__size", { target: handle }, who)).status;

    await w.done("infospace__save", { target: handle }, caller);
    expect(await reached({ ...caller, session: "later" })).toBe("done");
    expect(await reached({ ...caller, session: "later", actor: "other" })).toBe("failed");
    expect(await reached({ ...caller, user: { id: "bob" } })).toBe("failed");
    await w.done("infospace__save", { target: handle, reach: "tenant" }, caller);
    expect(await reached({ session: "x", tenant: "t", actor: "other", user: { id: "bob" } })).toBe("done");
    expect(await reached({ ...caller, tenant: "u" })).toBe("failed");
  });

  test("goes by the policy: what is denied by name, tag rule or actor cannot be used by its handle either", async () => {
    const w = await world();
    const handle = await keptPeople(w);
    const one = await w.done("infospace__create-note", { value: "x" });

    w.qm.usePolicy({ rules: [{ rule: "tool.category == 'collection'", effect: "deny" }] });

    expect(await w.call("tool__take", { rows: { $from: handle } })).toMatchObject({ error: { code: "denied" } });
    expect(await w.call("infospace__head", { target: handle, count: 1 })).toMatchObject({ error: { code: "denied" } });
    expect(await w.call(handle)).toMatchObject({ status: "refused", error: { code: "denied" } });
    expect(await w.call("tool__take", { any: { $from: one.handle } })).toMatchObject({ status: "done" });
  });
});

describe("notes and collections are actions", () => {
  test("that can be described, listed and invoked: load is their default", async () => {
    const w = await world();
    const handle = await keptPeople(w);
    const surface = await w.qm.surface(me, "universal");

    const described = await surface.call("describe_action", { action_name: handle });
    expect(described.data).toMatchObject({
      qualified_name: handle,
      metadata: { target_tool_name: "infospace__load", category: "collection" },
    });
    const listed = await surface.call("list_actions", { category: ["collection"] });
    expect(listed.data).toMatchObject({ total: 1, items: [{ qualified_name: handle }] });
    const loaded = await surface.call("invoke_action", { action_name: handle, args: { from: 198 } });
    expect(JSON.stringify(loaded.data)).toContain("Person 199");
    expect(w.qm.names(me)).not.toContain(handle);
  });

  test("and are forgotten when nobody saved them in time", async () => {
    const w = await world();
    const handle = await keptPeople(w);
    const saved = await w.done("infospace__create-note", { value: "keep me" });
    await w.done("infospace__save", { target: saved.handle });

    w.later(25 * 3_600_000);

    expect(await w.call(handle)).toMatchObject({ error: { code: "unknown_action" } });
    expect(await w.call("infospace__load", { target: handle })).toMatchObject({ error: { code: "not_found" } });
    expect(await w.call(String(saved.handle))).toMatchObject({ status: "done" });
  });
});

test("structured content goes whole through create, search, project, filter, join, save and a restart", async () => {
  const folder = mkdtempSync(join(tmpdir(), "qm-infospace-"));
  folders.push(folder);
  const store = join(folder, "store.db");
  const first = await world({ store });
  const all = await first.done("infospace__create-collection", { items: people, name: "people" });
  const where = await first.done("infospace__create-collection", { items: towns, name: "towns" });

  const found = await first.done("infospace__search-within-collection", { target: all.handle, query: "Person 42" });
  expect(found.hits).toEqual(expect.arrayContaining([expect.objectContaining({ position: 42 })]));
  const grown = await first.done("infospace__filter-structured", {
    target: all.handle,
    where: "age >= 80 && town != 'T0'",
  });
  const joined = await first.done("infospace__join", { target: grown.handle, with: where.handle, on: "town" });
  const rows = await first.done("infospace__project", {
    target: joined.handle,
    fields: ["id", "country"],
    name: "rows",
  });
  await first.done("infospace__save", { target: rows.handle });
  await first.qm.close();
  open.length = 0;

  const second = await world({ store });
  await second.done("tool__take", { rows: { $from: rows.handle } });

  const wanted = people
    .filter(({ age, town }) => age >= 80 && town !== "T0")
    .map(({ id, town }) => ({ id, country: towns.find((each) => each.town === town)?.country }));
  expect(second.got).toEqual([{ rows: wanted }]);
});

test("nobody else may list actions that look like handles", async () => {
  const provider = { category: "note", capability: "x", list: () => [] };

  await expect(world({ providers: [provider] })).rejects.toMatchObject({ code: "invalid_config" });
});

test("every rule binds what map and apply run, item by item", async () => {
  const w = await world({
    policy: {
      rules: [
        { rule: "tool.name == 'tool__take' && args.one > 6", effect: "deny" },
        { rule: "tool.name == 'tool__take' && args.one == 3", effect: "ask" },
        { rule: "tool.name == 'tool__mail'", effect: "hide" },
      ],
    },
  });
  const items = Array.from({ length: 10 }, (_, one) => ({ one }));
  const { handle: target } = await w.done("infospace__create-collection", { items });

  const mapped = await w.done("infospace__map", { target, action: "tool__take" });

  expect(mapped).toMatchObject({ done: 6, failed: 3, waiting: 1, count: 6 });
  expect(w.got).toEqual([0, 1, 2, 4, 5, 6].map((one) => ({ one })));
  const applied = await w.call("infospace__apply", { action: "tool__take", args: { one: 9 } });
  expect(applied).toMatchObject({ status: "refused", error: { code: "denied" } });
  const hidden = await w.call("infospace__apply", { action: "tool__mail", args: { to: "x" } });
  expect(hidden).toMatchObject({ error: { code: "unknown_action" } });
  expect(hidden).toMatchObject({ error: { suggestions: expect.not.arrayContaining(["tool__mail"]) } });
});
