import { expect, test } from "vitest";
import { createTestAuthor, testCaller } from "../testing.ts";
import { coerceAction } from "./coerce.ts";
import type { PrimitiveFactory } from "./derive.ts";
import { flattenAction } from "./flatten.ts";
import { splitAction } from "./split.ts";
import { createTestPrimitives } from "./testing.ts";

const reshapeActions: PrimitiveFactory = (parts) => [coerceAction(parts), splitAction(parts), flattenAction(parts)];

test("coerce converts what it can, and counts the rest with reasons", async () => {
  const { run, infospace } = createTestPrimitives(reshapeActions);
  const answer = await run("coerce", {
    target: [{ price: "1.5" }, { price: "free" }, { price: 2 }],
    to: "float",
    path: "price",
  });

  expect(infospace.contents(String(answer.handle))).toEqual([{ price: 1.5 }, { price: 2 }]);
  expect(answer).toMatchObject({
    count: 2,
    input: 3,
    dropped: 1,
    failed: 1,
    reasons: [{ position: 1, reason: '"free" is not a number' }],
  });
  expect(await run("coerce", { target: ["x"], to: "int", failing: "null" })).toMatchObject({
    count: 1,
    dropped: 0,
    failed: 1,
    first: [null],
  });
  for (const delimiter of ["", "x".repeat(101)])
    await expect(run("coerce", { target: ["x"], to: "list", delimiter })).rejects.toMatchObject({
      code: "invalid_arguments",
    });
});

test("flatten reports that the input is not complete", async () => {
  const { run, infospace } = createTestPrimitives(reshapeActions);
  const { id } = await infospace.collect(createTestAuthor(testCaller), [{ content: "a" }]);
  const { resource } = infospace;
  infospace.resource = async (handle, caller) => ({ ...(await resource(handle, caller)), complete: false });

  expect(await run("flatten", { target: `collection__${id}` })).toMatchObject({ incomplete_input: true });
  expect(await run("flatten", { target: ["a"] })).not.toHaveProperty("incomplete_input");
});

test("split makes a collection of a note", async () => {
  const { run, infospace } = createTestPrimitives(reshapeActions);
  const { id } = await infospace.write(createTestAuthor(testCaller), { results: [{ a: 1 }, { a: 2 }] });
  const items = await run("split", { target: `note__${id}`, by: "items", path: "results" });
  const lines = await run("split", { target: ["a;b", 5], by: "delimiter", delimiter: ";" });
  const found = await run("split", { target: `note__${id}` });
  const delimited = await run("split", { target: ["a;b"], delimiter: ";" });

  expect(infospace.contents(String(found.handle))).toEqual([{ a: 1 }, { a: 2 }]);
  expect(found).toMatchObject({ count: 2, by: ["items"], paths: ["results"] });
  expect(items).not.toHaveProperty("by");
  expect(infospace.contents(String(delimited.handle))).toEqual(["a", "b"]);

  expect(infospace.contents(String(items.handle))).toEqual([{ a: 1 }, { a: 2 }]);
  expect(infospace.contents(String(lines.handle))).toEqual(["a", "b"]);
  expect(lines).toMatchObject({
    input: 2,
    dropped: 1,
    reasons: [{ position: 1, reason: "it is a number, not a text" }],
  });
  expect(await run("split", { target: [{}, [1]], by: "line" })).toMatchObject({
    reasons: [
      { reason: "it is an object, not a text" },
      { reason: 'it is an array, not a text: "items" takes its items' },
    ],
  });
  expect(await run("split", { target: [""], by: "sentence" })).toMatchObject({ count: 0, input: 1, dropped: 0 });
  await expect(run("split", { target: ["a"], by: "delimiter" })).rejects.toMatchObject({ code: "invalid_arguments" });
});

test("flatten makes one note, or replaces lists by their items", async () => {
  const { run, infospace } = createTestPrimitives(reshapeActions);
  const contentOf = ({ handle }: { readonly [key: string]: unknown }) =>
    infospace.notes.get(Number(String(handle).slice(6)))?.content;
  const text = await run("flatten", { target: ["a", { b: 1 }], separator: " | ", name: "all" });
  const list = await run("flatten", { target: ["a", { b: 1 }], as: "list" });
  const items = await run("flatten", { target: [[1, [2]], 3], as: "items" });

  expect(contentOf(text)).toBe("a | b: 1");
  expect(text).toMatchObject({ kind: "note", format: "text", name: "all", input: 2, dropped: 0 });
  expect(contentOf(list)).toEqual(["a", { b: 1 }]);
  expect(infospace.contents(String(items.handle))).toEqual([1, [2], 3]);
  expect(items).toMatchObject({ input: 2, dropped: 0, lists: 1, count: 3 });
});
