import { afterEach, describe, expect, test } from "vitest";
import type { CallerOptions } from "../src/index.ts";
import { closeWorlds, keptPeople, me, posting, type World, world } from "./fixtures/infospace-world.ts";

afterEach(closeWorlds);

describe("private values that the model sees as tokens", () => {
  async function token(w: World): Promise<string> {
    const outcome = await w.call("tool__contact");
    return (JSON.parse(outcome.value) as { readonly email: string }).email;
  }

  test("stay tokens in notes and become values only when another action is called", async () => {
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

  test("appear in the approval preview but not in the answer to the model", async () => {
    const w = await world({ providers: [{ category: "post", capability: "post", list: () => [posting] }] });
    const note = await w.done("infospace__create-note", { value: await token(w) });

    const waiting = await w.call("post__send", { to: { $from: note.handle } });

    expect(waiting.status).toBe("waiting");
    expect(waiting.value).not.toContain("private.example");
    const [asked] = await w.qm.approvals.list({});
    expect(asked?.preview).toBe("mails ann@private.example");
  });
});

describe("access to a handle", () => {
  const others: readonly [string, CallerOptions, CallerOptions][] = [
    ["another session", { session: "mine" }, { session: "yours" }],
    ["another user", { session: "s", user: { id: "ann" } }, { session: "s", user: { id: "bob" } }],
    ["a caller without a user", { session: "s", user: { id: "ann" } }, { session: "s" }],
    ["another tenant", { session: "s", tenant: "a" }, { session: "s", tenant: "b" }],
    ["a caller without a tenant", { session: "s", tenant: "a" }, { session: "s" }],
  ];

  test.each(others)("gives %s the same answer as for a nonexistent handle", async (_who, owner, other) => {
    const w = await world();
    const handle = await keptPeople(w, owner);
    const hidden = async (name: string, args: object) => {
      const outcome = await w.call(name, args, other);
      return JSON.stringify([outcome.status, outcome.status === "done" ? outcome.data : outcome.reason]);
    };
    const absent = (answer: string) => answer.replaceAll(handle, "collection__404");

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
    expect(await surface.call("list_actions", { category: ["collection"] })).toMatchObject({ data: { total: 0 } });
    expect(w.got).toEqual([]);
    expect(await w.call("infospace__size", { target: handle }, owner)).toMatchObject({ data: { count: 200 } });
  });

  test("extends to all sessions of the actor, or to the whole tenant, when it is saved with that reach", async () => {
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
    const readStatus = async (who: CallerOptions) => (await w.call("infospace__size", { target: handle }, who)).status;

    await w.done("infospace__save", { target: handle }, caller);
    expect(await readStatus({ ...caller, session: "later" })).toBe("done");
    expect(await readStatus({ ...caller, session: "later", actor: "other" })).toBe("failed");
    expect(await readStatus({ ...caller, user: { id: "bob" } })).toBe("failed");
    await w.done("infospace__save", { target: handle, reach: "tenant" }, caller);
    expect(await readStatus({ session: "x", tenant: "t", actor: "other", user: { id: "bob" } })).toBe("done");
    expect(await readStatus({ ...caller, tenant: "u" })).toBe("failed");
  });

  test("is denied by policy rules wherever the handle is used", async () => {
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

test("map and apply check every rule for each item", async () => {
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

  const mapped = await w.call("infospace__map", { target, action: "tool__take" });

  const progress = { done: 6, failed: 3, waiting: 1, count: 6 };
  expect(mapped).toMatchObject({ status: "waiting", approval: { inner: "tool__take" }, progress });
  expect(w.got).toEqual([0, 1, 2, 4, 5, 6].map((one) => ({ one })));
  const applied = await w.call("infospace__apply", { action: "tool__take", args: { one: 9 } });
  expect(applied).toMatchObject({ status: "refused", error: { code: "denied" } });
  const hidden = await w.call("infospace__apply", { action: "tool__mail", args: { to: "x" } });
  expect(hidden).toMatchObject({ error: { code: "unknown_action" } });
  expect(hidden).toMatchObject({ error: { suggestions: expect.not.arrayContaining(["tool__mail"]) } });
});

describe("approval rules", () => {
  const ask = (rule: string) => ({ policy: { rules: [{ rule, effect: "ask" as const }] } });

  test("deny every use of a handle when loading it requires approval", async () => {
    const w = await world();
    const handle = await keptPeople(w);
    w.qm.usePolicy(ask("tool.name == 'infospace__load'").policy);

    expect(await w.call("tool__take", { rows: { $from: handle } })).toMatchObject({ error: { code: "denied" } });
    expect(await w.call("infospace__head", { target: handle, count: 1 })).toMatchObject({ error: { code: "denied" } });
    expect(await w.done("infospace__search-notes", { query: "Person" })).toMatchObject({ hits: [] });
    expect(w.got).toEqual([]);
  });

  test("reject arguments too large to review before asking", async () => {
    const w = await world(ask("tool.name == 'tool__take'"));
    const { handle } = await w.done("infospace__create-note", { value: "x".repeat(600_000) });

    const outcome = await w.call("tool__take", { any: [{ $from: handle }, { $from: handle }] });

    expect(outcome).toMatchObject({ status: "failed", error: { code: "too_large" } });
    expect(await w.qm.approvals.list({})).toEqual([]);
  });
});

test("filled arguments may exceed the limit for given arguments, also in nested calls", async () => {
  const w = await world();
  const { handle } = await w.done("infospace__create-note", { value: "x".repeat(700_000) });

  await w.done("infospace__apply", { action: "tool__take", args: { any: [{ $from: handle }, { $from: handle }] } });

  expect(JSON.stringify(w.got).length).toBeGreaterThan(1_400_000);
});

test("does not treat an incomplete collection as whole", async () => {
  const w = await world();
  async function* yieldThenThrow() {
    for (let n = 0; n < 3; n++) yield { content: n };
    throw new Error("the source broke");
  }
  let handle = "";
  const onProgress = (begun: string) => {
    handle = begun;
  };
  await expect(w.qm.notes.collect(yieldThenThrow(), { onProgress }, me)).rejects.toThrow("the source broke");

  expect(await w.call("tool__take", { any: { $from: handle } })).toMatchObject({ error: { code: "conflict" } });
  expect(await w.done("infospace__filter-structured", { target: handle, where: "item >= 0" })).toMatchObject({
    count: 3,
    incomplete_input: true,
  });
});

test("records a specialist's call with its filled arguments", async () => {
  const w = await world({
    policy: { actors: [{ name: "default", tools: ["*", "tool__ship"] }] },
  });
  w.qm.register({
    name: "ship",
    description: "Ships an order.",
    inputSchema: { type: "object", properties: { order: { type: "integer" } }, required: ["order"] },
    effect: "write",
    scope: "specialist",
    justification: "Only the one who packs knows what is in the parcel.",
    handler: () => "shipped",
  });
  const { handle } = await w.done("infospace__create-note", { value: { id: 5 } });
  await w.done("tool__ship", { order: { $from: handle, path: "id" } });

  const events = await w.qm.ledger.read({ session: "mine", type: "specialist_execution" });

  expect(events.map(({ data }) => data)).toMatchObject([{ args: { order: 5 } }]);
});

describe("a shared note or collection", () => {
  const ann = { session: "a", tenant: "t", user: { id: "ann" } };
  const bob = { session: "b", tenant: "t", user: { id: "bob" } };

  async function createShared(w: World): Promise<string> {
    const { handle } = await w.done(
      "infospace__create-collection",
      { items: [{ n: 1 }, { n: 2 }], name: "board" },
      ann,
    );
    await w.done("infospace__save", { target: handle, reach: "tenant" }, ann);
    return String(handle);
  }

  test("can be used by others but changed only by its owner", async () => {
    const w = await world();
    const target = await createShared(w);

    for (const [name, args] of [
      ["infospace__remove", { target }],
      ["infospace__save", { target, reach: "session", name: "stolen" }],
      ["infospace__add", { target, items: [{ n: 3 }] }],
    ] as const) {
      expect(await w.call(name, args, bob)).toMatchObject({ status: "refused", error: { code: "denied" } });
    }
    expect(await w.done("infospace__size", { target }, bob)).toMatchObject({ count: 2 });
    expect(await w.done("infospace__add", { target, items: [{ n: 3 }] }, ann)).toMatchObject({ count: 3 });
    expect(await w.done("infospace__remove", { target }, ann)).toMatchObject({ removed: { collections: 1 } });
  });

  test("shows others only its current version", async () => {
    const w = await world();
    const { handle } = await w.done("infospace__create-note", { value: "draft with the salary", name: "letter" }, ann);
    await w.done("infospace__create-note", { value: "letter", name: "letter" }, ann);
    await w.done("infospace__save", { target: handle, reach: "tenant" }, ann);
    const board = await createShared(w);
    await w.done("infospace__create-collection", { items: [{ n: 9 }], name: "board" }, ann);

    expect(await w.done("infospace__load", { target: handle, version: 1 }, ann)).toMatchObject({
      text: "draft with the salary",
    });
    for (const [target, path] of [
      [handle, undefined],
      [board, "[0].n"],
    ]) {
      const args = { target, version: 1, ...(path === undefined ? {} : { path }) };
      expect(await w.call("infospace__load", args, bob)).toMatchObject({ error: { code: "denied" } });
      const from = { $from: target, version: 1, ...(path === undefined ? {} : { path }) };
      expect(await w.call("tool__take", { any: from }, bob)).toMatchObject({ error: { code: "denied" } });
      await expect(
        w.qm.notes.read(String(target), { version: 1, path: path === undefined ? undefined : String(path) }, bob),
      ).rejects.toMatchObject({
        code: "denied",
      });
    }
    expect(await w.done("infospace__load", { target: board }, bob)).toMatchObject({ items: [{ value: { n: 9 } }] });
  });

  test("is not replaced when another caller reuses its name, and a name resolves to the caller's own first", async () => {
    const w = await world();
    const target = await createShared(w);

    const own = await w.done("infospace__create-collection", { items: [{ n: 7 }], name: "board" }, bob);

    expect(own.handle).not.toBe(target);
    expect(await w.done("infospace__size", { target }, ann)).toMatchObject({ count: 2 });
    expect(await w.done("infospace__size", { target: "board" }, bob)).toMatchObject({ count: 1 });
    expect(await w.done("infospace__size", { target: "board" }, ann)).toMatchObject({ count: 2 });
  });

  test("is not replaced by a read operation that reuses its name, and the result is not shared", async () => {
    const w = await world();
    const target = await createShared(w);
    const mine = await w.done("infospace__create-collection", { items: [{ i: 2 }, { i: 1 }] }, ann);

    const sorted = await w.done("infospace__sort", { target: mine.handle, by: "i", name: "board" }, ann);

    expect(sorted.handle).not.toBe(target);
    expect(await w.done("infospace__load", { target }, bob)).toMatchObject({ count: 2 });
    expect(await w.call("infospace__load", { target: sorted.handle }, bob)).toMatchObject({
      error: { code: "not_found" },
    });
  });
});

test("iterating over a collection fails when it is removed meanwhile", async () => {
  const w = await world();
  const many = Array.from({ length: 2_000 }, (_, n) => ({ content: { n } }));
  const { handle } = await w.qm.notes.collect(many, {}, me);
  const items = w.qm.notes.items(handle, {}, me)[Symbol.asyncIterator]();
  await items.next();
  await w.qm.notes.remove(handle, me);

  const rest = async () => {
    while (!(await items.next()).done);
  };

  await expect(rest()).rejects.toMatchObject({ code: "not_found" });
});
