import fc from "fast-check";
import { afterEach, describe, expect, test } from "vitest";
import type { CallerOptions } from "../app/options.ts";
import { createQuartermaster, type Quartermaster } from "../app/quartermaster.ts";
import { systemRuntime } from "../app/system-runtime.ts";
import type { Json, JsonObject } from "../core/json.ts";
import { openSqlite } from "../store/drivers/sqlite.ts";
import { createSqlInfospaceStore } from "../store/infospace.ts";
import { openStore } from "../store/open-store.ts";
import type { Sql } from "../store/sql.ts";
import { importLines } from "./import-reader.ts";
import { createImportWriter } from "./import-writer.ts";
import { MAX_VERSIONS } from "./infospace-store.ts";
import type { Notes, NotesExport } from "./notes.ts";

const open: Quartermaster[] = [];
afterEach(async () => {
  for (const each of open.splice(0)) await each.close();
});

const ann: CallerOptions = { session: "s1", user: { id: "ann" }, tenant: "acme" };
const bob: CallerOptions = { session: "s2", user: { id: "bob" } };
const DAY_MS = 86_400_000;

async function world(ahead = 0) {
  const runtime = { ...systemRuntime, now: () => new Date(Date.now() + ahead) };
  const qm = await createQuartermaster({ runtime, infospace: {} });
  open.push(qm);
  return { qm, notes: qm.notes };
}

async function exported(notes: Notes, query: NotesExport = {}, caller?: CallerOptions): Promise<string[]> {
  const lines: string[] = [];
  for await (const line of notes.export(query, caller)) lines.push(line);
  return lines;
}

const parsed = (lines: readonly string[]) => lines.map((line) => JSON.parse(line) as JsonObject);
const ofKind = (lines: readonly string[], kind: string) => parsed(lines).filter((line) => line.kind === kind);
const members = (...contents: Json[]) => contents.map((content) => ({ content }));

/** What does not change when it is imported: handles become the order in which they come, and times and origins go. */
function lasting(lines: readonly string[]): readonly unknown[] {
  const order = new Map<string, string>();
  const named = (handle: Json | undefined) => {
    if (typeof handle !== "string") return handle;
    if (!order.has(handle)) order.set(handle, `${handle.split("__")[0]} ${order.size}`);
    return order.get(handle);
  };
  return parsed(lines).map((line) => {
    const { origin: _o, changed_at: _c, exported_at: _e, properties, ...rest } = line;
    const { imported: _, ...own } = (properties ?? {}) as JsonObject;
    const items = Array.isArray(rest.items) ? { items: rest.items.map(named) } : {};
    return { ...rest, ...items, own, id: named(rest.id), of: named(rest.of), part_of: named(rest.part_of) };
  });
}

/** From `begin` on it answers so many statements, and nothing after that. */
function dying(db: Sql, statements: number): Sql & { begin(): void } {
  let left = Number.POSITIVE_INFINITY;
  const counting = (inner: Sql): Sql => ({
    async all(query) {
      if (left-- <= 0) throw new Error("it is dead");
      return inner.all(query);
    },
    transaction: (work) => inner.transaction((tx) => work(counting(tx))),
  });
  return {
    ...counting(db),
    begin() {
      left = statements;
    },
  };
}

/** Some of everything there is. */
async function filled(notes: Notes): Promise<void> {
  await notes.write("first", { name: "text", properties: { lang: "en", "": null } }, ann);
  await notes.write("second", { name: "text" }, ann);
  const odd = JSON.parse('{"__proto__":{"a":[]},"b":"\\ud800\\u0000\\u2028","n":-1.5e-7}') as Json;
  const one = await notes.write(odd, {}, bob);
  const gif = await notes.writeFile({ bytes: Buffer.from([0, 255, 10, 13]), mediaType: "image/gif", name: "pic" }, ann);
  await notes.save(gif.handle, { reach: "tenant" }, ann);
  const rows = await notes.collect(members({ id: 1 }, "two", null, [3], true), { name: "rows" }, ann);
  const [part] = (await notes.list({ parts: true, kind: "note" })).items.filter(({ name }) => name === undefined);
  if (part === undefined) throw new Error("there is a part");
  await notes.save(rows.handle, { reach: "actor" }, ann);
  const mixed = await notes.collect([{ content: "own" }], { properties: { mixed: true } }, ann);
  await notes.add(mixed.handle, [{ id: gif.id }, { content: "between" }, { id: part.id }, { id: gif.id }], ann);
  await notes.collect([{ id: one.id }, { id: one.id }], {}, bob);
  await notes.collect([], { name: "empty" }, bob);
}

describe("a round trip", () => {
  test.each([{}, { history: true }])("into an empty store, with %j, comes out as it went in", async (query) => {
    const [from, to] = [await world(), await world()];
    await filled(from.notes);
    const before = await exported(from.notes, query);

    const counts = await to.notes.import(before, {}, { session: "new" });
    const after = await exported(to.notes, query);

    const [notes, collections] = [[1, 2, 3].map((id) => `note__${id}`), [1, 2, 3, 4].map((id) => `collection__${id}`)];
    expect(counts).toEqual({
      notes: 10,
      collections: 4,
      versions: query.history ? 1 : 0,
      renewed: 0,
      handles: [...notes, ...collections],
    });
    const version = (line: unknown) => (query.history ? line : { ...(line as object), version: 0 });
    expect(lasting(after).map(version)).toEqual(lasting(before).map(version));
    expect(await held(to.notes)).toEqual(await held(from.notes));
    expect(await exported((await again(after)).notes, query).then(lasting)).toEqual(lasting(after));
  });

  test("imports earlier versions of collections and the notes that are only in them", async () => {
    const [from, to] = [await world(), await world()];
    const loose = await from.notes.write("loose", {}, ann);
    const { handle } = await from.notes.collect(members(1, 2, 3), { name: "c" }, ann);
    const [second] = (await from.notes.list({ parts: true, kind: "note" })).items.filter(({ id }) => id === 3);
    await from.notes.takeOut(handle, [second?.handle ?? ""], ann);
    await from.notes.add(handle, [{ content: 4 }, { id: loose.id }], ann);
    await from.notes.collect([{ content: 5 }, { id: 2 }, { content: 6 }], { name: "c" }, ann);
    await from.notes.collect([], { name: "c" }, ann);
    await from.notes.collect([{ id: 2 }, { content: 7 }], { name: "c" }, ann);
    await from.notes.save(handle, {}, ann);
    await from.notes.collect([{ id: 3 }, { id: 5 }], { name: "other" }, ann);
    const states = [[1, 2, 3], [1, 3, 4, "loose"], [5, 1, 6], [], [1, 7]];

    const lines = await exported(from.notes, { history: true });
    const counts = await to.notes.import(lines, {}, ann);

    expect(counts).toMatchObject({ notes: 8, collections: 2, versions: 4 });
    expect(counts.handles).toHaveLength(3);
    const [other, made] = (await to.notes.list({ kind: "collection" })).items;
    for (const [notes, at] of [
      [from.notes, handle],
      [to.notes, made?.handle ?? ""],
    ] as const) {
      const read = await Promise.all(states.map((_, index) => notes.read(at, { version: index + 1 })));
      expect(read).toEqual(states);
      expect((await notes.history(at)).map(({ count }) => count)).toEqual(states.map(({ length }) => length));
    }
    expect(made).toMatchObject({ name: "c", version: 5, complete: true });
    expect(made?.expiresAt).toBeUndefined();
    expect(await to.notes.read(other?.handle ?? "")).toEqual([2, 4]);
    expect(await exported(to.notes, { history: true }).then(lasting)).toEqual(lasting(lines));
    expect((await to.notes.list({ kind: "collection" })).items).toHaveLength(2);
    expect((await exported(from.notes)).join("")).not.toContain('"kind":"state"');
  });

  /** What every collection holds, in order. */
  async function held(notes: Notes): Promise<readonly Json[]> {
    const { items } = await notes.list({ kind: "collection" });
    return Promise.all(items.map(({ handle }) => notes.read(handle)));
  }

  async function again(lines: readonly string[]) {
    const next = await world();
    await next.notes.import(lines, {}, { session: "new" });
    return next;
  }

  test("records the origin, also of resources that were imported before", async () => {
    const [first, second, third] = [await world(), await world(), await world()];
    const { handle, changedAt } = await first.notes.write("a", {}, ann);
    await second.notes.write("in the way", {}, bob);

    await second.notes.import(await exported(first.notes), {}, bob);
    await third.notes.import(await exported(second.notes, { user: "bob", action: "import" }), {}, ann);

    const [once] = (await second.notes.list({ action: "import" })).items;
    const [twice] = (await third.notes.list()).items;
    expect(once).toMatchObject({ handle: "note__2", origin: { action: "import", session: "s2", user: "bob" } });
    expect(twice).toMatchObject({ origin: { action: "import", session: "s1", user: "ann", tenant: "acme" } });
    const was = { id: handle, changed_at: changedAt, origin: { action: "library", session: "s1", user: "ann" } };
    expect(once?.properties).toMatchObject({ imported: was });
    expect(twice?.properties).toEqual(once?.properties);
  });

  test("keeps the contents of any lists in order", async () => {
    const shape = fc.array(fc.array(fc.oneof(fc.jsonValue(), fc.string({ unit: "binary" })), { maxLength: 6 }), {
      maxLength: 4,
    });
    await fc.assert(
      fc.asyncProperty(shape, async (lists) => {
        const [from, to] = [await world(), await world()];
        for (const list of lists) await from.notes.collect(members(...(list as Json[])), {}, ann);

        await to.notes.import(await exported(from.notes), {}, ann);

        const { items } = await to.notes.list({ kind: "collection" });
        const found = await Promise.all(items.toReversed().map(({ handle }) => to.notes.read(handle)));
        expect(found.map((each) => JSON.stringify(each))).toEqual(lists.map((list) => JSON.stringify(list)));
      }),
      { numRuns: 10 },
    );
  });
});

describe("an export", () => {
  test("has lines of bounded length for long collections, and refers only to its own notes", async () => {
    const { notes } = await world();
    const note = await notes.write("again", {}, ann);
    await notes.collect(
      Array.from({ length: 1_234 }, () => ({ id: note.id })),
      {},
      ann,
    );

    const lines = await exported(notes);

    expect(ofKind(lines, "items").map(({ items }) => (items as Json[]).length)).toEqual([500, 500, 234]);
    expect(parsed(lines).at(-1)).toEqual({ kind: "end", notes: 1, collections: 1 });
    const to = await world();
    await to.notes.import(lines, {}, ann);
    expect((await to.notes.list({ kind: "collection" })).items).toMatchObject([{ count: 1_234, complete: true }]);
  });

  test("contains the selection and the notes of its collections", async () => {
    const { notes } = await world();
    const alone = await notes.write("alone", {}, ann);
    const other = await notes.write("other", {}, bob);
    const many = await notes.collect([{ content: "part" }, { id: alone.id }], {}, ann);

    const some = async (query: NotesExport, caller?: CallerOptions) =>
      ofKind(await exported(notes, query, caller), "note").map(({ content }) => content);

    expect(await some({ handles: [many.handle] })).toEqual(["part", "alone"]);
    expect(await some({ kind: "note" })).toEqual(["alone", "other"]);
    expect(await some({ session: "s2" })).toEqual(["other"]);
    expect(await some({}, ann)).toEqual(["alone", "part"]);
    await expect(some({ handles: [other.handle] }, ann)).rejects.toMatchObject({ code: "not_found" });
    expect(await exported(notes, { session: "nowhere" })).toHaveLength(2);
  });

  test("stops when the signal aborts", async () => {
    const { notes } = await world();
    await notes.write("a", {}, ann);

    await expect(exported(notes, { signal: AbortSignal.abort() })).rejects.toThrow("aborted");
  });
});

describe("an import", () => {
  async function sample(): Promise<string[]> {
    const { notes } = await world();
    await notes.write({ a: 1 }, { name: "first" }, ann);
    const { handle } = await notes.write("saved", {}, ann);
    await notes.save(handle, {}, ann);
    await notes.collect(members("x", "y"), {}, ann);
    return exported(notes);
  }

  /** What is wrong with a file, and that nothing of it is there. */
  async function refused(lines: readonly (string | Uint8Array)[], options = {}): Promise<unknown> {
    const { qm, notes } = await world();
    const problem = await notes.import(lines, options, ann).then(
      () => undefined,
      (thrown) => thrown,
    );
    expect((await notes.list({ parts: true })).items).toEqual([]);
    await qm.ledger.flush();
    expect(await qm.ledger.read({ type: "resource." })).toEqual([]);
    return problem;
  }

  const changed = (line: string | undefined, change: object) =>
    `${JSON.stringify({ ...(JSON.parse(line ?? "") as object), ...change })}\n`;

  test("takes chunks cut anywhere, and reports counts", async () => {
    const { qm, notes } = await world();
    const bytes = Buffer.from((await sample()).join(""));
    const chunks = Array.from({ length: Math.ceil(bytes.length / 7) }, (_, at) => bytes.subarray(at * 7, at * 7 + 7));

    expect(await notes.import(chunks, {}, ann)).toMatchObject({ notes: 4, collections: 1, versions: 0, renewed: 0 });
    await qm.ledger.flush();
    expect((await qm.ledger.read({ type: "resource.written" })).map(({ data }) => data)).toMatchObject([
      { handle: "note__1", name: "first", bytes: 7 },
      { handle: "note__2" },
      { handle: "collection__1", count: 2 },
    ]);
    expect((await notes.list({ saved: true })).items).toMatchObject([{ handle: "note__2" }]);
  });

  test.each<[string, (lines: string[]) => (string | Uint8Array)[], string]>([
    ["without a header", (lines) => lines.slice(1), "not an export"],
    ["of another version", ([head, ...rest]) => [changed(head, { version: 2 }), ...rest], "not an export"],
    ["with nothing in it", () => [], "not an export"],
    ["that was cut off", (lines) => lines.slice(0, -1), "the file ends early, after line 6"],
    ["that was cut off in a line", (lines) => [lines.join("").slice(0, -5)], "line 7 is not JSON"],
    ["without one of its lines", (lines) => lines.toSpliced(1, 1), "line 6: 4 notes and 1 collections were exported"],
    [
      "with a changed content",
      (lines) => lines.with(4, changed(lines[4], { content: "z" })),
      "line 5: its content does not match its hash",
    ],
    ["with another format", (lines) => lines.with(2, changed(lines[2], { format: "json" })), "line 3: its format"],
    ["with what is not JSON", (lines) => lines.with(3, "{nonsense}\n"), "line 4 is not JSON"],
    ["with an unknown kind", (lines) => lines.with(4, '{"kind":"nonsense"}\n'), "line 5: kind: "],
    ["with no content", (lines) => lines.with(4, '{"kind":"note"}\n'), "line 5: it has neither content nor base64"],
    ["with bad base64", (lines) => lines.with(4, '{"kind":"note","base64":"?"}\n'), "line 5: base64"],
    [
      "with something after its end",
      (lines) => [...lines, '{"kind":"note","content":1}\n'],
      "line 8: it comes after the end",
    ],
    [
      "that refers to an unknown note",
      (lines) => lines.with(4, '{"kind":"items","of":"collection__1","items":["note__99"]}\n'),
      "line 5: note__99 does not come before it",
    ],
    [
      "with a part of another collection",
      (lines) => lines.with(4, changed(lines[4], { part_of: "collection__9" })),
      "line 5: it belongs to collection__9",
    ],
    [
      "with a state of another collection",
      (lines) => lines.toSpliced(4, 0, '{"kind":"state","of":"collection__9","version":2}\n'),
      "line 5: it belongs to collection__9",
    ],
    [
      "with a state that leaves one out",
      (lines) => lines.toSpliced(5, 0, '{"kind":"state","of":"collection__1","version":3}\n'),
      "line 6: it has no version before 3",
    ],
    [
      "that is wrong after a state",
      (lines) => lines.toSpliced(5, 0, '{"kind":"state","of":"collection__1","version":2}\n', "{nonsense}\n"),
      "line 7 is not JSON",
    ],
    [
      "with versions without their note",
      (lines) => lines.toSpliced(3, 0, '{"kind":"version","of":"note__1","version":1,"content":1}\n'),
      "line 5: the earlier versions of note__1",
    ],
    [
      "that is too deep",
      (lines) => lines.with(1, `{"kind":"note","content":${"[".repeat(1e5)}${"]".repeat(1e5)}}\n`),
      "line 2",
    ],
    ["that is not UTF-8", (lines) => [Buffer.from(lines.join("")), new Uint8Array([0xff])], "not UTF-8"],
  ])("rejects a file %s, and imports nothing", async (_, change, message) => {
    const problem = await refused(change(await sample()));

    expect(problem).toMatchObject({ code: "invalid_arguments", message: expect.stringContaining(message) });
  });

  test("imports nothing after an abort", async () => {
    const stop = new AbortController();
    const [head = "", ...lines] = await sample();
    function* cut(): Generator<string> {
      yield head + lines[0];
      stop.abort();
      yield* lines.slice(1);
    }

    expect(await refused(cut() as never, { signal: stop.signal })).toMatchObject({ name: "AbortError" });
  });

  test("saves nothing before everything is written", async () => {
    const { notes } = await world();
    const lines = await sample();
    const seen: unknown[] = [];
    async function* slow(): AsyncGenerator<string> {
      for (const line of lines) {
        seen.push((await notes.list({ saved: true })).items.length);
        yield line;
      }
    }

    await notes.import(slow(), {}, ann);

    expect(seen).toEqual(lines.map(() => 0));
    expect((await notes.list({ saved: true })).items).toHaveLength(1);
  });

  test("saves nothing if it crashes in the last step", async () => {
    const from = await world();
    for (const text of ["a", "b"]) await from.notes.save((await from.notes.write(text, {}, ann)).handle, {}, ann);
    const { handle } = await from.notes.collect(members("x", "y"), {}, ann);
    await from.notes.save(handle, { reach: "tenant" }, ann);
    const lines = await exported(from.notes);
    const origin = { action: "import", callId: "c", actor: "main", session: "s", at: "2026-01-02T03:00:00.000Z" };
    const expiresAt = "2026-01-02T04:00:00.000Z";

    const saved: number[] = [];
    for (let statements = 0; saved.at(-1) !== 5; statements++) {
      const db = await openSqlite(":memory:");
      const { infospace, close } = await openStore(db, () => new Date(origin.at));
      const process = dying(db, statements);
      function* all(): Generator<string> {
        yield* lines;
        process.begin();
      }
      const store = createSqlInfospaceStore(process, () => new Date(origin.at));
      await importLines(all(), createImportWriter({ store, origin, expiresAt })).catch(() => {});
      saved.push(
        (await infospace.count({ kind: "note", saved: true, parts: true })) +
          (await infospace.count({ kind: "collection", saved: true })),
      );
      await close();
    }

    expect(saved.length).toBeGreaterThan(5);
    expect(new Set(saved)).toEqual(new Set([0, 5]));
  });

  test("imports only the newest of many earlier versions", async () => {
    const { notes } = await world();
    const version = (at: number) => `{"kind":"version","of":"note__1","version":${at},"content":"v${at}"}\n`;
    const versions = Array.from({ length: MAX_VERSIONS + 2 }, (_, at) => version(at + 1));
    const [header = ""] = await exported(notes);
    const lines = [header, ...versions, '{"kind":"note","id":"note__1","content":"now"}\n'];

    const counts = await notes.import([...lines, '{"kind":"end","notes":1,"collections":0}\n'], {}, ann);

    expect(counts).toMatchObject({ notes: 1, versions: MAX_VERSIONS });
    const [handle = ""] = counts.handles;
    expect(await notes.history(handle)).toHaveLength(MAX_VERSIONS + 1);
    expect(await notes.read(handle, { version: 1 })).toBe("v3");
    expect(await notes.read(handle)).toBe("now");
  });

  test("gives expired resources the lifetime of new ones", async () => {
    const lines = await sample();
    const { notes } = await world(3 * DAY_MS);

    expect(await notes.import(lines, {}, ann)).toMatchObject({ notes: 4, renewed: 2 });
    expect((await notes.list()).items).toHaveLength(3);
  });

  test("takes lines written by hand", async () => {
    const { notes } = await world();
    const lines = [
      '{"quartermaster":"notes","version":1}\n\n',
      '{"kind":"note","content":{"a":1},"name":"mine"}\n',
      '{"kind":"collection","id":"collection__1"}\n',
      '{"kind":"note","part_of":"collection__1","content":"x"}\n',
      '{"kind":"end","notes":2,"collections":1}',
    ];

    await notes.import(lines, {}, ann);

    expect((await notes.list({}, ann)).items).toMatchObject([
      { kind: "note", name: "mine", reach: "session", properties: {} },
      { kind: "collection", count: 1 },
    ]);
  });
});
