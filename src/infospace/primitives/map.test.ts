import { describe, expect, test } from "vitest";
import type { CallContext } from "../../core/action.ts";
import type { ProgressUpdate } from "../../core/caller.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import { actionName } from "../../core/names.ts";
import type { Outcome } from "../../core/outcome.ts";
import { createInfospace } from "../create-infospace.ts";
import type { CollectionMember } from "../infospace.ts";
import { allowOwner, openTestSearch } from "../search/testing.ts";
import { createTestAuthor, testCaller } from "../testing.ts";
import { mapAction } from "./map.ts";
import { createTestPrimitives } from "./testing.ts";

const ended = { callId: "call-2", value: "cut short", durationMs: 1, action: actionName("tool", "each") };

const done = (data: unknown, forModel?: unknown): Outcome => ({
  ...ended,
  status: "done",
  data,
  ...(forModel === undefined ? {} : { forModel }),
});
const failed = (code: "action_failed" | "denied" | "budget_exceeded", error: string): Outcome => ({
  ...ended,
  status: code === "denied" ? "refused" : "failed",
  reason: error,
  error: { code, error },
});
const waiting = (id: string): Outcome => ({
  ...ended,
  status: "waiting",
  hint: "",
  reason: "dear",
  approval: { id, level: "user", expiresAt: "2026-11-16T00:00:00Z" },
});

/** A map whose calls are answered by `answer`, over a clock that moves a second with every look at it. */
function mapped(
  answer: (args: JsonObject, name: string) => Outcome | Promise<Outcome>,
  context: Partial<CallContext> = {},
) {
  const members: CollectionMember[] = [];
  let seconds = 0;
  const made = createTestPrimitives(
    (parts) =>
      mapAction({
        ...parts,
        elapsed: () => seconds++ * 1000,
        infospace: {
          ...parts.infospace,
          collect: (maker, given, how) => parts.infospace.collect(maker, noted(given), how),
        },
      }),
    { invoke: async (name, args) => answer(args as JsonObject, name), ...context },
  );
  async function* noted(
    given: Iterable<CollectionMember> | AsyncIterable<CollectionMember>,
  ): AsyncGenerator<CollectionMember> {
    for await (const member of given) {
      members.push(member);
      yield member;
    }
  }
  return { ...made, members };
}

const numbers = (count: number): JsonObject[] => Array.from({ length: count }, (_, n) => ({ n }));

describe("map", () => {
  test("runs the action for each item, stores what a model may see in order, and counts the rest", async () => {
    const asked: unknown[] = [];
    const { run, infospace, members } = mapped((args, name) => {
      asked.push([name, args]);
      const { n } = args;
      if (n === 1) return done(null);
      if (n === 2) return failed("action_failed", "it broke");
      if (n === 3) return waiting("ap-3");
      if (n === 4) return failed("denied", "not you");
      return done({ n, secret: 1 }, { shown: n ?? null });
    });
    const answer = await run("map", {
      target: [...numbers(6), { other: 1 }],
      action: "tool__each",
      args: { n: { $item: "n" }, fixed: true },
      name: "results",
      concurrency: 1,
    });

    expect(asked[0]).toEqual(["tool__each", { n: 0, fixed: true }]);
    expect(asked).toHaveLength(6);
    expect(infospace.contents(String(answer.handle))).toEqual([{ shown: 0 }, { shown: 5 }]);
    expect(members.map((member) => "properties" in member && member.properties)).toEqual([
      { source_position: 0 },
      { source_position: 5 },
    ]);
    expect(answer).toMatchObject({
      name: "results",
      count: 2,
      input: 7,
      done: 2,
      empty: 1,
      failed: 2,
      waiting: 1,
      dropped: 1,
      not_run: 0,
      waiting_items: { 3: "ap-3" },
      continue_with: { positions: [3], into: answer.handle },
      failures: [
        { position: 2, code: "action_failed", message: "it broke" },
        { position: 4, code: "denied", message: "not you" },
      ],
      reasons: [{ position: 6, reason: "the value has no n; it has: other" }],
    });
    expect(answer).not.toHaveProperty("stopped_by");
    expect(JSON.stringify(answer)).not.toContain("secret");
  });

  test("stores a long result completely", async () => {
    const long = "x".repeat(20_000);
    const { run, infospace } = mapped(() => done(long));
    const answer = await run("map", { target: numbers(2), action: "tool__each" });

    expect(infospace.contents(String(answer.handle))).toEqual([long, long]);
    expect(JSON.stringify(answer).length).toBeLessThan(2000);
  });

  test("passes the handle of the item, and records the source of a result", async () => {
    const { run, infospace, members } = mapped(({ target }) => done(target));
    const { id } = await infospace.collect(createTestAuthor(testCaller), [{ content: "a" }, { content: "b" }]);
    const [first, second] = [...infospace.notes.keys()];
    const answer = await run("map", {
      target: `collection__${id}`,
      action: "infospace__load",
      args: { target: { $handle: true } },
    });

    expect(infospace.contents(String(answer.handle))).toEqual([`note__${first}`, `note__${second}`]);
    expect(members[1]).toMatchObject({ properties: { source_position: 1, source: `note__${second}` } });
  });

  test("continues at an offset", async () => {
    const { run, infospace, members } = mapped(({ n }) => done(n));
    const first = await run("map", { target: numbers(5), action: "tool__each", limit: 2 });
    const rest = await run("map", { target: numbers(5), action: "tool__each", offset: Number(first.next) });

    expect(first).toMatchObject({ count: 2, input: 5, not_run: 3, stopped_by: "limit", next: 2 });
    expect(rest).toMatchObject({ count: 3, input: 3, not_run: 0 });
    expect(infospace.contents(String(rest.handle))).toEqual([2, 3, 4]);
    expect(members.at(-1)).toMatchObject({ properties: { source_position: 4 } });
    expect(await run("map", { target: numbers(5), action: "tool__each", offset: 1, limit: 2 })).toMatchObject({
      next: 3,
    });
  });

  test("stops when the time is up, or after a failure on request", async () => {
    const timed = mapped(({ n }) => done(n));
    const broken = mapped(({ n }) => (n === 1 ? failed("action_failed", "no") : done(n)));

    expect(
      await timed.run("map", { target: numbers(9), action: "tool__each", concurrency: 1, max_seconds: 3 }),
    ).toMatchObject({
      done: 2,
      not_run: 7,
      stopped_by: "time",
      next: 2,
    });
    expect(
      await broken.run("map", { target: numbers(9), action: "tool__each", concurrency: 1, on_error: "stop" }),
    ).toMatchObject({
      done: 1,
      failed: 1,
      not_run: 7,
      stopped_by: "failure",
      next: 2,
    });
  });

  test("stops when a budget is used up, and names the items to run again", async () => {
    let left = 3;
    const { run } = mapped(({ n }) =>
      left-- > 0 ? done(n) : failed("budget_exceeded", "50 calls an hour are used up"),
    );
    const answer = await run("map", { target: numbers(20), action: "tool__each", concurrency: 2 });

    expect(answer).toMatchObject({ done: 3, failed: 1, stopped_by: "budget", next: 4, not_run: 16 });
    expect(answer).toMatchObject({ failures: [{ position: 3, code: "budget_exceeded" }] });
    expect(answer).toMatchObject({ continue_with: { positions: [3], into: answer.handle } });
    expect(answer).not.toHaveProperty("waiting_items");
  });

  test("continues a collection that was interrupted after its last answer, and completes it", async () => {
    const controller = new AbortController();
    const asked: Json[] = [];
    const { run, infospace } = mapped(
      ({ n = null }) => {
        asked.push(n);
        if (n === 2) controller.abort();
        return done(n);
      },
      { signal: controller.signal },
    );
    const cut = await run("map", { target: numbers(6), action: "tool__each", concurrency: 1 });
    const { run: again } = createTestPrimitives((parts) => mapAction({ ...parts, infospace, elapsed: () => 0 }), {
      invoke: async (_, args) => {
        asked.push((args as JsonObject).n ?? null);
        return done((args as JsonObject).n);
      },
    });
    const one = await again("map", {
      target: numbers(6),
      action: "tool__each",
      into: String(cut.handle),
      positions: [3],
    });
    const rest = await again("map", { target: numbers(6), action: "tool__each", into: String(cut.handle) });
    const more = await again("map", { target: numbers(1), action: "tool__each", into: String(cut.handle) });

    expect(cut).toMatchObject({ complete: false, count: 3 });
    expect(one).toMatchObject({ complete: false, count: 4 });
    expect(rest).toMatchObject({ handle: cut.handle, count: 6, input: 2, done: 2 });
    expect(rest).not.toHaveProperty("complete");
    expect(more).toMatchObject({ count: 7, input: 1 });
    expect(asked).toEqual([0, 1, 2, 3, 4, 5, 0]);
  });

  test("reports its handle before the first call, and its progress", async () => {
    const updates: ProgressUpdate[] = [];
    const calls: number[] = [];
    const dialogue = { progress: (update: ProgressUpdate) => void updates.push(update) } as CallContext["dialogue"];
    const { run } = mapped(
      ({ n }) => {
        calls.push(updates.length);
        return done(n);
      },
      dialogue === undefined ? {} : { dialogue },
    );
    const answer = await run("map", { target: numbers(3), action: "tool__each", concurrency: 1 });

    expect(calls[0]).toBe(1);
    expect(updates.map(({ progress, total }) => [progress, total])).toEqual([
      [0, 3],
      [1, 3],
      [2, 3],
      [3, 3],
    ]);
    for (const { message } of updates) expect(message).toContain(String(answer.handle));
  });

  test("keeps its results after an abort", async () => {
    const controller = new AbortController();
    const { run, infospace } = mapped(
      ({ n }) => {
        if (n === 2) controller.abort();
        return done(n);
      },
      { signal: controller.signal },
    );
    const { id } = await infospace.collect(
      createTestAuthor(testCaller),
      numbers(9).map((content) => ({ content })),
    );
    const answer = await run("map", { target: `collection__${id}`, action: "tool__each", concurrency: 1 });

    expect(infospace.contents(String(answer.handle))).toEqual([0, 1, 2]);
    expect(answer).toMatchObject({ stopped_by: "cancelled", done: 3, not_run: 6 });
  });

  test("is complete unless it was aborted", async () => {
    const closers: (() => Promise<void>)[] = [];
    const { store } = await openTestSearch((close) => closers.unshift(close));
    const runtime = { now: () => new Date(Date.UTC(2026, 0, 1)) };
    const infospace = createInfospace({ store, runtime, expiresInMs: 60_000, mayUse: allowOwner, note: () => {} });
    const controller = new AbortController();
    const { run } = createTestPrimitives((parts) => mapAction({ ...parts, infospace, elapsed: () => 0 }), {
      signal: controller.signal,
      invoke: async (_, args) => {
        if ((args as JsonObject).n === 5) controller.abort();
        return done((args as JsonObject).n);
      },
    });
    const limited = await run("map", { target: numbers(4), action: "tool__each", limit: 2 });
    const cancelled = await run("map", { target: numbers(9), action: "tool__each", concurrency: 1, name: "cut" });

    expect(limited).toMatchObject({ count: 2, stopped_by: "limit" });
    expect(limited).not.toHaveProperty("complete");
    expect(await infospace.collection(String(limited.handle), testCaller)).toMatchObject({ complete: true });
    expect(cancelled).toMatchObject({ count: 6, stopped_by: "cancelled", complete: false });
    expect(await infospace.collection(String(cancelled.handle), testCaller)).toMatchObject({ complete: false });
    for (const close of closers) await close();
  });

  test("reports that the input is not complete", async () => {
    const { run, infospace } = createTestPrimitives((parts) => mapAction({ ...parts, elapsed: () => 0 }), {
      invoke: async () => done(1),
    });
    const { id } = await infospace.collect(createTestAuthor(testCaller), [{ content: { n: 1 } }]);
    const { resource } = infospace;
    infospace.resource = async (handle, caller) => ({ ...(await resource(handle, caller)), complete: false });

    expect(await run("map", { target: `collection__${id}`, action: "tool__each" })).toMatchObject({
      count: 1,
      incomplete_input: true,
    });
  });

  test("counts a result that is not JSON as failed", async () => {
    const round: Record<string, unknown> = {};
    round.self = round;
    const { run } = mapped(() => done(round));

    expect(await run("map", { target: numbers(1), action: "tool__each" })).toMatchObject({
      failed: 1,
      count: 0,
      failures: [{ code: "invalid_output" }],
    });
  });

  test("makes an empty collection of no items, and rejects an unknown target before any call", async () => {
    const asked: Json[] = [];
    const { run } = mapped((args) => {
      asked.push(args);
      return done(1);
    });

    expect(await run("map", { target: [], action: "tool__each" })).toMatchObject({
      count: 0,
      input: 0,
      done: 0,
      not_run: 0,
    });
    const unseeing = mapped(() => done(1), { sees: () => false });
    await expect(unseeing.run("map", { target: [], action: "tool__eech" })).rejects.toMatchObject({
      code: "unknown_action",
      message: expect.stringContaining("tool__eech"),
    });
    expect(await unseeing.run("map", { target: numbers(1), action: "each" })).toMatchObject({ done: 1 });
    await expect(run("map", { target: "collection__77", action: "tool__each" })).rejects.toMatchObject({
      code: "not_found",
    });
    await expect(run("map", { target: [1], action: "tool__each", args: { a: { $item: "a[" } } })).rejects.toMatchObject(
      { code: "invalid_arguments" },
    );
    expect(asked).toEqual([]);
  });

  test("declares that it may change state", () => {
    const action = mapAction({
      infospace: undefined as never,
      search: undefined as never,
      previewLimit: 1,
      valueLimit: 4_096,
      elapsed: () => 0,
    });

    expect(action.effect).toBe("stateful");
    expect(action.inputSchema.required).toEqual(["target", "action"]);
  });
});
