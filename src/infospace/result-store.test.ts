import { describe, expect, test } from "vitest";
import type { Content } from "../core/handler-result.ts";
import { Streamed } from "../core/handler-result.ts";
import type { Json, JsonObject } from "../core/json.ts";
import { createSampler } from "./preview.ts";
import { createResultStore, type StoredResult } from "./result-store.ts";
import { createMemoryInfospace, createTestAuthor, testCaller } from "./testing.ts";

const LIMIT = 4_096;
const maker = createTestAuthor(testCaller);

function keeping(given: { previewLimit?: number; sees?: (name: string) => boolean } = {}) {
  const { previewLimit = 1_200, sees = () => true } = given;
  const infospace = createMemoryInfospace();
  const keeper = createResultStore({ infospace, previewLimit, sees });
  return {
    infospace,
    keeper,
    async keep(data: unknown, content?: Content): Promise<StoredResult | undefined> {
      const media = (content?.blocks ?? []).reduce(
        (sum, { data }) => sum + (typeof data === "string" ? data.length : 0),
        0,
      );
      return keeper.store({ data, content, size: (JSON.stringify(data) ?? "null").length + media }, maker, LIMIT);
    },
  };
}

const records = Array.from({ length: 200 }, (_, id) => ({ id, title: `Issue ${id}`, open: id % 2 === 0 }));

const numbers = Array.from({ length: 2_000 }, (_, n) => n);

describe("storing", () => {
  test("stores nothing within the limit", async () => {
    const { keep, infospace } = keeping();

    expect(await keep("x".repeat(LIMIT))).toBeUndefined();
    expect(await keep({ a: 1 })).toBeUndefined();
    expect(await keep("\n".repeat(LIMIT))).toBeUndefined();
    expect(infospace.notes.size).toBe(0);
  });

  test("stores a list of records as a collection", async () => {
    const { keep, infospace } = keeping();

    const kept = await keep(records);

    expect(kept).toMatchObject({ kind: "collection", count: 200 });
    expect(infospace.contents(kept?.handle ?? "")).toEqual(records);
    expect(kept?.shown).toMatchObject({
      handle: kept?.handle,
      count: 200,
      keys: { id: "number", title: "string", open: "boolean" },
      first: expect.arrayContaining([{ id: 0, title: "Issue 0", open: true }]),
    });
  });

  test.each<[string, unknown, unknown]>([
    ["a list with one record in it", [{ body: "x".repeat(5_000) }], [{ body: "x".repeat(5_000) }]],
    ["a list of lists", [[1, "x".repeat(5_000)], [2]], [[1, "x".repeat(5_000)], [2]]],
    ["a list where a few records are missing", [...records, null, 1], [...records, null, 1]],
    ["a list of texts", ["x".repeat(3_000), "y".repeat(3_000)], ["x".repeat(3_000), "y".repeat(3_000)]],
    ["a text that is a JSON list", JSON.stringify(records), records],
    ["a text that is JSON lines", records.map((record) => JSON.stringify(record)).join("\n"), records],
    ["a record with nothing but the text of a JSON list", { content: JSON.stringify(records) }, records],
    [
      "a record with nothing but JSON lines, itself a text",
      JSON.stringify({ content: records.map((record) => JSON.stringify(record)).join("\n") }),
      records,
    ],
    [
      "values as JSON has them",
      [{ at: new Date(0), gone: undefined, x: "x".repeat(5_000) }, undefined],
      [{ at: "1970-01-01T00:00:00.000Z", x: "x".repeat(5_000) }, null],
    ],
  ])("%s is a collection", async (_, data, contents) => {
    const { keep, infospace } = keeping();

    const kept = await keep(data);

    expect(kept?.kind).toBe("collection");
    expect(infospace.contents(kept?.handle ?? "")).toEqual(contents);
  });

  test.each<[string, unknown, string, unknown]>([
    ["a text", "hello ".repeat(1_000), "text", "hello ".repeat(1_000)],
    ["an object", { items: records }, "json", { items: records }],
    ["a text that is a JSON object", JSON.stringify({ items: records }), "json", { items: records }],
    ["a record with more than that", { content: JSON.stringify(records), size: 1 }, "json", undefined],
    ["a record with a text that is one JSON object", { content: JSON.stringify({ records }) }, "json", undefined],
    ["a list of numbers", numbers, "json", numbers],
    ["a text that is a JSON list of numbers", JSON.stringify(numbers), "json", numbers],
    ["a record with nothing but the text of one", { content: JSON.stringify(numbers) }, "json", undefined],
    ["a list of truths and nothing", numbers.map((n) => (n % 2 ? null : true)), "json", undefined],
    ["a list of hardly any records", [...numbers, { id: 1 }], "json", undefined],
    ["a list with one text in it", ["x".repeat(5_000)], "json", ["x".repeat(5_000)]],
    [
      "a text with digits that a number would lose",
      `[${"9007199254740993,".repeat(300)}1]`,
      "text",
      `[${"9007199254740993,".repeat(300)}1]`,
    ],
  ])("%s is one note", async (_, data, format, content) => {
    const { keep, infospace } = keeping();

    const kept = await keep(data);

    expect(kept).toMatchObject({ kind: "note" });
    expect([...infospace.notes.values()]).toEqual([expect.objectContaining({ format, content: content ?? data })]);
  });

  test("counts empty lines between JSON lines", async () => {
    const kept = await keeping().keep(records.map((record) => JSON.stringify(record)).join("\n\n"));

    expect(kept?.shown).toMatchObject({ count: 200, empty_lines: 199 });
  });
});

describe("the answer for the model", () => {
  test("says how to use the result, naming only visible actions", async () => {
    const all = await keeping().keep(records);
    expect(all?.shown.next).toBe(
      `Give {"$from":"${all?.handle}"} or {"$from":"${all?.handle}","path":"[0].id"} as an argument of any action. Narrow it with infospace__filter-structured, infospace__project or infospace__head. Read it with infospace__load.`,
    );

    const some = await keeping({ sees: (name) => name === "infospace__head" }).keep(records);
    expect(some?.shown.next).toContain("Narrow it with infospace__head.");
    expect(some?.shown.next).not.toMatch(/load|project|filter/);

    const none = await keeping({ sees: () => false }).keep(records);
    expect(none?.shown.next).not.toContain("infospace__");
  });

  test("says how to make a collection of a list of numbers", async () => {
    const kept = await keeping().keep(numbers);

    expect(kept?.shown).toMatchObject({ items: 2_000, types: { number: 2_000 } });
    expect(kept?.shown.next).toContain(`Make a collection of it with infospace__split {"target":"${kept?.handle}"}.`);
  });

  test("says how to make a collection of an object with a long list", async () => {
    const kept = await keeping().keep({ few: [1, 2], "all items": records });

    expect(kept?.shown.next).toContain(`infospace__split {"target":"${kept?.handle}","path":"[\\"all items\\"]"}`);
    expect(kept?.shown.keys).toMatchObject({ "all items": "array of 200 objects {id, title, open}" });
  });

  test.each<[string, unknown, string | undefined, Json | undefined]>([
    [
      "a text that is a JSON list",
      { path: "/a/b.json", content: JSON.stringify(records), mtime: 5 },
      '"path":"content"',
      { content: "text, JSON array of 200 objects {id, title, open}" },
    ],
    [
      "a text that is JSON lines",
      { path: "/a", content: records.map((each) => JSON.stringify(each)).join("\n") },
      '"path":"content"',
      { content: "text, JSON lines: object {id, title, open}" },
    ],
    [
      "a text that is a JSON object",
      { path: "/a", content: JSON.stringify({ next: null, records }) },
      '"path":"content"',
      { content: "text, JSON object {next, records}" },
    ],
    ["a text of lines", { path: "/a", content: "one line\n".repeat(900) }, '"path":"content"', undefined],
    [
      "a list farther in",
      { path: "/a", data: { deep: { rows: records } } },
      '"path":"data.deep.rows"',
      { "data.deep.rows": "array of 200 objects {id, title, open}" },
    ],
    [
      "a list in a list of one",
      { results: [{ rows: records }] },
      '"path":"results[0].rows"',
      { "results[0].rows": "array of 200 objects {id, title, open}" },
    ],
    ["a list too far in", { a: { b: { c: { d: { rows: records } } } } }, undefined, undefined],
    ["one long text", { path: "/a", content: "word ".repeat(2_000) }, undefined, undefined],
    [
      "nothing that is larger than the rest",
      Object.fromEntries(Array.from({ length: 9 }, (_, n) => [`f${n}`, "a line\n".repeat(150)])),
      undefined,
      undefined,
    ],
  ])("describes an object with %s", async (_, data, split, inside) => {
    const { handle = "", shown } = (await keeping().keep(data)) ?? {};
    const call = `{"target":"${handle}",${split}}`;

    if (split === undefined) expect(shown?.next).not.toMatch(/infospace__(split|coerce)/);
    else expect(shown?.next).toContain(`Make a collection of it with infospace__split ${call}.`);
    expect(shown?.next).not.toContain('"path":"path"');
    expect(shown?.inside).toEqual(inside);
    expect(JSON.stringify(shown).length).toBeLessThanOrEqual(1_200);
  });

  test("shows first that the action has cut its own answer", async () => {
    const kept = await keeping({ previewLimit: 700 }).keep({
      content: "x".repeat(20_000),
      entries: records,
      path: "/a",
      truncated: true,
      next_offset: 20_000,
    });

    expect(Object.entries(kept?.shown.first as object).slice(0, 3)).toEqual([
      ["path", "/a"],
      ["truncated", true],
      ["next_offset", 20_000],
    ]);
    expect(Object.keys(kept?.shown.keys as object).slice(0, 3)).toEqual(["path", "truncated", "next_offset"]);
  });

  test("describes files without their bytes", async () => {
    const { infospace } = keeping();
    const bytes = Buffer.alloc(9_000, 7);
    const { id } = await infospace.writeFile(maker, { bytes, mediaType: "image/png" });
    const sampler = createSampler(1_000);
    sampler.take(infospace.notes.get(id)?.content ?? null);
    sampler.take({ media_type: "a/b", size: 1, base64: "AA==" });

    expect(sampler.preview()).toEqual({
      keys: { media_type: "string", size: "number", base64: "string" },
      first: [
        { media_type: "image/png", size: 9_000 },
        { media_type: "a/b", size: 1 },
      ],
    });
  });

  test("never exceeds the limit", async () => {
    const hostile = Object.fromEntries(records.map(({ id }) => [`${"k\u0000".repeat(100)}${id}`, "v".repeat(500)]));
    for (const previewLimit of [300, 500, 1_200]) {
      for (const data of [
        records,
        { records },
        hostile,
        [hostile, hostile],
        "\u0000".repeat(9_000),
        "é\n".repeat(9_000),
      ]) {
        const kept = await keeping({ previewLimit }).keep(data);
        expect(JSON.stringify(kept?.shown).length).toBeLessThanOrEqual(previewLimit);
        expect(kept?.shown.handle).toBe(kept?.handle);
      }
      const shown = (await keeping({ previewLimit }).keep(null, pictures(30)))?.shown;
      expect(JSON.stringify(shown).length).toBeLessThanOrEqual(previewLimit);
    }
  });
});

function pictures(count: number): Content {
  const blocks = Array.from({ length: count }, (_, index) => ({
    type: "image",
    mimeType: "image/png",
    data: Buffer.alloc(3_000, index + 1).toString("base64"),
  }));
  return { blocks };
}

describe("media", () => {
  test("stores an image as a file note and shows the rest", async () => {
    const { keep, infospace } = keeping();

    const small = { type: "image", mimeType: "image/png", data: Buffer.alloc(900, 7).toString("base64") };
    const large = { type: "image", mimeType: "image/png", data: Buffer.alloc(9_000, 7).toString("base64") };

    expect(await keep("a bird", { blocks: [small] })).toBeUndefined();
    const big = await keep("a bird", { blocks: [large] });

    expect(big).toMatchObject({ kind: "note", bytes: 9_000 });
    expect(big?.shown).toMatchObject({
      result: "a bird",
      files: [{ handle: big?.handle, media_type: "image/png", size: 9_000 }],
      next: expect.stringContaining(`{"$from":"${big?.handle}","path":"base64"}`),
    });
    expect(JSON.stringify(big?.shown)).not.toContain(large.data.slice(0, 40));
    expect([...infospace.notes.values()][0]?.content).toMatchObject({ base64: large.data });
  });

  test("stores several files as notes of one collection", async () => {
    const { keep, infospace } = keeping();

    const kept = await keep(null, pictures(6));

    expect(kept).toMatchObject({ kind: "collection", count: 6 });
    expect(infospace.contents(kept?.handle ?? "")).toHaveLength(6);
    expect(kept?.shown).toMatchObject({ all_files: kept?.handle, more_files: 2 });
  });

  test("replaces media in the data by handles", async () => {
    const { keep, infospace } = keeping();
    const { blocks } = pictures(2);
    const texts = [{ type: "text", text: "x".repeat(5_000) }];
    const data = [...texts, ...blocks];

    const kept = await keep(data, { blocks: data });

    const contents = infospace.contents(kept?.handle ?? "") as JsonObject[];
    expect(contents.map((block) => block.data)).toEqual([undefined, "note__1", "note__2"]);
    expect(kept?.shown).toMatchObject({ count: 3, files: [{ handle: "note__1" }, { handle: "note__2" }] });
  });

  test("takes the blob of a resource and an odd media type, and counts invalid base64", async () => {
    const { keep, infospace } = keeping();
    const blob = Buffer.alloc(9_000, 1).toString("base64");

    const kept = await keep(null, {
      blocks: [
        { type: "resource", resource: { uri: "file:///a", mimeType: "evil\u0000/\n", blob } },
        { type: "audio", mimeType: "audio/wav", data: "!".repeat(9_000) },
      ],
    });

    expect(kept?.shown).toMatchObject({
      files: [{ media_type: "application/octet-stream", size: 9_000 }],
      unreadable: 1,
    });
    expect(infospace.notes.size).toBe(1);
  });
});

describe("streams", () => {
  test("become a collection, however short", async () => {
    const { keeper, infospace } = keeping();

    const kept = await keeper.storeStream(Streamed.records([{ a: 1 }]), maker);
    const lines = await keeper.storeStream(Streamed.jsonLines(['{"a":', "1}\n\n", Buffer.from('{"a":2}')]), maker);

    expect(infospace.contents(kept.handle)).toEqual([{ a: 1 }]);
    expect(kept.shown).toMatchObject({ count: 1, first: [{ a: 1 }], whole: true });
    expect(infospace.contents(lines.handle)).toEqual([{ a: 1 }, { a: 2 }]);
    expect(lines.shown.empty_lines).toBe(1);
    expect(await keeper.storeStream(Streamed.records([]), maker)).toMatchObject({ kind: "collection", count: 0 });
  });

  test.each<[string, () => Streamed, JsonObject]>([
    [
      "the source",
      () => Streamed.records(breaking()),
      { code: "action_failed", message: "the result broke off after 2 items: no more" },
    ],
    ["a line", () => Streamed.jsonLines(["1\n2\nx\n"]), { code: "invalid_output" }],
    ["a value that is no JSON", () => Streamed.records([1, 2, () => 3]), { code: "invalid_output" }],
  ])("names the collection with the items so far if %s fails", async (_, streamed, problem) => {
    const { keeper, infospace } = keeping();

    const failed = await keeper.storeStream(streamed(), maker).catch((thrown: unknown) => thrown);

    expect(failed).toMatchObject({ ...problem, details: { count: 2, complete: false } });
    const { handle } = (failed as { details: { handle: string } }).details;
    expect(infospace.contents(handle)).toHaveLength(2);
    expect(await infospace.collection(handle, testCaller)).toMatchObject({ complete: false, count: 2 });
  });

  test("leave nothing if they fail before the first item", async () => {
    const { keeper, infospace } = keeping();

    const failed = await keeper.storeStream(Streamed.jsonLines(["x\n"]), maker).catch((thrown: unknown) => thrown);

    expect(failed).toMatchObject({ code: "invalid_output", details: { count: 0, complete: false } });
    expect(failed).not.toHaveProperty("details.handle");
    await expect(infospace.collection("collection__1", testCaller)).rejects.toMatchObject({ code: "not_found" });
  });

  test("end when the call is cancelled, and close their source", async () => {
    const { keeper } = keeping();
    const cancelling = new AbortController();
    let closed = false;
    async function* endless() {
      try {
        for (let count = 0; ; count++) {
          if (count === 5) cancelling.abort();
          yield count;
        }
      } finally {
        closed = true;
      }
    }

    await expect(keeper.storeStream(Streamed.records(endless()), maker, cancelling.signal)).rejects.toMatchObject({
      code: "cancelled",
    });
    expect(closed).toBe(true);
  });
});

async function* breaking(): AsyncGenerator<Json> {
  yield 1;
  yield 2;
  throw new Error("no more");
}
