import { describe, expect, onTestFinished, test, vi } from "vitest";
import { z } from "zod";
import { defineAction } from "../catalog/define-action.ts";
import type { CallContext } from "../core/action.ts";
import type { QmError } from "../core/errors.ts";
import { createConcurrencyLimiter } from "./concurrency.ts";
import { createRunner, type RunContext } from "./runner.ts";

const context: RunContext = {
  handlerContext: {
    caller: { actor: "a", session: "s" },
    callId: "c",
    sees: () => false,
    listVisible: async () => [],
    heldSlots: new Set(),
    afterEnd: () => {},
  },
  storeStream: () => {
    throw new Error("nothing is streamed here");
  },
  createInvoke: () => () => expect.fail("nothing is called inside"),
};
const limits = { timeoutMs: 10_000, concurrency: 2, queue: 1 };

const make = (run: (args: unknown, context: CallContext) => unknown, more: object = {}) =>
  defineAction("t", { entry: "x", description: "x.", effect: "pure", input: z.object({}), run, ...more });

const codeOf = async (work: Promise<unknown>) =>
  work.then(
    () => "done",
    (thrown: QmError) => thrown.code,
  );

/** A handler that ends when it is told to, and says when it has begun. */
function held() {
  const begun: (() => void)[] = [];
  const run = () => new Promise<void>((resolve) => begun.push(resolve));
  const releaseAll = () => {
    for (const release of begun) release();
  };
  return { run, begun, releaseAll };
}

describe("running", () => {
  test("returns the result of a sync or async handler", async () => {
    const runner = createRunner(limits);

    expect(
      await runner.run(
        make(() => 1),
        {},
        context,
        {},
      ),
    ).toBe(1);
    expect(
      await runner.run(
        make(async () => 2),
        {},
        context,
        {},
      ),
    ).toBe(2);
  });

  test("wraps anything that a handler throws", async () => {
    const runner = createRunner(limits);
    const thrown = (value: unknown) =>
      runner.run(
        make(() => {
          throw value;
        }),
        {},
        context,
        {},
      );

    await expect(thrown(new Error("no disk"))).rejects.toThrow("t__x failed: no disk");
    await expect(
      runner.run(
        make(async () => Promise.reject(new Error("later"))),
        {},
        context,
        {},
      ),
    ).rejects.toThrow("t__x failed: later");
    for (const value of [undefined, null, 7, "text", {}, Object.create(null)])
      expect(await codeOf(thrown(value))).toBe("action_failed");
  });

  test("creates a signal only for a handler that reads it", async () => {
    const created = vi.fn();
    class CountedController extends AbortController {
      override get signal() {
        created();
        return super.signal;
      }
    }
    vi.stubGlobal("AbortController", CountedController);
    onTestFinished(() => void vi.unstubAllGlobals());
    const runner = createRunner(limits);

    await runner.run(
      make((_args, { callId }) => callId),
      {},
      context,
      {},
    );
    expect(created).not.toHaveBeenCalled();

    const read = make((_args, { signal }) => signal.aborted);
    expect(await runner.run(read, {}, context, {})).toBe(false);
    expect(created).toHaveBeenCalledTimes(1);
  });

  test("times out a slow handler and aborts its signal", async () => {
    const runner = createRunner(limits);
    let aborted: unknown;
    const slow = make(
      (_args, { signal }) => new Promise(() => signal.addEventListener("abort", () => (aborted = signal.reason))),
      { timeoutMs: 5 },
    );

    expect(await codeOf(runner.run(slow, {}, context, {}))).toBe("timed_out");
    expect((aborted as QmError).code).toBe("timed_out");
  });

  test("lets a caller shorten the timeout, not extend it", async () => {
    const runner = createRunner(limits);
    const slow = make(() => new Promise(() => {}), { timeoutMs: 20 });

    await expect(runner.run(slow, {}, context, { timeoutMs: 5 })).rejects.toThrow("within 5 ms");
    await expect(runner.run(slow, {}, context, { timeoutMs: 5_000 })).rejects.toThrow("within 20 ms");
  });

  test("is cancelled before, while waiting, and while running", async () => {
    const runner = createRunner({ ...limits, concurrency: 1 });
    const { run, begun, releaseAll } = held();
    const controllers = [new AbortController(), new AbortController()];
    const already = AbortSignal.abort();

    expect(await codeOf(runner.run(make(run), {}, context, { signal: already }))).toBe("cancelled");
    expect(begun).toHaveLength(0);
    const running = codeOf(runner.run(make(run), {}, context, { signal: controllers[0]?.signal }));
    const waiting = codeOf(runner.run(make(run), {}, context, { signal: controllers[1]?.signal }));
    controllers[1]?.abort();
    expect(await waiting).toBe("cancelled");
    controllers[0]?.abort();
    expect(await running).toBe("cancelled");
    expect(begun).toHaveLength(1);
    releaseAll();
  });

  test("runs up to the limit, queues up to the limit, and refuses the rest", async () => {
    const runner = createRunner(limits);
    const { run, begun, releaseAll } = held();
    const calls = Array.from({ length: 4 }, () => codeOf(runner.run(make(run), {}, context, {})));

    expect(await calls[3]).toBe("overloaded");
    expect(begun).toHaveLength(2);
    releaseAll();
    await calls[0];
    await new Promise(setImmediate);
    releaseAll();

    expect(await Promise.all(calls)).toEqual(["done", "done", "done", "overloaded"]);
  });

  test("applies an action's own limit to that action only", async () => {
    const runner = createRunner({ ...limits, concurrency: 10, queue: 10 });
    const one = held();
    const single = make(one.run, { concurrency: 1 });
    const calls = [runner.run(single, {}, context, {}), runner.run(single, {}, context, {})];

    expect(
      await runner.run(
        make(() => "other", { entry: "y" }),
        {},
        context,
        {},
      ),
    ).toBe("other");
    expect(one.begun).toHaveLength(1);
    one.releaseAll();
    await calls[0];
    await new Promise(setImmediate);
    one.releaseAll();
    await Promise.all(calls);
    expect(one.begun).toHaveLength(2);
  });

  test("keeps the slot of a hanging handler", async () => {
    const runner = createRunner({ timeoutMs: 5, concurrency: 1, queue: 0 });
    const { run, releaseAll } = held();

    expect(await codeOf(runner.run(make(run), {}, context, {}))).toBe("timed_out");
    expect(await codeOf(runner.run(make(run), {}, context, {}))).toBe("overloaded");
    releaseAll();
    await new Promise(setImmediate);
    expect(
      await codeOf(
        runner.run(
          make(() => 1),
          {},
          context,
          {},
        ),
      ),
    ).toBe("done");
  });

  test("aborts running calls when closed", async () => {
    const runner = createRunner(limits);
    const call = codeOf(runner.run(make(held().run), {}, context, {}));
    await new Promise(setImmediate);

    runner.close();

    expect(await call).toBe("cancelled");
  });
});

test("releases a slot only once", async () => {
  const limiter = createConcurrencyLimiter(1, 1);
  const { signal } = new AbortController();
  const leave = await limiter.acquire(signal);
  const second = limiter.acquire(signal);

  leave();
  leave();
  await second;

  expect(limiter.acquire(signal)).toBeInstanceOf(Promise);
});
