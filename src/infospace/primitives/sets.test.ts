import { expect, test } from "vitest";
import { createTestAuthor, testCaller } from "../testing.ts";
import { setActions } from "./sets.ts";
import { createTestPrimitives } from "./testing.ts";

test.each([
  ["union", [{ id: 1 }, { id: 2 }, { id: 3 }], { left: 3, right: 2 }, 2, 2],
  ["intersection", [{ id: 2 }], { left: 3, right: 2 }, 2, 0],
  ["difference", [{ id: 1 }], { left: 3, right: 2 }, 2, 1],
])("%s", async (entry, expected, input, dropped, repeated) => {
  const { run, infospace } = createTestPrimitives(setActions);
  const { id } = await infospace.collect(
    createTestAuthor(testCaller),
    [{ id: 1 }, { id: 1 }, { id: 2 }].map((content) => ({ content })),
  );
  const before = infospace.notes.size;
  const answer = await run(entry, { target: `collection__${id}`, with: [{ id: 2 }, { id: 3 }] });

  expect(infospace.contents(String(answer.handle))).toEqual(expected);
  expect(answer).toMatchObject({ count: expected.length, input, dropped, repeated, incomparable: 0 });
  // Notes that are there are not written again.
  expect(infospace.notes.size - before).toBe(entry === "union" ? 1 : 0);
});

test("a union with nothing removes duplicates; the others need a second list", async () => {
  const { run, infospace } = createTestPrimitives(setActions);
  const answer = await run("union", { target: [1, 2, 1] });

  expect(infospace.contents(String(answer.handle))).toEqual([1, 2]);
  expect(answer).toMatchObject({ input: { left: 3, right: 0 }, dropped: 1, repeated: 1 });
  for (const entry of ["intersection", "difference"])
    await expect(run(entry, { target: [1] })).rejects.toMatchObject({ code: "invalid_arguments" });
});

test("compares by a path or by the note, and not by both", async () => {
  const { run, infospace } = createTestPrimitives(setActions);
  const { id } = await infospace.collect(
    createTestAuthor(testCaller),
    [{ k: 1, a: 1 }, { k: 1, a: 2 }, { a: 3 }].map((content) => ({ content })),
  );
  const target = `collection__${id}`;

  expect(await run("difference", { target, with: [{ k: 1 }], path: "k" })).toMatchObject({
    count: 1,
    dropped: 2,
    incomparable: 1,
  });
  expect(await run("intersection", { target, with: target, by: "note" })).toMatchObject({ count: 3, dropped: 0 });
  await expect(run("union", { target, with: [], path: "k", by: "note" })).rejects.toMatchObject({
    code: "invalid_arguments",
  });
});
