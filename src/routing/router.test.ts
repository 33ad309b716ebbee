import { describe, expect, test, vi } from "vitest";
import { QmError } from "../core/errors.ts";
import { readCode, testCall, testRouter, waitForTurn } from "./testing.ts";

const hangs = () => new Promise<never>(() => {});

describe("useRules", () => {
  test("keeps the old rules when one is invalid", async () => {
    const { router } = testRouter();
    router.useRules([{ name: "old" }]);

    expect(() => router.useRules([{ name: "new" }, { when: "event.data >" }])).toThrow(
      expect.objectContaining({ code: "invalid_expression" }),
    );
    expect(() => router.useRules([{ name: "new" }, { deadlineMs: -1 }])).toThrow(
      expect.objectContaining({ code: "invalid_config" }),
    );

    expect(await router.routeEvent("a", "b", 1)).toMatchObject({ rule: "old" });
  });

  test("applies to the next event, and copies the rules", async () => {
    const { router } = testRouter();
    const rule = { name: "first", event: "b" };
    router.useRules([rule]);
    rule.event = "never";
    expect(await router.routeEvent("a", "b", 1)).toMatchObject({ rule: "first" });

    router.useRules([]);

    expect(await readCode(router.routeEvent("a", "b", 1))).toBe("not_found");
  });

  test("reports once that a rule for everything cannot redirect calls", async () => {
    const { router, problems, noted } = testRouter();
    const handler = vi.fn();
    router.handle("mine", handler);
    router.useRules([{ name: "all", to: "mine" }]);

    expect(await router.dispatch(testCall(), async () => "ran")).toBe("ran");
    expect(await router.dispatch(testCall(), async () => "ran")).toBe("ran");

    expect(handler).not.toHaveBeenCalled();
    expect(problems).toHaveLength(1);
    expect(noted("event.routed")).toEqual([
      expect.not.objectContaining({ to: "mine" }),
      expect.not.objectContaining({ to: "mine" }),
    ]);
  });
});

describe("subscribe", () => {
  test.each([
    [{ evnt: "tool_call:*" }, () => {}],
    [undefined, () => {}],
    [{ source: "" }, () => {}],
    [{ actor: 7 }, () => {}],
    [{}, undefined],
  ])("refuses %j", (interest, listener) => {
    const { router } = testRouter();

    expect(() => router.subscribe(interest as never, listener as never)).toThrow(
      expect.objectContaining({ code: "invalid_arguments" }),
    );
  });

  test("ends with the function it returns", async () => {
    const { router } = testRouter();
    const heard = vi.fn();
    const end = router.subscribe({}, heard);
    await router.dispatch(testCall(), async () => 1);
    end();
    await waitForTurn();

    expect(heard.mock.calls.map(([{ type }]) => type)).toEqual(["tool_call:tool__look", "tool_result:tool__look"]);
    await router.dispatch(testCall(), async () => 1);
    await waitForTurn();
    expect(heard).toHaveBeenCalledTimes(2);
  });
});

describe("close", () => {
  test("cancels running calls, pauses and handlers, announces their end, and refuses new ones", async () => {
    const { router } = testRouter();
    const heard: unknown[] = [];
    router.subscribe({ event: "tool_result:*" }, ({ data }) => heard.push(data));
    router.useRules([{ event: "b", to: "x" }, { retry: { attempts: 2, backoffMs: 30_000 } }]);
    router.handle("x", hangs);
    const work = [
      router.dispatch(testCall(), hangs),
      router.dispatch(testCall({}, { callId: "call-2" }), () => Promise.reject(new QmError("overloaded", "later"))),
      router.routeEvent("a", "b", 1),
    ].map(readCode);
    await waitForTurn();
    expect(router.underWay()).toHaveLength(2);

    await Promise.all([router.close(), router.close()]);

    expect(await Promise.all(work)).toEqual(["cancelled", "cancelled", "cancelled"]);
    expect(heard).toEqual([
      expect.objectContaining({ code: "cancelled" }),
      expect.objectContaining({ code: "cancelled" }),
    ]);
    expect(router.underWay()).toEqual([]);
    expect(await readCode(router.dispatch(testCall(), () => expect.fail("it ran")))).toBe("cancelled");
    expect(await readCode(router.routeEvent("a", "b", 1))).toBe("cancelled");
  });

  test("does not wait for a hanging subscriber, and reports missed events", async () => {
    const { router, problems } = testRouter();
    router.subscribe({}, hangs);
    await router.dispatch(testCall(), async () => 1);

    await router.close();

    expect(problems).toEqual(["the subscriber to * from * was not told of the last 1 events"]);
  });

  test("can be called by a handler that it cancels", async () => {
    const { router } = testRouter();
    router.useRules([{ to: "x" }]);
    router.handle("x", () => router.close());

    expect(await readCode(router.routeEvent("a", "b", 1))).toBe("cancelled");
  });
});

test("ignores a problem listener that throws", async () => {
  const { router } = testRouter({ onProblem: () => expect.fail("boo") });
  router.subscribe({}, () => expect.fail("no"));

  expect(await router.dispatch(testCall(), async () => 1)).toBe(1);
  await waitForTurn();
  expect(await router.dispatch(testCall(), async () => 2)).toBe(2);
});
