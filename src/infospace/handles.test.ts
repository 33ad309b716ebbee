import { describe, expect, onTestFinished, test } from "vitest";
import type { Json } from "../core/json.ts";
import { openSqlite } from "../store/drivers/sqlite.ts";
import { infospaceIn } from "../testing/infospace-places.ts";
import { createHandles, mayHoldHandles } from "./handles.ts";
import { createInfospace } from "./infospace.ts";
import { makerFor, someone } from "./testing.ts";

const maker = makerFor(someone);

async function filling(fillLimit = 10_000) {
  const db = await openSqlite(":memory:");
  onTestFinished(() => db.close());
  const { store, clock } = await infospaceIn(db);
  const infospace = createInfospace({
    store,
    runtime: { now: () => new Date(clock.at) },
    expiresInMs: 3_600_000,
    mayUse: ({ owner }, { session }) => (owner?.session === session ? "allowed" : "hidden"),
    note: () => {},
  });
  const handles = createHandles({ infospace, fillLimit });
  return {
    infospace,
    fill: async (args: unknown, asHandles?: readonly string[]) => handles.fill(someone, args, { asHandles }),
    filled: async (args: unknown) => (await handles.fill(someone, args)).args,
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

describe("what is written in the place of something kept", () => {
  test("is that, a part of it, or what it was before", async () => {
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
  ])("is a text where it is asked for as %s: %j", async (as, written, text) => {
    const { filled } = await withVersions();

    expect(await filled({ content: { ...(written as object), as } })).toEqual({ content: text });
  });

  test("may be written in a text, by itself and rightly", async () => {
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

  test("what is put in is not looked through again", async () => {
    const { infospace, filled } = await filling();
    await infospace.write(maker, { $from: "note__2" });
    await infospace.write(maker, '{"$from":"note__1"}');

    expect(await filled({ a: { $from: "note__1" } })).toEqual({ a: { $from: "note__2" } });
    expect(await filled({ a: { $from: "note__2" } })).toEqual({ a: '{"$from":"note__1"}' });
  });

  test("stands for the handle alone where that is what an action takes", async () => {
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

describe("what is meant to be one and is not", () => {
  test.each<[Json, string]>([
    [{ $from: "nonsense" }, '"nonsense" is not a handle'],
    [{ $from: "note__1", part: "n" }, '"part" is nothing that a handle has'],
    [{ $from: "note__1", path: 3 }, "path is not a text"],
    [{ $from: "note__1", version: 0 }, "version is not"],
    [{ $from: "note__1", version: "1" }, "version is not"],
    [{ $from: "note__1", as: "csv" }, "as is not one of json, jsonl, text"],
    [{ $form: "note__1" }, 'there is no "$form": did you mean "$from"'],
    [{ $From: "note__1", path: "n" }, "did you mean"],
    [{ $ref: "collection__1" }, "did you mean"],
    [{ $handle: "note__1" }, "did you mean"],
  ])("%j is an error that says where and what", async (value, problem) => {
    const { filled } = await withVersions();

    expect(mayHoldHandles(JSON.stringify({ a: [{ b: value }] }))).toBe(true);
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

test("arguments may become no longer than the limit, as a text neither", async () => {
  const { infospace, filled } = await filling(1_600);
  await infospace.collect(
    maker,
    Array.from({ length: 60 }, () => ({ content: '"quoted" "words"' })),
  );

  expect(await filled({ a: { $from: "collection__1" } })).toMatchObject({ a: expect.any(Array) });
  await expect(filled({ a: { $from: "collection__1", as: "json" } })).rejects.toMatchObject({ code: "too_large" });
});

test("plain arguments are not looked through", () => {
  expect(mayHoldHandles(JSON.stringify({ price: "5 $", path: "a.b", text: "it costs $5" }))).toBe(false);
  expect(mayHoldHandles(JSON.stringify({ a: JSON.stringify({ $from: "note__1" }) }))).toBe(true);
});
