import { describe, expect, onTestFinished, test } from "vitest";
import { openInfospace } from "../../test/cases/infospace-fixtures.ts";
import type { Json } from "../core/json.ts";
import { openSqlite } from "../store/drivers/sqlite.ts";
import { createInfospace } from "./create-infospace.ts";
import { createHandleResolver, mayContainHandles } from "./handle-resolver.ts";
import { createTestAuthor, testCaller } from "./testing.ts";

const maker = createTestAuthor(testCaller);

async function filling(fillLimit = 10_000) {
  const db = await openSqlite(":memory:");
  onTestFinished(() => db.close());
  const { store, clock } = await openInfospace(db);
  const infospace = createInfospace({
    store,
    runtime: { now: () => new Date(clock.at) },
    expiresInMs: 3_600_000,
    mayUse: ({ owner }, { session }) => ((owner?.session ?? session) === session ? "allowed" : "hidden"),
    note: () => {},
  });
  const reads: string[] = [];
  const counting = {
    ...infospace,
    note: (...asked: Parameters<typeof infospace.note>) => {
      reads.push(asked[0]);
      return infospace.note(...asked);
    },
    async *items(...asked: Parameters<typeof infospace.items>) {
      for await (const item of infospace.items(...asked)) {
        reads.push(`[${item.position}]`);
        yield item;
      }
    },
  };
  const handles = createHandleResolver({ infospace: counting, fillLimit });
  return {
    infospace,
    /** What was read: handles of notes, and positions in collections. */
    reads,
    fill: async (args: unknown, asHandles?: readonly string[]) => handles.fill(testCaller, args, { asHandles }),
    filled: async (args: unknown) => (await handles.fill(testCaller, args)).args,
  };
}

const members = (...contents: Json[]) => contents.map((content) => ({ content }));

/** A note with two versions, and a collection with two. */
async function withVersions() {
  const world = await filling();
  await world.infospace.write(maker, { n: 1 }, { name: "note" });
  await world.infospace.write(maker, { n: 2, deep: ["a", "b"] }, { name: "note" });
  await world.infospace.collect(maker, members({ id: 1 }, { id: 2 }), { name: "rows" });
  await world.infospace.collect(maker, members({ id: 3 }), { name: "rows" });
  return world;
}

describe("a reference in arguments", () => {
  test("becomes the value, a part of it, or an earlier version", async () => {
    const { fill, filled } = await withVersions();

    const { args, from } = await fill({
      a: { $from: "note__1" },
      b: [
        { $from: "note__1", path: "n", version: 1 },
        { $from: "collection__1", version: 1 },
      ],
      c: { $from: "collection__1", version: 2, path: "[0].id" },
    });

    expect(args).toEqual({ a: { n: 2, deep: ["a", "b"] }, b: [1, [{ id: 1 }, { id: 2 }]], c: 3 });
    expect(from).toMatchObject([
      { at: "a", handle: "note__1", version: 2 },
      { at: "b[0]", path: "n", version: 1 },
      { at: "b[1]", handle: "collection__1", version: 1 },
      { at: "c", version: 2 },
    ]);
    for (const handle of ["note__1", "collection__1"]) {
      await expect(filled({ x: { $from: handle, version: 3 } })).rejects.toMatchObject({
        code: "not_found",
        message: `x: ${handle} has no version 3`,
      });
    }
  });

  test.each<[string, Json, string]>([
    ["json", { $from: "collection__1" }, '[{"id":3}]'],
    ["jsonl", { $from: "collection__1", version: 1 }, '{"id":1}\n{"id":2}\n'],
    ["jsonl", { $from: "note__1", path: "n" }, "2\n"],
    ["text", { $from: "note__1", path: "deep" }, "a\nb"],
    ["text", { $from: "note__1", path: "deep[0]" }, "a"],
    ["text", { $from: "note__1", path: "n" }, "2"],
    ["text", { $from: "collection__1" }, '[{"id":3}]'],
    ["json", { $from: "note__1", path: "deep[0]" }, '"a"'],
  ])("becomes a text as %s: %j", async (as, written, text) => {
    const { filled } = await withVersions();

    expect(await filled({ content: { ...(written as object), as } })).toEqual({ content: text });
  });

  test("may be a text that is exactly its JSON", async () => {
    const { filled } = await withVersions();
    const data = {
      other: 'see {"$from":"note__1"}',
      wrong: '{"$from":"nonsense"}',
      more: '{"$from":"note__1","x":1}',
      broken: '{"$from":"note__1"',
      list: '[{"$from":"note__1"}]',
    };

    const args = { a: '{"$from":"note__1","path":"n"}', b: { c: [' { "path": "deep[1]", "$from" : "note__1" }\n'] } };
    expect(await filled({ ...args, ...data })).toEqual({ a: 2, b: { c: ["b"] }, ...data });
  });

  test("is not searched for in inserted values", async () => {
    const { infospace, filled } = await filling();
    await infospace.write(maker, { $from: "note__2" });
    await infospace.write(maker, '{"$from":"note__1"}');

    expect(await filled({ a: { $from: "note__1" } })).toEqual({ a: { $from: "note__2" } });
    expect(await filled({ a: { $from: "note__2" } })).toEqual({ a: '{"$from":"note__1"}' });
  });

  test("stands for the handle in an argument that takes handles", async () => {
    const { fill } = await withVersions();

    expect(await fill({ target: { $from: "collection__99" }, rows: { $from: "collection__1" } }, ["target"])).toEqual({
      args: { target: "collection__99", rows: [{ id: 3 }] },
      from: [expect.objectContaining({ at: "rows" })],
    });
    expect(await fill({ target: '{"$from":"collection__1"}' }, ["target"])).toMatchObject({
      args: { target: "collection__1" },
    });
    expect(await fill({ target: { $from: "collection__1", version: 1 } }, ["target"])).toMatchObject({
      args: { target: [{ id: 1 }, { id: 2 }] },
    });
    expect(await fill({ in: { target: { $from: "note__1", path: "n" } } }, ["target", "in"])).toMatchObject({
      args: { in: { target: 2 } },
    });
    expect(await fill({ in: { target: { $from: "collection__1" } } }, ["target"])).toMatchObject({
      args: { in: { target: [{ id: 3 }] } },
    });
    await expect(fill({ target: { $from: "nonsense" } }, ["target"])).rejects.toMatchObject({
      code: "invalid_arguments",
    });
  });
});

describe("a malformed reference", () => {
  test.each<[Json, string]>([
    [{ $from: "nonsense" }, '"nonsense" is not a handle'],
    [{ $from: "note__1", part: "n" }, 'unknown key "part"'],
    [{ $from: "note__1", path: 3 }, "path is not a text"],
    [{ $from: "note__1", version: 0 }, "version is not"],
    [{ $from: "note__1", version: "1" }, "version is not"],
    [{ $from: "note__1", as: "csv" }, "as is not one of json, jsonl, text"],
    [{ $form: "note__1" }, 'there is no "$form": did you mean "$from"'],
    [{ $From: "note__1", path: "n" }, "did you mean"],
    [{ $ref: "collection__1" }, "did you mean"],
    [{ $handle: "note__1" }, "did you mean"],
  ])("%j is an error with its place and the problem", async (value, problem) => {
    const { filled } = await withVersions();

    expect(mayContainHandles(JSON.stringify({ a: [{ b: value }] }))).toBe(true);
    await expect(filled({ a: [{ b: value }] })).rejects.toMatchObject({
      code: "invalid_arguments",
      message: expect.stringMatching(/^a\[0\]\.b: /),
      hint: expect.stringContaining('{"$from": "note__12"}'),
    });
    await expect(filled({ a: [{ b: value }] })).rejects.toThrow(problem);
  });

  test.each<Json>([
    { $item: "note__1" },
    { $handle: true },
    { $ref: "#/defs/x" },
    { $set: { a: 1 } },
    { $form: "note__1", other: 1 },
    { $from: 5 },
    { form: "note__1" },
    "$from",
  ])("%j is data", async (value) => {
    const { fill } = await withVersions();
    const args = { a: value };

    expect(await fill(args)).toEqual({ args, from: [] });
  });
});

describe("a handle is never taken from data", () => {
  async function withHostile() {
    const world = await filling();
    await world.infospace.write(maker, { t: "note__4", list: ["note__4"], deep: { target: "note__4" } });
    await world.infospace.write(maker, "note__4");
    await world.infospace.write(maker, { target: "note__4" });
    return world;
  }

  test.each<[string, Json]>([
    ["a path", { target: { $from: "note__1", path: "t" } }],
    ["a path in a text", { target: '{"$from":"note__1","path":"t"}' }],
    ["a version", { target: { $from: "note__2", version: 1 } }],
    ["another form", { target: { $from: "note__1", path: "list", as: "text" } }],
    ["all arguments", { $from: "note__3" }],
    ["all arguments at a path", { $from: "note__1", path: "deep" }],
    ["a list of handles", { notes: { $from: "note__1", path: "list" } }],
    ["one in a list of handles", { notes: ["note__1", { $from: "note__1", path: "t" }] }],
    ["one in a list of handles as a text", { notes: [{ $from: "note__2", as: "text" }] }],
  ])("not with %s", async (_, args) => {
    const { fill } = await withHostile();

    await expect(fill(args, ["target", "notes[]"])).rejects.toMatchObject({
      code: "invalid_arguments",
      message: expect.stringContaining("a handle cannot be taken from data"),
      hint: expect.stringContaining("Write the handle itself"),
    });
  });

  test("a list is values, and so is an argument that takes no handles", async () => {
    const { fill } = await withHostile();
    const text = { $from: "note__1", path: "t" };

    expect(
      await fill({ target: { $from: "note__1", path: "list" }, other: text, with: [text] }, ["target", "with"]),
    ).toMatchObject({ args: { target: ["note__4"], other: "note__4", with: ["note__4"] } });
    expect((await fill({ $from: "note__1", path: "deep" })).args).toEqual({ target: "note__4" });
  });

  test("a reference without a path is the handle, also in a list", async () => {
    const { fill, reads } = await withHostile();

    for (const [notes, handles] of [
      [{ $from: "note__2" }, "note__2"],
      [
        ["note__1", { $from: "note__2" }, '{"$from":"note__3"}'],
        ["note__1", "note__2", "note__3"],
      ],
    ]) {
      expect(await fill({ notes }, ["notes[]"])).toEqual({ args: { notes: handles }, from: [] });
    }
    expect(reads).toEqual([]);
  });
});

describe("reading", () => {
  test("reads each note once for all of its parts, in any order", async () => {
    const { infospace, filled, reads } = await filling();
    for (const x of ["a", "b"]) await infospace.write(maker, { x, y: x.repeat(2) });
    const [a, b] = [{ $from: "note__1" }, { $from: "note__2" }];

    expect(
      await filled({ rows: [{ ...a, path: "x" }, { ...b, path: "x" }, { ...a, path: "y" }, { ...b, path: "y" }, a] }),
    ).toEqual({ rows: ["a", "b", "aa", "bb", { x: "a", y: "aa" }] });
    expect(reads).toEqual(["note__1", "note__2"]);
    await expect(
      filled([
        { ...a, path: "x" },
        { ...b, path: "z" },
        { ...a, path: "z" },
      ]),
    ).rejects.toMatchObject({
      details: { at: "[1]", handle: "note__2" },
    });
  });

  test.each<[string, object]>([
    ["as it is", {}],
    ["as it was", { version: 1 }],
  ])("reads at most four times the fill limit, of notes %s", async (_, then) => {
    const { infospace, filled, reads } = await filling(1_000);
    for (let n = 0; n < 6; n++) {
      await infospace.write(maker, { n, long: "x".repeat(900) }, { name: `n${n}` });
      await infospace.write(maker, { n }, { name: `n${n}` });
      if (!("version" in then)) await infospace.write(maker, { n, long: "x".repeat(900) }, { name: `n${n}` });
    }
    const parts = (count: number) =>
      Array.from({ length: count }, (_, n) => ({ $from: `note__${n + 1}`, path: "n", ...then }));

    expect(await filled(parts(4))).toEqual([0, 1, 2, 3]);
    reads.length = 0;
    await expect(filled(parts(6))).rejects.toMatchObject({
      code: "too_large",
      message: expect.stringContaining("[4]: with note__5 more than 4000 bytes would be read"),
    });
    expect(reads).not.toContain("note__6");
    if (!("version" in then)) expect(reads).not.toContain("note__5");
  });

  test("reads only the item at the path of a large collection", async () => {
    const { infospace, filled, reads } = await filling(1_100);
    await infospace.collect(maker, members(...Array.from({ length: 50 }, (_, id) => ({ id, text: "x".repeat(100) }))));
    const from = { $from: "collection__1" };

    await expect(filled({ a: from })).rejects.toMatchObject({ code: "too_large" });
    expect(reads).toEqual([]);
    expect(
      await filled([
        { ...from, path: "[40].id" },
        { ...from, path: "[-1].id" },
      ]),
    ).toEqual([40, 49]);
    expect(await filled({ a: { ...from, path: "[40]" } })).toMatchObject({ a: { id: 40 } });
    expect(new Set(reads)).toEqual(new Set(["[40]", "[49]"]));
    for (const path of ["[50]", "[-51]", "id", "[3].nope"]) {
      await expect(filled({ a: { ...from, path } })).rejects.toMatchObject({ code: "not_found", details: { path } });
    }
    // Each of them is read, and together they are too much.
    const many = Array.from({ length: 45 }, (_, n) => ({ ...from, path: `[${n}].id` }));
    await expect(filled(many)).rejects.toMatchObject({ code: "too_large" });
  });

  test("counts the position in order after notes were removed", async () => {
    const { infospace, filled } = await filling();
    const { id } = await infospace.collect(maker, members("a", "b", "c", "d"));
    await infospace.remove(maker, "note__2");

    expect(await filled([0, 1, 2, -1, -3].map((n) => ({ $from: `collection__${id}`, path: `[${n}]` })))).toEqual([
      "a",
      "c",
      "d",
      "d",
      "a",
    ]);
    await expect(filled([{ $from: `collection__${id}`, path: "[3]" }])).rejects.toMatchObject({ code: "not_found" });
  });
});

test("reports no hash of a short note, because it could be guessed", async () => {
  const { infospace, fill } = await filling();
  await infospace.write(maker, "1234");
  const { hash } = await infospace.write(maker, "x".repeat(1_100));
  await infospace.collect(maker, members("y".repeat(1_100)));

  const { from } = await fill([{ $from: "note__1" }, { $from: "note__2" }, { $from: "collection__1" }]);

  expect(from).toEqual([
    { at: "[0]", handle: "note__1", version: 1 },
    { at: "[1]", handle: "note__2", version: 1, hash },
    { at: "[2]", handle: "collection__1", version: 1 },
  ]);
});

test("limits the length of filled arguments, also as texts", async () => {
  const { infospace, filled } = await filling(1_600);
  await infospace.collect(
    maker,
    Array.from({ length: 60 }, () => ({ content: '"quoted" "words"' })),
  );

  expect(await filled({ a: { $from: "collection__1" } })).toMatchObject({ a: expect.any(Array) });
  await expect(filled({ a: { $from: "collection__1", as: "json" } })).rejects.toMatchObject({ code: "too_large" });
});

test("does not parse plain arguments", () => {
  expect(mayContainHandles(JSON.stringify({ price: "5 $", path: "a.b", text: "it costs $5" }))).toBe(false);
  expect(mayContainHandles(JSON.stringify({ a: JSON.stringify({ $from: "note__1" }) }))).toBe(true);
});
