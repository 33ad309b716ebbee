import { afterEach, describe, expect, test } from "vitest";
import type { CallerOptions } from "../app/options.ts";
import { createQuartermaster, type Quartermaster } from "../app/quartermaster.ts";
import { systemRuntime } from "../app/system-runtime.ts";
import type { Json, JsonObject } from "../core/json.ts";
import type { NoteEntry } from "./note-list.ts";

const open: Quartermaster[] = [];
afterEach(async () => {
  for (const each of open.splice(0)) await each.close();
});

const ann: CallerOptions = { session: "s1", user: { id: "ann" }, tenant: "acme" };
const bob: CallerOptions = { session: "s2", user: { id: "bob" }, tenant: "acme" };
const DAY_MS = 86_400_000;

async function world(options: Parameters<typeof createQuartermaster>[0] = {}) {
  let offset = 0;
  const runtime = { ...systemRuntime, now: () => new Date(Date.now() + offset) };
  const qm = await createQuartermaster({ runtime, infospace: {}, ...options });
  open.push(qm);
  const later = (ms: number) => {
    offset += ms;
  };
  return { qm, notes: qm.notes, later };
}

const handles = ({ items }: { readonly items: readonly NoteEntry[] }) => items.map(({ handle }) => handle);
const members = (...contents: Json[]) => contents.map((content) => ({ content }));

describe("list", () => {
  test("lists everything for an operator, and for a caller what that caller may use", async () => {
    const { notes } = await world();
    const mine = await notes.write("mine", {}, ann);
    const theirs = await notes.write("theirs", {}, bob);
    const shared = await notes.write("shared", {}, bob);
    await notes.save(shared.handle, { reach: "tenant" }, bob);

    expect(new Set(handles(await notes.list()))).toEqual(new Set([mine.handle, theirs.handle, shared.handle]));
    expect(new Set(handles(await notes.list({}, ann)))).toEqual(new Set([mine.handle, shared.handle]));
    await expect(notes.get(theirs.handle, ann)).rejects.toMatchObject({ code: "not_found" });
    expect(await notes.get(theirs.handle)).toMatchObject({ kind: "note", format: "text", origin: { user: "bob" } });
  });

  test("asks the policy, not only for the owner", async () => {
    const { notes } = await world({ policy: { rules: [{ rule: "tool.category == 'note'", effect: "hide" }] } });
    const note = await notes.write("mine", {}, ann);
    const collection = await notes.collect(members(1), {}, ann);

    expect(handles(await notes.list({}, ann))).toEqual([collection.handle]);
    await expect(notes.read(note.handle, {}, ann)).rejects.toMatchObject({ code: "not_found" });
    expect(await notes.read(note.handle)).toBe("mine");
  });

  test("pages through notes and collections, without the notes made for a collection", async () => {
    const { notes, later } = await world();
    const made: string[] = [];
    for (let at = 0; at < 12; at++) {
      later(1_000);
      const one =
        at % 3 === 0
          ? await notes.collect(members(at, at), { name: `c${at}` }, ann)
          : await notes.write(at, {}, at % 2 === 0 ? ann : bob);
      made.push(one.handle);
    }

    const paged: string[] = [];
    let sizes = "";
    for (let before: string | undefined; ; ) {
      const page = await notes.list({ limit: 5, before });
      paged.push(...handles(page));
      sizes += page.items.length;
      before = page.next;
      if (before === undefined) break;
    }

    expect(paged).toEqual(made.toReversed());
    expect(sizes).toBe("552");
    expect((await notes.list({ limit: 12 })).next).toBeUndefined();
    expect((await notes.list({ parts: true })).items).toHaveLength(12 + 8);
  });

  test("filters by the query", async () => {
    const { notes } = await world();
    const named = await notes.write({ a: 1 }, { name: "prices" }, ann);
    const theirs = await notes.write("b", {}, bob);
    const many = await notes.collect(members(1, 2), {}, { ...bob, actor: "default", session: "s3" });
    await notes.save(named.handle);
    const found = async (query: object) => handles(await notes.list(query));

    expect(await found({ kind: "collection" })).toEqual([many.handle]);
    expect(await found({ name: "prices" })).toEqual([named.handle]);
    expect(await found({ session: "s2" })).toEqual([theirs.handle]);
    expect(await found({ user: "ann" })).toEqual([named.handle]);
    expect(await found({ tenant: "other" })).toEqual([]);
    expect(await found({ actor: "nobody" })).toEqual([]);
    expect(await found({ action: "library", saved: true })).toEqual([named.handle]);
    expect(await found({ saved: false, user: "bob", kind: "note" })).toEqual([theirs.handle]);
  });

  test.each([{ limit: 0 }, { limit: 1.5 }, { limit: 1_001 }, { before: "note__0" }, { before: "nonsense" }])(
    "refuses %j",
    async (query) => {
      const { notes } = await world();

      await expect(notes.list(query)).rejects.toMatchObject({ code: "invalid_arguments" });
    },
  );
});

describe("read", () => {
  test("returns the whole content or a part", async () => {
    const { notes } = await world();
    const text = await notes.write("hello world", {}, ann);
    const json = await notes.write({ items: [{ id: 7 }, { id: 8 }], n: 1 }, {}, ann);
    const many = await notes.collect(members({ a: 1 }, "two", [3, 4]), {}, ann);

    expect(await notes.read(text.handle)).toBe("hello world");
    expect(await notes.read(text.handle, { from: 6, to: 9 }, ann)).toBe("wor");
    expect(await notes.read(json.handle, { path: "items[1].id" })).toBe(8);
    expect(await notes.read(json.handle, { path: "items", from: 1 })).toEqual([{ id: 8 }]);
    expect(await notes.read(many.handle)).toEqual([{ a: 1 }, "two", [3, 4]]);
    expect(await notes.read(many.handle, { from: 1, to: 2 })).toEqual(["two"]);
    expect(await notes.read(many.handle, { path: "[2][0]" })).toBe(3);
    expect(await notes.read(many.handle, { path: "[-3].a" })).toBe(1);
    await expect(notes.read(json.handle, { from: 1 })).rejects.toMatchObject({ code: "invalid_arguments" });
    await expect(notes.read(json.handle, { path: "none" })).rejects.toThrow('has no "none": the value has no none');
    await expect(notes.read(many.handle, { path: "[3]" })).rejects.toThrow("it holds 3 notes");
    await expect(notes.read(many.handle, { path: "a" })).rejects.toThrow("which have positions");
  });

  test("returns earlier versions", async () => {
    const { notes } = await world();
    await notes.write("one", { name: "n" }, ann);
    const { handle } = await notes.write("two", { name: "n" }, ann);
    await notes.collect(members(1, 2), { name: "c" }, ann);
    const many = await notes.collect(members(3), { name: "c" }, ann);

    expect(await notes.read(handle)).toBe("two");
    expect(await notes.read(handle, { version: 1 })).toBe("one");
    expect(await notes.history(handle)).toMatchObject([
      { version: 1, format: "text", isPresent: false },
      { version: 2, isPresent: true },
    ]);
    expect(await notes.read(many.handle, { version: 1 })).toEqual([1, 2]);
    expect(await notes.read(many.handle, { version: 1, path: "[-1]" })).toBe(2);
    expect(await notes.history(many.handle)).toMatchObject([
      { version: 1, count: 2, bytes: 2, isPresent: false },
      { version: 2, count: 1, bytes: 1, isPresent: true },
    ]);
    await expect(notes.read(many.handle, { version: 1, path: "[2]" })).rejects.toThrow("it holds 2 notes");
    await expect(notes.read(handle, { version: 3 })).rejects.toMatchObject({ code: "not_found" });
    await expect(notes.read(many.handle, { version: 3 })).rejects.toMatchObject({ code: "not_found" });
  });

  test("takes a name that is in the caller's reach", async () => {
    const { notes } = await world();
    const text = await notes.write("hello", { name: "text" }, ann);
    const many = await notes.collect(members(1, 2), { name: "rows" }, ann);

    expect(await notes.read("text", {}, ann)).toBe("hello");
    expect(await notes.read("rows", { path: "[1]" }, ann)).toBe(2);
    expect(await notes.get("rows", ann)).toMatchObject({ kind: "collection", handle: many.handle });
    expect(await notes.save("text", {}, ann)).toMatchObject({ kind: "note", handle: text.handle });
    for (const caller of [bob, undefined])
      await expect(notes.read("rows", {}, caller)).rejects.toMatchObject({ code: "not_found" });
  });

  test.each([{ from: 5, to: 2 }, { to: -1 }, { version: 0.5 }])("refuses %j", async (part) => {
    const { notes } = await world();
    const { handle } = await notes.collect(members(1, 2), {}, ann);

    await expect(notes.read(handle, part)).rejects.toMatchObject({ code: "invalid_arguments" });
    await expect(notes.items(handle, part)[Symbol.asyncIterator]().next()).rejects.toMatchObject({
      code: "invalid_arguments",
    });
  });

  test("counts positions in order after notes were removed", async () => {
    const { notes } = await world();
    const { handle } = await notes.collect(members("a", "b", "c"), {}, ann);
    await notes.remove("note__2");

    expect(await notes.read(handle, { path: "[1]" })).toBe("c");
    expect(await notes.read(handle, { path: "[-2]" })).toBe("a");
    await expect(notes.read(handle, { path: "[2]" })).rejects.toMatchObject({ code: "not_found" });
  });

  test("iterates over a collection", async () => {
    const { notes } = await world();
    const { handle } = await notes.collect(members(...Array.from({ length: 1_200 }, (_, at) => at)), {}, ann);

    const seen: Json[] = [];
    for await (const { content } of notes.items(handle, { from: 10 })) seen.push(content);

    expect(seen).toEqual(Array.from({ length: 1_190 }, (_, at) => at + 10));
  });
});

describe("writing as a host", () => {
  test("belongs to the caller, can be changed and removed by handle, and is in the ledger", async () => {
    const { qm, notes } = await world();
    const one = await notes.write("one", {}, ann);
    const file = await notes.writeFile({ bytes: Buffer.from("GIF"), mediaType: "image/gif" }, ann);
    const many = await notes.collect([{ id: one.id }, { content: "new" }], {}, ann);

    await notes.add(many.handle, members("more"), ann);
    expect(await notes.takeOut(many.handle, [one.handle], ann)).toBe(1);
    expect(await notes.read(many.handle)).toEqual(["new", "more"]);
    expect(await notes.save(many.handle, {}, ann)).toMatchObject({ reach: "session" });
    expect((await notes.get(many.handle)).expiresAt).toBeUndefined();
    expect(await notes.remove(many.handle)).toEqual({ notes: 2, collections: 1 });
    expect(await notes.read(file.handle)).toMatchObject({ media_type: "image/gif", base64: "R0lG" });
    await expect(notes.add(many.handle, members(1), ann)).rejects.toMatchObject({ code: "not_found" });
    await qm.ledger.flush();
    const types = (await qm.ledger.read({ type: "resource." })).map(({ type, session }) => `${type} ${session}`);
    expect(types).toEqual([
      "resource.written s1",
      "resource.written s1",
      "resource.written s1",
      "resource.written s1",
      "resource.written s1",
      "resource.saved s1",
      "resource.removed system",
    ]);
  });

  test("takes only notes that the caller may use, and only JSON", async () => {
    const { notes } = await world();
    const theirs = await notes.write("secret", {}, bob);
    const cycle: { self?: unknown } = {};
    cycle.self = cycle;

    await expect(notes.collect([{ id: theirs.id }], {}, ann)).rejects.toMatchObject({ code: "not_found" });
    for (const value of [undefined, cycle, 1n, () => 1])
      await expect(notes.write(value, {}, ann)).rejects.toMatchObject({ code: "invalid_arguments" });
    await expect(notes.save(theirs.handle, {}, ann)).rejects.toMatchObject({ code: "not_found" });
    await expect(notes.remove(theirs.handle, ann)).rejects.toMatchObject({ code: "not_found" });
    await expect(notes.takeOut("collection__1", ["nonsense"])).rejects.toMatchObject({ code: "invalid_arguments" });
    expect(await notes.read(theirs.handle)).toBe("secret");
  });

  test("requires wrapped values: a row with an id is not a note", async () => {
    const { notes } = await world();
    const odd = [[1, 2, 3], ["a"], [null], [{ id: 1, title: "x" }], [{ id: "1" }], [{}], [{ content: 1, title: 2 }], 5];

    for (const given of odd) {
      await expect(notes.collect(given as never, {}, ann)).rejects.toMatchObject({
        code: "invalid_arguments",
        message: expect.stringMatching(/^item 0 is neither|^the members are neither/),
      });
    }
    expect((await notes.list({ parts: true })).items).toEqual([]);
    const { handle } = await notes.collect([{ content: { id: 1 } }], {}, ann);
    await expect(notes.add(handle, [7] as never, ann)).rejects.toMatchObject({ code: "invalid_arguments" });
    await expect(notes.takeOut(handle, 5 as never, ann)).rejects.toMatchObject({ code: "invalid_arguments" });
    await expect(notes.writeFile({ bytes: "abc", mediaType: "a/b" } as never)).rejects.toMatchObject({
      code: "invalid_arguments",
    });
  });

  test.each([undefined, "", null, 5, {}, "nonsense"])("needs a handle, and %j is none", async (handle) => {
    const { notes } = await world();
    await notes.write("the newest", {}, ann);

    for (const caller of [ann, undefined]) {
      const works = [
        notes.get(handle as never, caller),
        notes.read(handle as never, {}, caller),
        notes.history(handle as never, caller),
        notes.save(handle as never, {}, caller),
        notes.remove(handle as never, caller),
        notes.add(handle as never, [], caller),
      ];
      // All at once: a promise that rejects while another is awaited would be an unhandled rejection.
      await Promise.all(works.map((work) => expect(work).rejects.toMatchObject({ code: "not_found" })));
    }
    expect((await notes.list()).items).toHaveLength(1);
  });

  test("keeps the items before a failure, and nothing if there are none", async () => {
    const { notes } = await world();
    function* broken(count: number) {
      for (let at = 0; at < count; at++) yield { content: at };
      throw new Error("no more");
    }

    for (const count of [0, 1, 700]) await expect(notes.collect(broken(count), {}, ann)).rejects.toThrow("no more");

    expect((await notes.list()).items.map((each) => each.kind === "collection" && [each.count, each.complete])).toEqual(
      [
        [700, false],
        [1, false],
      ],
    );
  });

  test("keeps the items before an abort", async () => {
    const { notes } = await world();
    const stop = new AbortController();
    function* endless() {
      for (let at = 0; ; at++) {
        if (at === 550) stop.abort();
        yield { content: at };
      }
    }

    await expect(notes.collect(endless(), { signal: stop.signal }, ann)).rejects.toThrow("aborted");
    await expect(notes.collect(endless(), { signal: AbortSignal.abort() }, ann)).rejects.toThrow("aborted");

    expect((await notes.list()).items).toMatchObject([{ count: 1_000, complete: false }]);
  });

  test("expires, unless it is saved", async () => {
    const { qm, notes, later } = await world();
    const gone = await notes.write("gone", {}, ann);
    const saved = await notes.write("saved", {}, ann);
    await notes.save(saved.handle, { name: "kept" }, ann);
    later(2 * DAY_MS);

    expect(handles(await notes.list())).toEqual([saved.handle]);
    expect(await notes.expire()).toEqual({ notes: 1, collections: 0 });
    expect(await notes.expire()).toEqual({ notes: 0, collections: 0 });
    await expect(notes.get(gone.handle)).rejects.toMatchObject({ code: "not_found" });
    await qm.ledger.flush();
    expect((await qm.ledger.read({ type: "resources.expired" })).map(({ data }) => data)).toEqual([
      { notes: 1, collections: 0 },
    ]);
  });
});

describe("search", () => {
  test("finds everything for an operator, and for a caller what that caller may use", async () => {
    const { notes } = await world();
    const mine = await notes.write("the price of tea in winter", {}, ann);
    const theirs = await notes.write("the price of coffee", {}, bob);
    const many = await notes.collect(members("tea from Assam", "milk"), { name: "teas" }, bob);
    const found = async (...args: Parameters<typeof notes.search>) =>
      (await notes.search(...args)).hits.map(({ resource }) => resource.handle);

    expect(new Set(await found("price"))).toEqual(new Set([mine.handle, theirs.handle]));
    expect(await found("price", {}, ann)).toEqual([mine.handle]);
    expect(await found("assam", { kind: "collection" })).toEqual([many.handle]);
    expect(await found("assam", { kind: "collection" }, ann)).toEqual([]);
    expect((await notes.search("tea", { within: many.handle })).hits).toMatchObject([
      { position: 0, passage: "tea from Assam" },
    ]);
    await expect(notes.search("tea", { within: many.handle }, ann)).rejects.toMatchObject({ code: "not_found" });
    expect(await notes.search("price", { limit: 1 })).toMatchObject({ limitReached: true });
    await notes.remove(theirs.handle);
    expect(await found("price")).toEqual([mine.handle]);
    await notes.save(mine.handle, { name: "zebra" });
    expect(await found("zebra")).toEqual([mine.handle]);
  });
});

test.each<[string, unknown, number]>([
  ["a file of JSON that says more", { path: "/a", content: JSON.stringify(rows(300)) }, 300],
  ["a file of JSON lines that says more", { path: "/a", content: lines(300) }, 300],
  ["a file of lines", { path: "/a", content: "some words\n".repeat(900) }, 900],
  ["a list farther in", { data: { deep: { rows: rows(300) } } }, 300],
  ["a list in a list of one", { found: [{ rows: rows(300) }] }, 300],
  ["a file with a JSON object", { path: "/a", content: JSON.stringify({ rows: rows(300) }) }, 300],
])("the suggested call for %s works", async (_, result, count) => {
  const { qm } = await world();
  qm.register({
    name: "read",
    description: "Reads.",
    scope: "generalist",
    effect: "read",
    inputSchema: { type: "object", properties: {} },
    handler: () => result,
  });
  const read = await qm.invoke("tool__read", {}, { caller: ann });
  const { next } = JSON.parse(read.status === "done" ? String(read.value) : "{}") as { next: string };

  const [, name = "", args = ""] = /(infospace__(?:split|coerce)) (\{.*?\})\./.exec(next) ?? [];
  const made = await qm.invoke(name, JSON.parse(args), { caller: ann });

  expect(made).toMatchObject({ status: "done", data: { kind: "collection", count } });
});

function rows(count: number): JsonObject[] {
  return Array.from({ length: count }, (_, id) => ({ id, title: `Row ${id}` }));
}

function lines(count: number): string {
  return rows(count)
    .map((row) => JSON.stringify(row))
    .join("\n");
}

describe("loading as a model", () => {
  test("reads an earlier version to its end", async () => {
    const { qm, notes } = await world();
    const load = async (args: JsonObject) => {
      const outcome = await qm.invoke("infospace__load", args, { caller: ann });
      if (outcome.status === "done") return outcome.data as JsonObject;
      return { error: "error" in outcome ? outcome.error.code : outcome.status };
    };
    await notes.collect(members(1, 2, 3, 4, 5, 6, 7), { name: "rows" }, ann);
    const { handle } = await notes.collect(members(8), { name: "rows" }, ann);

    const first = await load({ target: handle, version: 1 });
    expect(first).toMatchObject({ count: 7, total: 7, more: true, version: 1, from: 0, to: 5 });
    expect(first.next).toBe(`infospace__load {"target":"${handle}","version":1,"from":5}`);
    expect(await load({ target: handle, version: 1, from: 5 })).toMatchObject({ to: 7, more: false });
    expect(await load({ target: handle, version: 1, path: "[-1]" })).toMatchObject({ value: 7 });
    expect(await load({ target: "rows" })).toMatchObject({ handle, count: 1, more: false, version: 2 });
    expect(await load({ target: handle, version: 3 })).toEqual({ error: "not_found" });
    await notes.write("x".repeat(9_000), { name: "text" }, ann);
    const text = await notes.write("y", { name: "text" }, ann);
    expect((await load({ target: text.handle, version: 1 })).next).toContain(`"target":"${text.handle}","version":1,`);
  });

  test("lists namesakes that the caller may know of after saving under a name", async () => {
    const { qm, notes } = await world();
    const save = async (target: string) => {
      const outcome = await qm.invoke("infospace__save", { target, name: "same" }, { caller: ann });
      return outcome.status === "done" ? (outcome.data as JsonObject).also_called : outcome;
    };
    await notes.write("theirs", { name: "same" }, { ...bob, tenant: "elsewhere" });
    const first = await notes.write("first", {}, ann);
    const second = await notes.collect(members(1), {}, ann);

    expect(await save(first.handle)).toBeUndefined();
    expect(await save(second.handle)).toEqual([first.handle]);
    expect(await save(first.handle)).toEqual([second.handle]);
  });
});

test("shows existing notes to an operator and to no caller if the infospace is off", async () => {
  const { notes } = await world({ infospace: { enabled: false } });
  const { handle } = await notes.write("left over", {}, ann);

  expect(handles(await notes.list())).toEqual([handle]);
  expect(handles(await notes.list({}, ann))).toEqual([]);
  expect(await notes.read(handle)).toBe("left over");
});

test("treats odd key names as data", async () => {
  const { notes } = await world();
  const odd = JSON.parse('{"__proto__":{"a":1},"constructor":"\\ud800\\u0000"}') as JsonObject;

  const { handle } = await notes.write(odd, { name: "__proto__", properties: odd }, ann);

  expect(JSON.stringify(await notes.read(handle))).toBe(JSON.stringify(odd));
  expect(handles(await notes.list({ name: "__proto__" }))).toEqual([handle]);
  await expect(notes.read(handle, { path: "toString" })).rejects.toMatchObject({ code: "not_found" });
});
