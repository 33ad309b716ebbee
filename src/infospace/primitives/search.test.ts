import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { CallContext } from "../../core/action.ts";
import type { Caller, ProgressUpdate } from "../../core/caller.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import { wordEmbedder } from "../../search/semantic/testing.ts";
import { createInfospace } from "../create-infospace.ts";
import { ada, allowOwner, bob, openTestSearch } from "../search/testing.ts";
import { searchActions } from "./search.ts";

const closers: (() => Promise<void>)[] = [];

async function opened(embedder = wordEmbedder()) {
  const space = await openTestSearch((close) => closers.unshift(close));
  const runtime = { now: () => new Date(Date.UTC(2026, 0, 1)) };
  const infospace = createInfospace({
    store: space.store,
    runtime,
    expiresInMs: 60_000,
    mayUse: allowOwner,
    note: () => {},
  });
  const actions = searchActions({
    infospace,
    search: space.searchWith({ embedder }),
    previewLimit: 1_000,
    valueLimit: 4_096,
  });
  const progress: ProgressUpdate[] = [];
  const call = async (entry: string, args: JsonObject, caller: Caller = ada) => {
    const action = actions.find((each) => each.entry === entry);
    const dialogue = { owner: "x", capabilities: {}, progress: (step: ProgressUpdate) => progress.push(step) };
    const context = { caller, callId: "call-1", signal: new AbortController().signal, dialogue };
    return (await action?.run(args, context as unknown as CallContext)) as { readonly [key: string]: Json };
  };
  return { ...space, infospace, actions, call, progress };
}

let space: Awaited<ReturnType<typeof opened>>;
beforeEach(async () => {
  space = await opened();
});
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

test("the search actions only read and have stable names", () => {
  expect(space.actions.map(({ name, effect }) => [name, effect])).toEqual([
    ["infospace__search-notes", "read"],
    ["infospace__search-collections", "read"],
    ["infospace__search-within-collection", "read"],
    ["infospace__index", "read"],
  ]);
});

describe("search-notes", () => {
  test("returns handles with passages, and how many notes were searched", async () => {
    const first = await space.addAll(ada, ["Overdue invoices from Berlin", "Weather in Lisbon"]);

    const answer = await space.call("search-notes", { query: "overdue invoices", type: "keyword" });

    expect(answer).toEqual({
      hits: [
        {
          handle: `note__${first}`,
          format: "text",
          from: "tool__list",
          score: expect.any(Number),
          passage: "Overdue invoices from Berlin",
        },
      ],
      count: 1,
      limit_reached: false,
      searched: 2,
      left: 0,
      effective: "keyword",
    });
  });

  test("reports more hits, unmatched words and a changed search type", async () => {
    await space.addAll(
      ada,
      Array.from({ length: 90 }, (_, at) => `${at % 3 === 0 ? "apple" : "plum"} ${at}`),
    );

    const answer = await space.call("search-notes", { query: "apple zeppelin" });

    expect(answer).toMatchObject({ count: 5, limit_reached: true, unmatched: ["zeppelin"], effective: "keyword" });
    expect(answer.note).toContain("infospace__index");
  });

  test("limits the excerpts, and shows the part with the words", async () => {
    await space.addAll(ada, [`${"filler ".repeat(120)}the jade dragon ${"filler ".repeat(30)}`, "jade"]);

    const { hits } = await space.call("search-notes", { query: "jade dragon", type: "keyword" });

    const [first] = hits as { passage: string }[];
    expect(first?.passage).toContain("jade dragon");
    expect(first?.passage.length).toBeLessThanOrEqual(500);
  });

  test("makes a collection of the found notes", async () => {
    const first = await space.addAll(ada, ["red apple", "plum", "green apple"]);

    const answer = await space.call("search-notes", { query: "apple", collect: true, name: "apples" });

    expect(answer.collected).toMatchObject({ kind: "collection", count: 2, name: "apples" });
    const { handle } = answer.collected as { handle: string };
    const collection = await space.infospace.collection(handle, ada);
    const items = await space.store.items(collection.id, { from: 0, limit: 10 });
    expect(items.map(({ id }) => id).sort()).toEqual([first, first + 2]);
    expect(collection.origin).toMatchObject({ action: "infospace__search-notes", callId: "call-1" });
  });

  test("makes an empty collection of no hits", async () => {
    const answer = await space.call("search-notes", { query: "zeppelin", collect: true });

    expect(answer).toMatchObject({ hits: [], count: 0, collected: { kind: "collection", count: 0 } });
  });

  test("rejects an invalid limit and a query that is too long", async () => {
    await expect(space.call("search-notes", { query: "x", limit: 51 })).rejects.toMatchObject({
      code: "invalid_arguments",
    });
    await expect(space.call("search-notes", { query: "x".repeat(10_001) })).rejects.toMatchObject({
      code: "invalid_arguments",
    });
  });

  test("an empty query lists the caller's newest notes, without the items of collections", async () => {
    const first = await space.addAll(ada, ["one", "two", "three"]);
    await space.collect(ada, ["an item"]);
    await space.add(bob, "another's");

    const answer = await space.call("search-notes", { query: " ", limit: 2 });

    expect(answer).toMatchObject({ count: 2, limit_reached: true });
    expect(answer.hits).toEqual([
      { handle: `note__${first + 2}`, format: "text", from: "tool__list", passage: "three" },
      { handle: `note__${first + 1}`, format: "text", from: "tool__list", passage: "two" },
    ]);
    expect(await space.call("search-notes", {})).toMatchObject({ count: 3, limit_reached: false });
    expect(await space.call("search-notes", {}, { ...ada, session: "s9" })).toMatchObject({ hits: [], count: 0 });
  });

  test("suggests collections if it finds no note", async () => {
    const nothing = await space.call("search-notes", { query: "zeppelin", type: "keyword" });
    const id = await space.collect(ada, ["opal"]);
    await space.collect(bob, ["ruby"]);
    const mentioned = await space.call("search-notes", { query: "zeppelin", type: "keyword" });
    const found = await space.call("search-notes", { query: "opal", type: "keyword" });

    expect(nothing).not.toHaveProperty("note");
    expect(mentioned.note).toMatch(
      new RegExp(`^There are collections, such as collection__${id}: infospace__search-collections`),
    );
    expect(found).not.toHaveProperty("note");
  });
});

describe("search-within-collection", () => {
  test("returns positions", async () => {
    const id = await space.collect(ada, ["ruby", { stone: "opal" }, "jade"]);

    const answer = await space.call("search-within-collection", { target: `collection__${id}`, query: "opal" });

    expect(answer).toMatchObject({ hits: [{ position: 1, format: "json", passage: "stone: opal" }], searched: 3 });
  });

  test("an empty query lists the first", async () => {
    const id = await space.collect(ada, ["ruby", "opal", "jade"]);

    const answer = await space.call("search-within-collection", { target: `collection__${id}`, limit: 2 });

    expect(answer).toMatchObject({
      hits: [
        { position: 0, passage: "ruby" },
        { position: 1, passage: "opal" },
      ],
      limit_reached: true,
    });
  });

  test("does not find another caller's collection, and rejects a note", async () => {
    const id = await space.collect(bob, ["opal"]);
    const note = await space.add(ada, "opal");

    const within = (target: string) => space.call("search-within-collection", { target, query: "opal" });

    await expect(within(`collection__${id}`)).rejects.toMatchObject({ code: "not_found" });
    await expect(within("collection__999")).rejects.toMatchObject({ code: "not_found" });
    await expect(within(`note__${note}`)).rejects.toMatchObject({ code: "invalid_arguments" });
  });
});

test("search-collections returns the facts of each collection", async () => {
  const id = await space.collect(ada, ["ruby", "opal"], { name: "Stones" });

  const answer = await space.call("search-collections", { query: "stones" });

  expect(answer).toMatchObject({
    hits: [{ handle: `collection__${id}`, name: "Stones", count: 2, from: "tool__list", score: 1 }],
    count: 1,
  });
});

test("search-collections lists the newest for an empty query", async () => {
  const first = await space.collect(ada, ["ruby"], { name: "Stones" });
  const second = await space.collect(ada, ["oak", "ash"], { action: "tool__trees" });
  await space.collect(bob, ["another's"]);

  const answer = await space.call("search-collections", {});

  expect(answer).toMatchObject({
    hits: [
      { handle: `collection__${second}`, count: 2, from: "tool__trees" },
      { handle: `collection__${first}`, name: "Stones", from: "tool__list" },
    ],
    count: 2,
    limit_reached: false,
  });
  expect(await space.call("search-collections", { limit: 1 })).toMatchObject({ count: 1, limit_reached: true });
});

describe("index", () => {
  test("makes semantic search possible, and reports progress", async () => {
    const id = await space.collect(
      ada,
      Array.from({ length: 100 }, (_, at) => `thing ${at}`),
    );

    const answer = await space.call("index", { target: `collection__${id}` });

    expect(answer).toEqual({ notes: 100, ready: 100, left: 0 });
    expect(space.progress.at(-1)).toMatchObject({ progress: 100, total: 100 });
    expect(await space.call("index", {})).toEqual({ notes: 100, ready: 100, left: 0 });
    const found = await space.call("search-notes", { query: "thing 7", type: "semantic" });
    expect(found.effective).toBe("semantic");
  });

  test("cannot index another caller's collection", async () => {
    const id = await space.collect(bob, ["opal"]);

    await expect(space.call("index", { target: `collection__${id}` })).rejects.toMatchObject({ code: "not_found" });
  });
});
