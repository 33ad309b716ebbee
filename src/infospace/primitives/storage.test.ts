import { describe, expect, test } from "vitest";
import type { CallContext } from "../../core/action.ts";
import type { QmError } from "../../core/errors.ts";
import type { JsonObject } from "../../core/json.ts";
import { VALUE_LIMIT } from "../../core/outcome.ts";
import { createTestAuthor, testCaller } from "../testing.ts";
import { storageActions } from "./storage.ts";
import { createTestPrimitives } from "./testing.ts";

const records = Array.from({ length: 12 }, (_, id) => ({ id, title: `t${id}` }));

async function withRecords() {
  const space = createTestPrimitives(storageActions);
  const made = await space.run("create-collection", { items: records });
  return { ...space, made, handle: String(made.handle) };
}

describe("create-note and create-collection", () => {
  test("return the handle and a preview", async () => {
    const { run, infospace } = createTestPrimitives(storageActions);

    expect(await run("create-note", { value: { a: [1] }, name: "mine" })).toMatchObject({
      handle: "note__1",
      name: "mine",
      first: { a: [1] },
      whole: true,
    });
    expect(await run("create-note", { value: null })).toMatchObject({ handle: "note__2" });
    expect(infospace.notes.get(1)?.content).toEqual({ a: [1] });
    await expect(run("create-note", {})).rejects.toMatchObject({ code: "invalid_arguments" });
  });

  test("take items as new notes, and notes by handle, all notes of a collection", async () => {
    const { run, infospace } = createTestPrimitives(storageActions);
    await run("create-note", { value: "kept" });
    const pair = await run("create-collection", { items: ["a", "b"] });

    const made = await run("create-collection", {
      items: [{ new: true }, "note 1"],
      notes: ["note__1", String(pair.handle)],
    });

    expect(infospace.contents(String(made.handle))).toEqual([{ new: true }, "note 1", "kept", "a", "b"]);
    expect(made).toMatchObject({ count: 5, types: { object: 1, string: 4 } });
    expect(made).not.toHaveProperty("note");
    expect(infospace.notes.size).toBe(5);
    await expect(run("create-collection", { name: "empty" })).rejects.toMatchObject({
      code: "invalid_arguments",
      message: "there are neither items nor notes",
    });
  });

  test("store a handle in items as a text, and say so", async () => {
    const { run, infospace, handle } = await withRecords();
    await run("create-note", { value: "secret" });

    const made = await run("create-collection", { items: ["x", "note__14", handle] });
    expect(infospace.contents(String(made.handle))).toEqual(["x", "note__14", handle]);
    expect(made.note).toBe("items are values: note__14 was kept as a text. notes takes handles.");
    const more = await run("add", { target: handle, items: ["note__14"] });
    expect(infospace.contents(handle).at(-1)).toBe("note__14");
    expect(more).toMatchObject({ added: 1, note: expect.stringContaining("notes takes handles") });
    await expect(run("create-collection", { items: handle })).rejects.toMatchObject({
      code: "invalid_arguments",
      hint: expect.stringContaining("Handles go into notes"),
    });
  });

  test("copy a collection without copying its notes", async () => {
    const { run, infospace, handle } = await withRecords();
    const notes = infospace.notes.size;

    const copy = await run("create-collection", { notes: handle, name: "copy" });

    expect(copy.handle).not.toBe(handle);
    expect(infospace.contents(String(copy.handle))).toEqual(records);
    expect(infospace.notes.size).toBe(notes);
  });

  test("reject an unknown handle without making anything", async () => {
    const { run, infospace } = createTestPrimitives(storageActions);

    for (const notes of [["note__99"], ["collection__99"], "collection__99", "no handle"]) {
      await expect(run("create-collection", { items: ["x"], notes })).rejects.toMatchObject({ code: "not_found" });
    }
    expect(infospace.notes.size).toBe(0);
    expect(await run("create-collection", { items: [] })).toMatchObject({ count: 0, whole: true });
  });
});

describe("arguments", () => {
  const { infospace } = createTestPrimitives(storageActions);
  const actions = storageActions({ infospace, search: undefined as never, previewLimit: 1_000, valueLimit: 4_096 });

  test.each(actions.map((action) => [action.entry, action] as const))(
    "%s: examples that fit, and nothing else",
    async (_, action) => {
      const context = { caller: testCaller, callId: "1", signal: new AbortController().signal } as CallContext;
      expect(action.examples).not.toEqual([]);
      for (const { args } of action.examples) {
        const outcome = await Promise.resolve(action.run(args, context)).catch((thrown: QmError) => thrown.code);
        expect(outcome).not.toBe("invalid_arguments");
        await expect(async () => action.run({ ...args, limit: 3 }, context)).rejects.toMatchObject({
          code: "invalid_arguments",
        });
      }
      const { properties } = action.inputSchema as { properties: JsonObject };
      const named = Object.keys(properties).filter((name) => name === "target" || name === "notes");
      expect(action.handleArguments ?? []).toEqual(named.map((name) => (name === "notes" ? "notes[]" : name)));
      expect(action.tags).toEqual(action.entry === "remove" ? ["destructive"] : []);
      expect(JSON.stringify(action.inputSchema).length).toBeLessThan(1_300);
    },
  );

  test.each<[string, string]>([
    ["a JSON list", ' [{"id":1},{"id":2}] '],
    ["JSON lines", '{"id":1}\n{"id":2}\n'],
  ])("a text that is %s is that list, with handles in it as texts", async (_, text) => {
    const { run, infospace, handle } = await withRecords();

    const made = await run("create-collection", { items: text });
    expect(infospace.contents(String(made.handle))).toEqual([{ id: 1 }, { id: 2 }]);
    expect(made).toMatchObject({ count: 2, keys: { id: "number" } });
    expect(await run("add", { target: handle, items: text })).toMatchObject({ added: 2 });
    const named = await run("create-collection", { items: '["note__2"]' });
    expect(infospace.contents(String(named.handle))).toEqual(["note__2"]);
  });

  test("rejects any other long text with a hint", async () => {
    const { run } = createTestPrimitives(storageActions);

    for (const items of ["word ".repeat(100), `{"a":"${"x".repeat(500)}"}`]) {
      await expect(run("create-collection", { items })).rejects.toMatchObject({
        code: "invalid_arguments",
        message: `items is a text of ${items.length} characters and not a list`,
        hint: expect.stringContaining("infospace__split"),
      });
    }
  });
});

describe("save, size, add, remove, head", () => {
  test("save defaults to the reach of the actor", async () => {
    const { run, handle } = await withRecords();

    expect(await run("size", { target: handle })).toHaveProperty("expires_at");
    expect(await run("save", { target: handle, name: "all" })).toMatchObject({
      saved: true,
      reach: "actor",
      name: "all",
    });
    expect(await run("size", { target: handle })).not.toHaveProperty("expires_at");
    expect(await run("save", { target: handle, reach: "tenant" })).toMatchObject({ reach: "tenant" });
    await expect(run("save", { target: handle, reach: "world" })).rejects.toMatchObject({ code: "invalid_arguments" });
    await expect(run("save", { target: "note__99" })).rejects.toMatchObject({ code: "not_found" });
  });

  test("save lists namesakes", async () => {
    const { run, handle } = await withRecords();
    const other = await run("create-note", { value: 1, name: "all" });

    expect(await run("save", { target: handle, name: "all" })).toMatchObject({ also_called: [other.handle] });
    expect(await run("save", { target: handle, name: "only" })).not.toHaveProperty("also_called");
    expect(await run("save", { target: handle })).not.toHaveProperty("also_called");
  });

  test("size counts characters, items and fields", async () => {
    const { run, handle } = await withRecords();
    await run("create-note", { value: "one\ntwo" });
    await run("create-note", { value: { a: 1, b: 2 } });
    await run("create-note", { value: [1, 2, 3] });
    const notes = [14, 15, 16].map((id) => run("size", { target: `note__${id}` }));

    expect(await run("size", { target: handle })).toMatchObject({ count: 12 });
    expect(await Promise.all(notes)).toMatchObject([{ characters: 7, lines: 2 }, { fields: 2 }, { items: 3 }]);
    expect(await run("size", { target: [1, 2] })).toEqual({ count: 2 });
  });

  test("add appends, even a collection to itself", async () => {
    const { run, infospace, handle } = await withRecords();

    expect(await run("add", { target: handle, items: [{ id: 12 }] })).toMatchObject({ added: 1, count: 13 });
    expect(await run("add", { target: handle, notes: handle })).toMatchObject({ added: 13, count: 26 });
    expect(infospace.contents(handle).slice(12, 15)).toEqual([{ id: 12 }, records[0], records[1]]);
    await expect(run("add", { target: handle, notes: ["note__999"] })).rejects.toMatchObject({ code: "not_found" });
  });

  test("remove takes notes out by handle, or removes the collection", async () => {
    const { run, infospace, handle } = await withRecords();

    expect(await run("remove", { target: handle, notes: ["note__2", "note__3"] })).toMatchObject({
      removed: 2,
      count: 10,
    });
    expect(infospace.contents(handle)).toEqual(records.filter(({ id }) => id !== 0 && id !== 1));
    expect(infospace.notes.has(2)).toBe(true);
    await expect(run("remove", { target: handle, notes: ["note__999"] })).rejects.toMatchObject({ code: "not_found" });
    await expect(run("remove", { target: handle, notes: [handle] })).rejects.toMatchObject({ code: "not_found" });
    expect(await run("remove", { target: handle })).toMatchObject({ removed: { collections: 1 } });
    await expect(run("size", { target: handle })).rejects.toMatchObject({ code: "not_found" });
  });

  test("head makes a collection of the same notes, and reports whether there are more", async () => {
    const { run, infospace, handle } = await withRecords();
    const notes = infospace.notes.size;

    const head = await run("head", { target: handle, count: 3 });

    expect(infospace.contents(String(head.handle))).toEqual(records.slice(0, 3));
    expect(head).toMatchObject({ count: 3, total: 12, more: true, whole: true });
    expect(infospace.notes.size).toBe(notes);
    expect(await run("head", { target: handle, count: 50 })).toMatchObject({ count: 12, more: false });
    expect(await run("head", { target: handle, count: 0 })).toMatchObject({ count: 0, more: true });
    expect(await run("head", { target: [1, 2, 3], count: 2 })).toMatchObject({ count: 2, first: [1, 2] });
  });
});

describe("load", () => {
  test("returns a text in parts that together are the whole text", async () => {
    const { run } = createTestPrimitives(storageActions);
    const text = Array.from({ length: 900 }, (_, line) => `line ${line} "😀"\u0000`).join("\n");
    await run("create-note", { value: text });

    let read = "";
    for (let from = 0, more = true; more; ) {
      const part = await run("load", { target: "note__1", from });
      expect(JSON.stringify(part).length).toBeLessThanOrEqual(VALUE_LIMIT);
      expect(part).toMatchObject({ from, total: text.length });
      expect(Buffer.from(String(part.text)).toString()).toBe(part.text);
      read += part.text;
      from = Number(part.to);
      more = part.more === true;
      expect("next" in part).toBe(more);
    }

    expect(read).toBe(text);
    expect(await run("load", { target: "note__1", from: 5, to: 8 })).toMatchObject({
      text: text.slice(5, 8),
      more: true,
    });
    expect(await run("load", { target: "note__1", from: 10 ** 9 })).toMatchObject({ text: "", more: false });
  });

  test.each([256, 400, 700, 4_096])(
    "where %i characters are shown, no answer is longer, and all is read",
    async (limit) => {
      const { run, infospace } = createTestPrimitives(storageActions, {}, limit);
      const text = Array.from({ length: 60 }, (_, line) => `line ${line} "😀"\u0000`).join("\n");
      const name = "a long name ".repeat(10);
      await run("create-note", { value: text, name });
      await run("create-note", { value: { deep: { "a list": ["one", ...text.split("\n")] } }, name });
      await infospace.writeFile(createTestAuthor(testCaller), { bytes: Buffer.from(text), mediaType: "image/png" });
      const { handle } = await run("create-collection", { items: records, name });
      const fits = (part: JsonObject) => {
        expect(JSON.stringify(part).length).toBeLessThanOrEqual(limit);
        return part;
      };
      const read = async (asked: JsonObject, part: (answer: JsonObject) => unknown[]) => {
        const all: unknown[] = [];
        for (let [from, more] = [0, true]; more; ) {
          const answer = fits(await run("load", { ...asked, from }));
          const before = from;
          all.push(...part(answer));
          [from, more] = [Number(answer.to), answer.more === true];
          expect(from).toBeGreaterThan(before);
        }
        return all;
      };

      expect((await read({ target: "note__1" }, (answer) => [answer.text])).join("")).toBe(text);
      const list = await read({ target: "note__2", path: 'deep["a list"]' }, ({ items }) => items as unknown[]);
      expect(list).toEqual(["one", ...text.split("\n")]);
      const bytes = await read({ target: "note__3" }, ({ base64 }) => [Buffer.from(String(base64), "base64")]);
      expect(Buffer.concat(bytes as Buffer[]).toString()).toBe(text);
      const items = await read({ target: String(handle) }, (answer) =>
        (answer.items as JsonObject[]).map(({ value }) => value),
      );
      expect(items).toEqual(records);
      for (const asked of [{ target: "note__2" }, { target: "note__3" }, { target: handle as string, path: "[0]" }]) {
        fits(await run("load", asked));
      }
      fits(await run("head", { target: String(handle), count: 3 }));
    },
  );

  test("returns five items of a collection by default, each with its handle", async () => {
    const { run, handle } = await withRecords();

    const first = await run("load", { target: handle });

    expect(first).toMatchObject({ from: 0, to: 5, total: 12, more: true });
    expect(first.items).toEqual(records.slice(0, 5).map((value, index) => ({ handle: `note__${index + 2}`, value })));
    expect(first.next).toBe(`infospace__load {"target":"${handle}","from":5}`);
    expect(await run("load", { target: handle, from: 10, to: 99 })).toMatchObject({ from: 10, to: 12, more: false });
    expect(await run("load", { target: handle, from: 3, to: 3 })).toMatchObject({ items: [], more: true });
  });

  test("returns as many long items as fit, and at least a part of the first", async () => {
    const { run } = createTestPrimitives(storageActions);
    const { handle } = await run("create-collection", {
      items: ["a".repeat(9_000), "b".repeat(2_000), "c".repeat(2_000), "d".repeat(2_000)],
    });

    const first = await run("load", { target: String(handle) });
    expect(first).toMatchObject({ to: 1, more: true, items: [{ handle: "note__2", cut: true }] });
    const next = await run("load", { target: String(handle), from: 1 });
    expect(next).toMatchObject({ from: 1, to: 2, items: [{ value: "b".repeat(2_000) }] });
    for (const part of [first, next]) expect(JSON.stringify(part).length).toBeLessThanOrEqual(VALUE_LIMIT);
  });

  test("skips the positions of removed notes only", async () => {
    const { run, infospace, handle } = await withRecords();
    for (const target of ["note__2", "note__6", "note__12"]) await run("remove", { target });
    const left = records.filter(({ id }) => ![0, 4, 10].includes(id));

    const read: unknown[] = [];
    for (let from = 0, more = true; more; ) {
      const part = await run("load", { target: handle, from });
      expect(part.total).toBe(9);
      read.push(...(part.items as JsonObject[]).map(({ value }) => value));
      from = Number(part.to);
      more = part.more === true;
    }

    expect(read).toEqual(left);
    expect(await run("load", { target: handle, path: "[0].id" })).toMatchObject({ value: 1 });
    expect(await run("load", { target: handle, path: "[-1].id" })).toMatchObject({ value: 11 });
    const copy = await run("create-collection", { notes: handle });
    expect(infospace.contents(String(copy.handle))).toEqual(left);
  });

  test("returns the value at a path of a note or a collection", async () => {
    const { run, handle } = await withRecords();
    await run("create-note", { value: { items: records, deep: { text: "abcdef" }, n: 5 } });

    expect(await run("load", { target: "note__14", path: "n" })).toMatchObject({ value: 5, more: false });
    expect(await run("load", { target: "note__14", path: "deep.text", from: 2, to: 4 })).toMatchObject({ text: "cd" });
    expect(await run("load", { target: "note__14", path: "items", from: 4 })).toMatchObject({
      items: records.slice(4, 9),
      total: 12,
      more: true,
      next: 'infospace__load {"target":"note__14","path":"items","from":9}',
    });
    expect(await run("load", { target: handle, path: "[-1].title" })).toMatchObject({ text: "t11" });
    await expect(run("load", { target: handle, path: "title" })).rejects.toMatchObject({ code: "invalid_arguments" });
    await expect(run("load", { target: handle, path: "[12]" })).rejects.toMatchObject({ code: "not_found" });
    await expect(run("load", { target: handle, path: "[-13]" })).rejects.toMatchObject({ code: "not_found" });
    await expect(run("load", { target: "note__14", path: "items[0].nope" })).rejects.toMatchObject({
      code: "not_found",
      message: expect.stringContaining("id, title"),
    });
  });

  test("lists the fields of an object that is too long", async () => {
    const { run } = createTestPrimitives(storageActions);
    await run("create-note", { value: { body: "x".repeat(9_000), n: 1 } });

    const loaded = await run("load", { target: "note__1" });

    expect(loaded).toMatchObject({ total: 2, more: true, keys: { body: "string of 9000 characters", n: "number" } });
  });

  test("describes a file, and returns bytes only for a range", async () => {
    const { run, infospace } = createTestPrimitives(storageActions);
    const bytes = Buffer.from(Array.from({ length: 9_000 }, (_, index) => index % 251));
    await infospace.writeFile(createTestAuthor(testCaller), { bytes, mediaType: "image/png" });

    const about = await run("load", { target: "note__1" });
    expect(about).toMatchObject({ media_type: "image/png", size: 9_000, total: 9_000, more: true });
    expect(about).not.toHaveProperty("base64");
    expect(about.next).toBe('infospace__load {"target":"note__1","from":0}');
    const all = await run("create-collection", { notes: ["note__1", "note__1"] });
    expect((await run("load", { target: String(all.handle) })).items).toEqual(
      ["note__1", "note__1"].map((handle) => ({
        handle,
        value: { media_type: "image/png", size: 9_000 },
        cut: true,
      })),
    );
    const part = await run("load", { target: "note__1", from: 10, to: 20 });
    expect(Buffer.from(String(part.base64), "base64")).toEqual(bytes.subarray(10, 20));
    const long = await run("load", { target: "note__1", from: 0 });
    expect(JSON.stringify(long).length).toBeLessThanOrEqual(VALUE_LIMIT);
    expect(long).toMatchObject({ more: true });
  });

  test.each<[string, JsonObject]>([
    ["negative", { from: -5 }],
    ["negative to the end", { to: -1 }],
    ["reversed", { from: 5, to: 2 }],
    ["fractional", { from: 0.5 }],
  ])("a %s slice is an error", async (_, slice) => {
    const { run, handle } = await withRecords();

    await expect(run("load", { target: handle, ...slice })).rejects.toMatchObject({ code: "invalid_arguments" });
  });

  test("rejects a range of a value without order", async () => {
    const { run, handle } = await withRecords();

    await expect(run("load", { target: handle, path: "[0]", from: 1 })).rejects.toMatchObject({
      code: "invalid_arguments",
    });
  });

  test("rejects an unknown handle and another caller's", async () => {
    const { run, infospace } = createTestPrimitives(storageActions);
    await infospace.write(createTestAuthor({ ...testCaller, session: "other" }), "secret");

    for (const target of ["note__1", "note__7", "collection__1", "nonsense"]) {
      await expect(run("load", { target })).rejects.toMatchObject({ code: "not_found" });
    }
  });
});
