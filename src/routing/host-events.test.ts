import { afterEach, describe, expect, test, vi } from "vitest";
import { QmError } from "../core/errors.ts";
import { isDeepFrozen } from "../core/json.ts";
import { caller, readCode, testCall, testRouter, waitForTurn } from "./testing.ts";

const hangs = () => new Promise<never>(() => {});
afterEach(() => void vi.useRealTimers());

describe("a host event", () => {
  test("goes to the handler of the first rule that fits, and returns its answer", async () => {
    const { router, notes } = testRouter();
    const handler = vi.fn(async (_event: unknown) => ({ task: 1 }));
    router.handle("triage", handler);
    router.handle("rest", () => expect.fail("the second rule counted"));
    router.useRules([
      { name: "spam", event: "received", when: "event.data.spam", to: "rest" },
      {
        name: "mail",
        source: "imap:*",
        event: "received",
        when: "event.data.size < 10 && ctx.tenant == 'acme'",
        to: "triage",
      },
      { name: "rest", to: "rest" },
    ]);
    const who = { ...caller, tenant: "acme" };

    const routed = await router.routeEvent("imap:inbox", "received", { spam: false, size: 3 }, { caller: who });

    expect(routed).toEqual({ eventId: "id-1", rule: "mail", to: "triage", result: { task: 1 }, subscribers: 0 });
    const [event] = handler.mock.calls[0] ?? [];
    expect(event).toMatchObject({ id: "id-1", source: "imap:inbox", data: { spam: false, size: 3 }, caller: who });
    expect(isDeepFrozen(event)).toBe(true);
    expect(notes).toEqual([
      {
        caller: who,
        note: {
          type: "event.routed",
          data: {
            source: "imap:inbox",
            event: "received",
            eventId: "id-1",
            rule: "mail",
            to: "triage",
            subscribers: 0,
          },
        },
      },
    ]);
  });

  test("has empty facts without a caller", async () => {
    const { router, problems } = testRouter();
    router.useRules([
      { name: "x", when: "actor.name == '' && ctx.session == '' && ctx.user.id == '' && size(tool) == 0" },
    ]);

    expect(await router.routeEvent("cron", "tick", undefined)).toMatchObject({ rule: "x" });
    expect(problems).toEqual([]);
  });

  test("reaches subscribers, with or without a rule", async () => {
    const { router } = testRouter();
    const heard: string[] = [];
    router.subscribe({ event: "tick" }, ({ source }) => heard.push(source));
    router.subscribe({ event: "tick", actor: "triage" }, ({ source }) => heard.push(`own ${source}`));

    expect(await router.routeEvent("cron", "tick", 1)).toEqual({ eventId: "id-1", subscribers: 1 });
    router.useRules([{ name: "quiet" }]);
    expect(await router.routeEvent("hand", "tick", 1, { caller })).toEqual({
      eventId: "id-2",
      rule: "quiet",
      subscribers: 2,
    });
    await waitForTurn();

    expect(heard).toEqual(["cron", "hand", "own hand"]);
  });

  test("without rule and subscriber is rejected with not_found, and recorded", async () => {
    const { router, noted } = testRouter();
    await expect(router.routeEvent("cron", "tick", 1)).rejects.toMatchObject({
      code: "not_found",
      hint: expect.stringContaining("A rule is missing. There are none."),
    });
    router.useRules([{ name: "mail", source: "imap" }, { event: "tock" }]);

    await expect(router.routeEvent("cron", "tick", 1)).rejects.toMatchObject({
      message: 'no rule fits "tick" from "cron", and it has no subscriber',
      hint: expect.stringContaining("There are: mail, rule 2."),
    });
    expect(noted("event.routed")).toHaveLength(2);
  });

  test("with a missing handler is rejected with not_found", async () => {
    const { router } = testRouter();
    router.useRules([{ name: "mail", to: "triage" }]);
    const end = router.handle("triage", () => 1);
    end();

    await expect(router.routeEvent("imap", "received", 1)).rejects.toMatchObject({
      code: "not_found",
      message: 'routing mail sends to "triage", and there is no such handler',
    });
  });

  test("rejects with what its handler throws", async () => {
    const { router } = testRouter();
    router.useRules([{ to: "x" }]);
    const thrown: unknown[] = [new QmError("conflict", "taken"), new Error("no"), undefined];
    router.handle("x", () => {
      throw thrown.shift();
    });

    await expect(router.routeEvent("a", "b", 1)).rejects.toMatchObject({ code: "conflict", message: "taken" });
    await expect(router.routeEvent("a", "b", 1)).rejects.toMatchObject({
      code: "action_failed",
      message: "handler x failed: no",
    });
    await expect(router.routeEvent("a", "b", 1)).rejects.toMatchObject({ code: "action_failed" });
  });

  test("cannot use the types of call events", async () => {
    const { router, notes } = testRouter();
    const heard = vi.fn();
    router.subscribe({}, heard);

    expect(await readCode(router.routeEvent("actor:triage", "tool_call:tool__pay", {}))).toBe("invalid_arguments");
    await waitForTurn();

    expect(heard).not.toHaveBeenCalled();
    expect(notes).toEqual([]);
  });
});

describe("a handler", () => {
  test("is retried as its rule says, for retryable errors only", async () => {
    vi.useFakeTimers();
    const { router } = testRouter();
    router.useRules([{ to: "x", retry: { attempts: 3, backoffMs: 100 } }]);
    const handler = vi.fn().mockRejectedValueOnce(new QmError("overloaded", "later")).mockResolvedValueOnce("ok");
    handler.mockRejectedValueOnce(new Error("no"));
    router.handle("x", handler);

    const work = router.routeEvent("a", "b", 1);
    await vi.runAllTimersAsync();

    expect(await work).toMatchObject({ result: "ok" });
    expect(await readCode(router.routeEvent("a", "b", 1))).toBe("action_failed");
    expect(handler).toHaveBeenCalledTimes(3);
  });

  test.each([
    [{ to: "x", deadlineMs: 500 }, 500],
    [{ to: "x" }, 60_000],
  ])("with the rule %j times out after %i ms", async (rule, ms) => {
    vi.useFakeTimers();
    const { router } = testRouter();
    router.useRules([rule]);
    const signals: AbortSignal[] = [];
    router.handle("x", (_event, signal) => {
      signals.push(signal);
      return hangs();
    });
    const code = readCode(router.routeEvent("a", "b", 1));

    await vi.advanceTimersByTimeAsync(ms - 1);
    expect(signals[0]?.aborted).toBe(false);
    await vi.advanceTimersByTimeAsync(1);

    expect(await code).toBe("timed_out");
    expect(signals[0]?.aborted).toBe(true);
    expect(vi.getTimerCount()).toBe(0);
  });

  test("is cancelled by the signal, and its later result is ignored", async () => {
    const { router, noted } = testRouter();
    router.useRules([{ to: "x" }]);
    const handler = vi.fn(hangs);
    router.handle("x", handler);
    const controller = new AbortController();
    const code = readCode(router.routeEvent("a", "b", 1, { signal: controller.signal }));

    controller.abort();

    expect(await code).toBe("cancelled");
    expect(await readCode(router.routeEvent("a", "b", 1, { signal: controller.signal }))).toBe("cancelled");
    expect(handler).toHaveBeenCalledTimes(1);
    expect(noted("event.routed")).toHaveLength(1);
  });

  test("has a unique name, and removing it twice does not remove the next one", async () => {
    const { router } = testRouter();
    router.useRules([{ to: "x" }]);
    const same = () => 1;
    const end = router.handle("x", same);
    expect(() => router.handle("x", same)).toThrow(expect.objectContaining({ code: "conflict" }));
    end();
    router.handle("x", same);
    end();

    expect(await router.routeEvent("a", "b", 1)).toMatchObject({ result: 1 });
    for (const [name, handler] of [
      ["", same],
      ["y", undefined],
      ["__proto__", "text"],
    ])
      expect(() => router.handle(name as string, handler as never)).toThrow(
        expect.objectContaining({ code: "invalid_arguments" }),
      );
  });

  test("is not found under a name of Object.prototype", async () => {
    const { router } = testRouter();
    router.useRules([{ to: "constructor" }]);

    expect(await readCode(router.routeEvent("a", "b", 1))).toBe("not_found");
  });
});

describe("events that cause one another", () => {
  test("may be sixteen deep", async () => {
    const { router } = testRouter();
    let deepest = 0;
    router.useRules([{ to: "x" }]);
    router.handle("x", ({ data }) => {
      const depth = data as number;
      deepest = Math.max(deepest, depth);
      return router.routeEvent("a", "b", depth + 1);
    });

    await expect(router.routeEvent("a", "b", 1)).rejects.toMatchObject({ code: "conflict" });
    expect(deepest).toBe(16);

    expect(await readCode(router.routeEvent("a", "b", 16))).toBe("conflict");
    expect(deepest).toBe(31);
  });

  test("are a loop without awaiting, and through a subscriber", async () => {
    const { router } = testRouter();
    const codes: string[] = [];
    let heard = 0;
    router.subscribe({ event: "b" }, () => {
      heard++;
      void readCode(router.routeEvent("a", "b", 1)).then((code) => codes.push(code));
    });

    await router.routeEvent("a", "b", 1);
    await vi.waitFor(() => expect(codes).toContain("conflict"));
    await waitForTurn();

    expect(heard).toBe(16);
  });

  test("are a loop through calls", async () => {
    const { router } = testRouter();
    const codes: string[] = [];
    let calls = 0;
    const call = () =>
      router.dispatch(testCall(), async () => {
        calls++;
      });
    router.subscribe({ event: "tool_call:*" }, () => void readCode(call()).then((code) => codes.push(code)));

    await call();
    await vi.waitFor(() => expect(codes).toContain("conflict"));
    await waitForTurn();

    expect(calls).toBe(16);
  });

  test("are no loop when calls in a deep handler have no subscriber", async () => {
    const { router } = testRouter();
    router.useRules([{ event: "b", to: "x" }]);
    router.handle("x", ({ data }) =>
      (data as number) === 16
        ? router.dispatch(testCall(), async () => "ran")
        : router.routeEvent("a", "b", (data as number) + 1).then(({ result }) => result),
    );

    expect(await router.routeEvent("a", "b", 1)).toMatchObject({ result: "ran" });
  });
});
