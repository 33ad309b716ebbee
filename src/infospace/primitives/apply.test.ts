import { expect, test } from "vitest";
import type { CallContext } from "../../core/action.ts";
import { Streamed } from "../../core/handler-result.ts";
import type { JsonObject } from "../../core/json.ts";
import { actionName } from "../../core/names.ts";
import type { Outcome } from "../../core/outcome.ts";
import { createResultStore } from "../result-store.ts";
import { createTestAuthor, testCaller } from "../testing.ts";
import { applyAction } from "./apply.ts";
import { createTestPrimitives } from "./testing.ts";

const ended = { callId: "call-2", value: "cut", durationMs: 1 };
const action = actionName("tool", "list");

function done(data: unknown, more: Partial<Extract<Outcome, { status: "done" }>> = {}): Outcome {
  return { ...ended, status: "done", action, data, ...more };
}

function applying(outcome: Outcome, context: Partial<CallContext> = {}) {
  const asked: unknown[] = [];
  const invoke = async (name: string, args: unknown) => {
    asked.push([name, args]);
    return outcome;
  };
  return { ...createTestPrimitives(applyAction, { invoke, ...context }), asked };
}

test("stores the whole result however short, not its preview", async () => {
  const { run, infospace, asked } = applying(done({ total: 3 }));

  const answer = await run("apply", { action: "tool__list", args: { of: "x" }, name: "totals" });

  expect(asked).toEqual([["tool__list", { of: "x" }]]);
  expect(answer).toMatchObject({
    action: "tool__list",
    handle: "note__1",
    resource_id: "note__1",
    name: "totals",
    first: { total: 3 },
    whole: true,
  });
  expect(infospace.notes.get(1)?.content).toEqual({ total: 3 });
});

test("rejects unknown arguments", async () => {
  const { run } = applying(done(1));

  await expect(run("apply", { action: "tool__list", arguments: {} })).rejects.toMatchObject({
    code: "invalid_arguments",
  });
});

test("stores a list as a collection, also an empty one", async () => {
  const several = applying(done([{ n: 1 }, { n: 2 }]));
  const answer = await several.run("apply", { action: "tool__list" });
  expect(answer).toMatchObject({ kind: "collection", count: 2 });
  expect(several.infospace.contents(String(answer.handle))).toEqual([{ n: 1 }, { n: 2 }]);
  expect(await applying(done([1, 2, 3])).run("apply", { action: "tool__list" })).toMatchObject({
    kind: "note",
    items: 3,
  });

  expect(await applying(done([])).run("apply", { action: "tool__list" })).toMatchObject({
    kind: "collection",
    count: 0,
  });
});

test("does not store data that is hidden from the model", async () => {
  const { run, infospace } = applying(done({ name: "Ada", salary: 7 }, { forModel: { name: "Ada" } }));

  await run("apply", { action: "tool__list" });

  expect([...infospace.notes.values()].map(({ content }) => content)).toEqual([{ name: "Ada" }]);
});

test("uses the collection of a streamed result", async () => {
  const { run, infospace } = applying(done({}));
  const keeper = createResultStore({ infospace, previewLimit: 1_000, sees: () => true });
  const { shown, ...kept } = await keeper.storeStream(
    Streamed.records([{ a: 1 }, { a: 2 }]),
    createTestAuthor(testCaller),
  );
  const streamed = createTestPrimitives(applyAction, { invoke: async () => done(kept, { kept, forModel: shown }) });
  expect(await streamed.run("apply", { action: "tool__list" })).toMatchObject({ handle: kept.handle, count: 2 });

  const invoke = async () => done(kept, { kept, forModel: shown });
  const named = applyAction({ infospace, search: undefined as never, previewLimit: 1_000, valueLimit: 4_096 });
  const context = {
    caller: testCaller,
    callId: "1",
    signal: new AbortController().signal,
    invoke,
  };
  const answer = (await named.run({ action: "tool__list", name: "all" }, context as never)) as JsonObject;
  expect(answer).toMatchObject({ name: "all", count: 2 });
  expect(answer.handle).not.toBe(kept.handle);
  expect(infospace.contents(String(answer.handle))).toEqual([{ a: 1 }, { a: 2 }]);
  expect(infospace.notes.size).toBe(2);
  await expect(run("apply", {})).rejects.toMatchObject({ code: "invalid_arguments" });
});

test("fails as the action fails", async () => {
  const problem = { code: "tool_denied", error: "not today", hint: "ask again tomorrow", by: "ben" } as const;
  const refused: Outcome = { ...ended, status: "refused", action, reason: "not today", error: problem };

  await expect(applying(refused).run("apply", { action: "tool__list" })).rejects.toMatchObject({
    code: "tool_denied",
    message: "not today",
    hint: "ask again tomorrow",
    details: { by: "ben" },
  });
});
