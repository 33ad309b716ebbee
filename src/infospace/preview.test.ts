import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Json } from "../core/json.ts";
import type { NoteFacts } from "./note.ts";
import { createSampler, previewNote } from "./preview.ts";
import { testCaller } from "./testing.ts";

function sampled(contents: readonly Json[], limit = 1_000) {
  const sampler = createSampler(limit);
  for (const content of contents) sampler.take(content);
  return sampler.preview();
}

const json: NoteFacts = {
  id: 12,
  format: "json",
  hash: "",
  properties: {},
  origin: { action: "tool__list", callId: "1", actor: testCaller.actor, session: "s1", at: "" },
  reach: "session",
  version: 1,
  bytes: 9_000,
  changedAt: "",
};
const text: NoteFacts = { ...json, format: "text" };

describe("the preview of a collection", () => {
  test("lists the fields with types, and counts where not all items have them", () => {
    const items = Array.from({ length: 100 }, (_, id) => ({
      id,
      owner: { login: "ada", id },
      labels: id % 2 === 0 ? ["a"] : null,
      ...(id < 30 ? { closed: true } : {}),
    }));

    expect(sampled(items).keys).toEqual({
      id: "number",
      owner: "object {login, id}",
      labels: "array of strings | null",
      closed: "boolean? (in 30 of 100)",
    });
  });

  test("shows the first items, and whether these are all", () => {
    expect(sampled([{ a: 1 }, { a: 2 }])).toEqual({ keys: { a: "number" }, first: [{ a: 1 }, { a: 2 }], whole: true });
    expect(sampled([])).toEqual({ first: [], whole: true });

    const many = sampled(Array.from({ length: 1_000 }, (_, id) => ({ id })));
    expect(many.first).toEqual(Array.from({ length: 20 }, (_, id) => ({ id })));
    expect(many).not.toHaveProperty("whole");
  });

  test("counts the types if not all items are objects", () => {
    expect(sampled(["a", { b: 1 }, null, "c"])).toMatchObject({ types: { string: 2, object: 1, null: 1 } });
  });

  test("cuts long items and says what was cut", () => {
    const { first } = sampled([{ id: 1, body: "x".repeat(5_000), parts: Array.from({ length: 900 }, () => 7) }]);

    expect(JSON.stringify(first)).toContain("(5000 characters)");
    expect(JSON.stringify(first)).toContain("more");
    expect(JSON.stringify(first).length).toBeLessThan(400);
  });

  test("has at most 40 fields and counts the rest", () => {
    const wide = Object.fromEntries(Array.from({ length: 90 }, (_, index) => [`f${index}`, index]));
    const { keys, more_keys: more } = sampled([wide, wide], 10_000);

    expect(Object.keys(keys as object)).toHaveLength(40);
    expect(more).toBe(50);
  });

  test("counts names up to a limit, and says so", () => {
    const sampler = createSampler(10_000);
    for (let count = 0; count < 3_000; count++) sampler.take({ [`field ${count}`]: 1 });

    expect(sampler.preview().more_keys).toBe("1000 or more");
  });
});

describe("for any content", () => {
  const key = fc.oneof(
    fc.string({ unit: "binary", maxLength: 200 }),
    fc.constantFrom("__proto__", "constructor", "\u202e\u0000", "…", "first"),
  );
  const hostile = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 4 },
      fc.string({ unit: "binary", maxLength: 400 }),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.boolean(),
      fc.constant(null),
      fc.array(tie("value"), { maxLength: 30 }),
      fc
        .array(fc.tuple(key, tie("value")), { maxLength: 12 })
        .map((entries) => Object.fromEntries(entries.map(([name, value]) => [name, value]))),
    ),
  })).value as fc.Arbitrary<Json>;

  test("stays within the limit, without control characters in a name", () => {
    fc.assert(
      fc.property(fc.array(hostile, { maxLength: 12 }), fc.integer({ min: 2, max: 2_000 }), (contents, limit) => {
        const shown = sampled(contents, limit);
        expect(JSON.stringify(shown).length).toBeLessThanOrEqual(limit);
        for (const name of Object.keys(shown.keys ?? {})) expect(name).not.toMatch(/[\p{Cc}\u202e]/u);
        if (shown.whole === true) expect(JSON.stringify(shown.first)).toBe(JSON.stringify(contents));
      }),
      { numRuns: 300 },
    );
    fc.assert(
      fc.property(hostile, fc.integer({ min: 150, max: 2_000 }), (content, limit) => {
        const shown = previewNote(typeof content === "string" ? text : json, content, limit);
        expect(JSON.stringify(shown).length).toBeLessThanOrEqual(limit);
        expect(shown).toMatchObject({ handle: "note__12", kind: "note", bytes: 9_000 });
        if (shown.whole === true) expect(JSON.stringify(shown.first)).toBe(JSON.stringify(content));
      }),
      { numRuns: 300 },
    );
  });

  test("quotes names with control characters, and takes __proto__ as a name", () => {
    const { keys } = sampled([JSON.parse(`{"__proto__":1,"a\\u0000b\\u202e":2,"${"k".repeat(500)}":3}`) as Json]);

    expect(Object.keys(keys as object)).toEqual(["__proto__", '"a\\u0000b\\u{202e}"', `"${"k".repeat(59)}…"`]);
  });
});

describe("the preview of a note", () => {
  test("shows the fields of an object with types and sizes, then the beginning", () => {
    const items = Array.from({ length: 120 }, (_, id) => ({ id, title: `t${id}` }));

    expect(previewNote(json, { items, cursor: "abc" }, 600)).toMatchObject({
      keys: { items: "array of 120 objects {id, title}", cursor: "string of 3 characters" },
      first: { items: expect.arrayContaining([{ id: 0, title: "t0" }]), cursor: "abc" },
    });
  });

  test("counts lines and characters of a text, and shows the first", () => {
    const shown = previewNote(text, "one\ntwo\n".repeat(500), 400);

    expect(shown).toMatchObject({ lines: 1_000, characters: 4_000 });
    expect(shown.first).toMatch(/^one\ntwo\n/);
    expect(previewNote(text, "one\ntwo", 400)).toMatchObject({ lines: 2, first: "one\ntwo", whole: true });
  });

  test("counts the items of a list and describes them", () => {
    const list = Array.from({ length: 300 }, (_, id) => ({ id }));

    expect(previewNote(json, list, 400)).toMatchObject({
      items: 300,
      keys: { id: "number" },
      first: list.slice(0, 20),
    });
  });

  test("never shows the bytes of a file", () => {
    const file = { media_type: "image/png", size: 3, base64: "AAEC" };

    expect(JSON.stringify(previewNote({ ...json, format: "file" }, file, 400))).not.toContain("AAEC");
  });
});
