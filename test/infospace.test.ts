import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { closeWorlds, keptPeople, me, people, towns, world } from "./fixtures/infospace-world.ts";

const folders: string[] = [];
afterEach(async () => {
  await closeWorlds();
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

describe("a result longer than the value limit", () => {
  test("is stored as a collection if it is a list, with whole data and a bounded value", async () => {
    const { call } = await world();

    const outcome = await call("tool__people");

    const reference = { handle: "collection__1", resource_id: "collection__1" };
    expect(outcome).toMatchObject({ status: "done", data: people, kept: { ...reference, count: 200 } });
    expect(outcome.value.length).toBeLessThanOrEqual(1_200);
    expect(JSON.parse(outcome.value)).toMatchObject({
      ...reference,
      count: 200,
      keys: { id: "number", name: "string" },
      first: expect.arrayContaining([expect.objectContaining({ id: 0, name: "Person 0" })]),
      next: expect.stringContaining("$from"),
    });
  });

  test("is stored as a note if it is text, and can be read in slices", async () => {
    const { call, done } = await world();

    const outcome = await call("tool__report");

    expect(outcome).toMatchObject({ status: "done", data: "word ".repeat(5_000), kept: { handle: "note__1" } });
    const slice = await done("note__1", { from: 24_990, to: 25_000 });
    expect(JSON.stringify(slice)).toContain("word word ");
  });

  test("is not stored for a handler or with keep: false, and a short result is never stored", async () => {
    const { qm, call } = await world();

    expect(await call("tool__short")).not.toHaveProperty("kept");
    expect(await call("tool__nested")).toMatchObject({ data: { rows: 200, kept: null } });
    const whole = await qm.invoke("tool__people", {}, { caller: me, keep: false });
    expect(whole).not.toHaveProperty("kept");
    expect(whole.value).toContain("[cut:");
  });

  test("is cut when the infospace is disabled, and handles are plain data", async () => {
    const { qm, call, got } = await world({ infospace: { enabled: false } });

    expect((await call("tool__people")).value).toContain("[cut:");
    await call("tool__take", { any: { $from: "note__1" } });
    expect(got).toEqual([{ any: { $from: "note__1" } }]);
    expect(qm.categories()).not.toContain("infospace");
    expect(await call("tool__stream")).toMatchObject({ status: "failed", error: { code: "invalid_output" } });
  });

  test("is cut when the policy does not let the caller load it again", async () => {
    for (const denied of ["infospace__load", "collection__*"]) {
      const { call } = await world({ policy: { tools: { denied: [denied] } } });

      expect(await call("tool__people")).not.toHaveProperty("kept");
    }
  });

  test("is stored without the fields hidden from the model", async () => {
    const { call, done } = await world();

    const outcome = await call("tool__secretive");

    expect(outcome).toMatchObject({ data: { pin: "4711" }, kept: { handle: "note__1" } });
    expect(await done("note__1", { path: "rows[3].name" })).toMatchObject({ text: "Person 3" });
    expect(await call("note__1", { path: "pin" })).toMatchObject({ status: "failed" });
    expect(await done("infospace__search-notes", { query: "4711" })).toMatchObject({ hits: [], searched: 1 });
  });

  test("is stored as a collection while it streams", async () => {
    const { call, done } = await world();

    const outcome = await call("tool__stream");

    expect(outcome).toMatchObject({ data: { handle: "collection__1", count: 200 }, kept: { count: 200 } });
    expect(await done("infospace__size", { target: "collection__1" })).toMatchObject({ count: 200 });
  });
});

test("a streamed result is subject to the action's timeout", async () => {
  const w = await world({ limits: { timeoutMs: 300 } });

  const outcome = await w.call("tool__endless");

  expect(outcome).toMatchObject({ status: "failed", error: { code: "timed_out" } });
  await closeWorlds();
});

describe("a handle in arguments", () => {
  test("is replaced by the whole content, or by the part at its path", async () => {
    const w = await world();
    const handle = await keptPeople(w);

    await w.done("tool__take", {
      rows: { $from: handle },
      one: { $from: handle, path: "[7].id" },
      any: [{ deep: { $from: handle, path: "[-1].name" } }],
    });

    expect(w.got).toEqual([{ rows: people, one: 7, any: [{ deep: "Person 199" }] }]);
  });

  test("is validated as the content it refers to", async () => {
    const w = await world();
    const handle = await keptPeople(w);

    expect(await w.call("tool__take", { one: { $from: handle } })).toMatchObject({
      status: "failed",
      error: { code: "invalid_arguments" },
    });
    expect(w.got).toEqual([]);
  });

  test("is filled in arguments given as a JSON string", async () => {
    const w = await world();
    const handle = await keptPeople(w);

    await w.done("tool__take", JSON.stringify({ one: { $from: handle, path: "[7].id" } }));

    expect(w.got).toEqual([{ one: 7 }]);
  });

  test("that cannot be resolved fails with its position and what is missing", async () => {
    const w = await world();
    const handle = await keptPeople(w);
    const takeError = async (args: object) => {
      const outcome = await w.call("tool__take", args);
      return outcome.status === "failed" ? outcome.error : outcome;
    };

    expect(await takeError({ any: [{ $from: handle, path: "[3].email" }] })).toMatchObject({
      code: "not_found",
      at: "any[0]",
      error: expect.stringMatching(/any\[0\].*email.*name/),
    });
    expect(await takeError({ any: { $from: handle, path: "[900]" } })).toMatchObject({
      code: "not_found",
      error: expect.stringContaining("200"),
    });
    expect(await takeError({ any: { $from: "note__9999" } })).toMatchObject({ code: "not_found", at: "any" });
    expect(await takeError({ any: { $from: "nonsense" } })).toMatchObject({ code: "invalid_arguments" });
    expect(await takeError({ any: { $from: handle, part: "x" } })).toMatchObject({ code: "invalid_arguments" });
    expect(w.got).toEqual([]);
  });

  test("inside a note is data and is not followed", async () => {
    const w = await world();
    await w.done("infospace__create-note", { value: { next: "x" } });
    const made = await w.qm.notes.write({ $from: "note__2" }, {}, me);

    await w.done("tool__take", { any: { $from: `note__${made.id}` } });

    expect(w.got).toEqual([{ any: { $from: "note__2" } }]);
  });

  test("passed on by a handler is data, so it cannot read the caller's notes", async () => {
    const w = await world();
    const secret = await w.done("infospace__create-note", { value: "mine" });
    const items = await w.qm.notes.collect([{ content: { any: { $from: String(secret.handle) } } }], {}, me);

    await w.done("infospace__map", { target: `collection__${items.id}`, action: "tool__take" });
    await w.done("infospace__apply", { action: "tool__take", args: { any: { $from: `collection__${items.id}` } } });

    expect(w.got).toEqual([{ any: { $from: secret.handle } }, { any: [{ any: { $from: secret.handle } }] }]);
  });

  test("is limited in number and in filled size", async () => {
    const w = await world({ infospace: { fillLimit: 10_000 } });
    const handle = await keptPeople(w);

    expect(await w.call("tool__take", { rows: { $from: handle } })).toMatchObject({ error: { code: "too_large" } });
    const many = Array.from({ length: 65 }, () => ({ $from: handle, path: "[0].id" }));
    expect(await w.call("tool__take", { any: many })).toMatchObject({ error: { code: "too_large" } });
    const twice = Array.from({ length: 20 }, (_, at) => ({ $from: handle, path: `[${at}]` }));
    expect(await w.call("tool__take", { any: twice })).toMatchObject({ status: "done" });
  });

  test("is filled before approval, and the approved content is what runs", async () => {
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

  test("is recorded with its content but without secrets, and replays without the note", async () => {
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

describe("notes and collections", () => {
  test("can be described, listed and invoked as actions, with load as the default", async () => {
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

  test("expire unless they are saved", async () => {
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

test("structured content survives create, search, project, filter, join, save and a restart", async () => {
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
  await closeWorlds();

  const second = await world({ store });
  await second.done("tool__take", { rows: { $from: rows.handle } });

  const wanted = people
    .filter(({ age, town }) => age >= 80 && town !== "T0")
    .map(({ id, town }) => ({ id, country: towns.find((each) => each.town === town)?.country }));
  expect(second.got).toEqual([{ rows: wanted }]);
});

test("rejects a provider that claims the category of handles", async () => {
  const provider = { category: "note", capability: "x", list: () => [] };

  await expect(world({ providers: [provider] })).rejects.toMatchObject({ code: "invalid_config" });
});
