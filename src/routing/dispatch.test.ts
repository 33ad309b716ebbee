import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { Abortable } from "../core/abortable.ts";
import { onAbort } from "../core/async.ts";
import { QmError } from "../core/errors.ts";
import { isDeepFrozen } from "../core/json.ts";
import type { AttemptLimits } from "./dispatch.ts";
import type { RoutableEvent } from "./event.ts";
import { caller, readCode, testCall, testRouter, waitForTurn } from "./testing.ts";

const passing = () => new QmError("server_failed", "try later");
const hangs = () => new Promise<never>(() => {});

describe("a routed call", () => {
  test("is announced to subscribers when it starts and ends, without its result", async () => {
    const { router, noted } = testRouter();
    const order: string[] = [];
    const events: RoutableEvent[] = [];
    router.subscribe({}, (event) => {
      order.push(event.type);
      events.push(event);
    });

    const result = await router.dispatch(testCall(), async () => {
      order.push("run");
      return { secret: 1 };
    });
    await waitForTurn();

    expect(result).toEqual({ secret: 1 });
    expect(order).toEqual(["run", "tool_call:tool__look", "tool_result:tool__look"]);
    expect(events[0]).toMatchObject({ source: "actor:triage", data: { sum: 7 }, callId: "call-1", caller });
    expect(events[1]?.data).toEqual({ status: "done", durationMs: expect.any(Number) });
    expect(noted("event.routed")).toEqual([
      {
        source: "actor:triage",
        event: "tool_call:tool__look",
        eventId: events[0]?.id,
        callId: "call-1",
        subscribers: 1,
      },
      {
        source: "actor:triage",
        event: "tool_result:tool__look",
        eventId: events[1]?.id,
        callId: "call-1",
        subscribers: 1,
      },
    ]);
  });

  test("is announced with a frozen copy of its arguments", async () => {
    const { router } = testRouter();
    const heard: unknown[] = [];
    const args = { list: [1] };
    const who = { ...caller, user: { id: "u", tier: "plain" } };
    router.subscribe({}, (event) => {
      (event.data as { list: number[] }).list.push(9);
    });
    router.subscribe({}, (event) => {
      Object.assign(event.caller?.user ?? {}, { tier: "trusted" });
    });
    router.subscribe({ event: "tool_call:*" }, (event) => heard.push(event));

    await router.dispatch(testCall({}, { args, caller: who }), async () => args.list.push(2));
    await waitForTurn();

    expect(heard).toEqual([expect.objectContaining({ data: { list: [1] }, caller: who })]);
    expect(isDeepFrozen(heard[0])).toBe(true);
    expect(who.user.tier).toBe("plain");
  });

  test("is announced with only its code when it fails", async () => {
    const { router } = testRouter();
    const heard: unknown[] = [];
    router.subscribe({ event: "tool_result:*" }, ({ data }) => heard.push(data));

    expect(await readCode(router.dispatch(testCall(), () => Promise.reject(passing())))).toBe("server_failed");
    await expect(router.dispatch(testCall(), () => expect.fail("at once"))).rejects.toThrow("at once");
    await waitForTurn();

    expect(heard).toEqual([
      { status: "failed", code: "server_failed", durationMs: expect.any(Number) },
      { status: "failed", code: "internal", durationMs: expect.any(Number) },
    ]);
  });

  test("records nothing without subscribers and rules", async () => {
    const { router, notes } = testRouter();
    router.subscribe({ event: "mail" }, () => {});
    router.useRules([{ event: "tool_call:tool__other" }]);

    await router.dispatch(testCall(), async () => 1);

    expect(notes).toEqual([]);
  });

  test("runs even if a subscriber hangs or throws, or the arguments cannot be copied", async () => {
    const { router, problems } = testRouter();
    const cyclic: Record<string, unknown> = {};
    cyclic.self = cyclic;
    router.subscribe({}, hangs);
    router.subscribe({}, () => expect.fail("boo"));

    expect(await router.dispatch(testCall({}, { args: cyclic as never }), async () => 1)).toBe(1);
    await waitForTurn();

    expect(problems[0]).toMatch(/^subscribers were not told of tool_call:tool__look of call call-1: .*holds itself/);
    expect(problems[1]).toMatch(/failed at tool_result:tool__look: boo/);
  });

  test("does not run when its start cannot be recorded, and keeps its result when its end cannot", async () => {
    const run = vi.fn(async () => 1);
    let failing = true;
    const { router, problems } = testRouter({
      record() {
        if (failing) throw new QmError("ledger_failed", "disk full");
      },
    });
    router.subscribe({}, () => {});

    expect(await readCode(router.dispatch(testCall(), run))).toBe("ledger_failed");
    expect(run).not.toHaveBeenCalled();

    failing = false;
    const ran = router.dispatch(testCall(), async () => {
      failing = true;
      return 2;
    });
    expect(await ran).toBe(2);
    expect(problems).toEqual(["subscribers were not told how call call-1 ended: disk full"]);
  });

  test("is listed until it ends, and can be cancelled by its id", async () => {
    const { router } = testRouter();
    let signal: Abortable | undefined;
    const work = router.dispatch(testCall(), (wish) => {
      signal = wish.signal;
      return hangs();
    });

    expect(router.underWay()).toEqual([
      { callId: "call-1", action: "tool__look", actor: "triage", since: new Date(0) },
    ]);
    expect(router.cancel("call-2")).toBe(false);
    expect(router.cancel("call-1", "the user left")).toBe(true);

    await expect(work).rejects.toMatchObject({ code: "cancelled", message: "tool__look was cancelled: the user left" });
    expect(signal?.aborted).toBe(true);
    expect(router.underWay()).toEqual([]);
    expect(router.cancel("call-1")).toBe(false);
  });

  test("is cancelled by the caller's signal", async () => {
    const { router } = testRouter();
    const outer = new AbortController();
    const work = router.dispatch(testCall({}, { signal: outer.signal }), hangs);

    outer.abort();

    expect(await readCode(work)).toBe("cancelled");
  });
});

describe("a specialist's call", () => {
  const specialist = { scope: "specialist", justification: "its own mailbox" } as const;

  test("is announced only to subscribers of its actor", async () => {
    const { router, noted } = testRouter();
    const heard: string[] = [];
    router.subscribe({}, () => heard.push("everything"));
    router.subscribe({ source: "actor:triage" }, () => heard.push("source"));
    router.subscribe({ actor: "other" }, () => heard.push("other"));
    router.subscribe({ actor: "triage", event: "tool_call:*" }, () => heard.push("owner"));

    await router.dispatch(testCall(specialist), async () => 1);
    await waitForTurn();

    expect(heard).toEqual(["owner"]);
    expect(noted("event.routed")).toEqual([expect.objectContaining({ privateTo: "triage", subscribers: 1 })]);
  });

  test("that bypasses routing reaches no subscriber and no rule, and cannot be cancelled by id", async () => {
    const { router, notes, problems } = testRouter({ getFacts: () => expect.fail("a rule was asked") });
    const heard = vi.fn();
    router.subscribe({ actor: "triage" }, heard);
    router.useRules([{ when: "true", deadlineMs: 1, retry: { attempts: 3 } }]);
    const outer = new AbortController();
    const wishes: AttemptLimits[] = [];
    const call = testCall({ ...specialist, routing: "bypass" }, { signal: outer.signal, timeoutMs: 50 });

    const work = router.dispatch(call, async (wish) => {
      wishes.push(wish);
      expect(router.underWay()).toEqual([]);
      expect(router.cancel("call-1")).toBe(false);
      throw passing();
    });

    expect(await readCode(work)).toBe("server_failed");
    await waitForTurn();
    expect(wishes).toEqual([{ signal: outer.signal, timeoutMs: 50 }]);
    expect(heard).not.toHaveBeenCalled();
    expect([notes, problems]).toEqual([[], []]);
  });

  test("that bypasses routing gets a signal even if the caller gave none", async () => {
    const { router } = testRouter();

    const given = await router.dispatch(testCall({ ...specialist, routing: "bypass" }), async ({ signal }) => signal);

    expect(given.aborted).toBe(false);
  });
});

describe("a rule about calls", () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] }));
  afterEach(() => void vi.useRealTimers());

  test("sees the event, the action, the actor and the caller", async () => {
    const { router, noted } = testRouter();
    router.useRules([
      {
        name: "all-of-it",
        when: "event.source == 'actor:triage' && event.type.endsWith(tool.name) && event.data.sum == 7 && tool.effect == 'read' && actor.name == 'triage' && ctx.session == 's1' && ctx.tenant == ''",
      },
    ]);

    await router.dispatch(testCall(), async () => 1);

    expect(noted("event.routed")).toEqual([expect.objectContaining({ rule: "all-of-it", subscribers: 0 })]);
  });

  test("sees the actor's facts of the policy", async () => {
    const { router, noted } = testRouter({
      getFacts: () => ({ tool: {}, actor: { scope: "admin" }, ctx: {}, args: {} }),
    });
    router.useRules([{ name: "admins", when: "actor.scope == 'admin'" }]);

    await router.dispatch(testCall(), async () => 1);

    expect(noted("event.routed")).toHaveLength(1);
  });

  test.each([
    ["what is pure", { effect: "pure" }, 3],
    ["what reads", { effect: "read" }, 3],
    ["what may be repeated", { effect: "external", idempotent: true }, 3],
    ["what writes", { effect: "write" }, 1],
    ["what reaches out", { effect: "external" }, 1],
    ["what has a state", { effect: "stateful" }, 1],
  ] as const)("tries %s %j so often: %i", async (_what, action, tries) => {
    const { router, noted } = testRouter();
    router.useRules([{ retry: { attempts: 3, backoffMs: 100 } }]);
    const run = vi.fn(() => Promise.reject(passing()));

    const code = readCode(router.dispatch(testCall(action), run));
    await vi.runAllTimersAsync();

    expect(await code).toBe("server_failed");
    expect(run).toHaveBeenCalledTimes(tries);
    expect(noted("call.retried")).toHaveLength(tries - 1);
  });

  test("does not retry an approved call", async () => {
    const { router } = testRouter();
    router.useRules([{ retry: { attempts: 3 } }]);
    const run = vi.fn(() => Promise.reject(passing()));

    expect(await readCode(router.dispatch(testCall({ effect: "read" }, { once: true }), run))).toBe("server_failed");

    expect(run).toHaveBeenCalledTimes(1);
  });

  test("retries until an attempt succeeds, and records each retry", async () => {
    const { router, noted } = testRouter();
    router.useRules([{ retry: { attempts: 5, backoffMs: 100 } }]);
    const run = vi.fn().mockRejectedValueOnce(passing()).mockRejectedValueOnce(passing()).mockResolvedValue("ok");

    const work = router.dispatch(testCall(), run);
    await vi.runAllTimersAsync();

    expect(await work).toBe("ok");
    const retried = { callId: "call-1", action: "tool__look", code: "server_failed", reason: "try later" };
    expect(noted("call.retried")).toEqual([
      { ...retried, attempt: 1, delayMs: 100 },
      { ...retried, attempt: 2, delayMs: 200 },
    ]);
  });

  test("applies the deadline to all attempts and pauses together", async () => {
    const { router } = testRouter();
    router.useRules([{ deadlineMs: 250, retry: { attempts: 10, backoffMs: 100 } }]);
    const run = vi.fn(() => Promise.reject(passing()));

    const code = readCode(router.dispatch(testCall(), run));
    await vi.advanceTimersByTimeAsync(250);

    expect(await code).toBe("timed_out");
    expect(run).toHaveBeenCalledTimes(2);
    expect(vi.getTimerCount()).toBe(0);
  });

  test("times out a handler that ignores its signal, and says that it may have had an effect", async () => {
    const { router } = testRouter();
    router.useRules([{ deadlineMs: 250 }]);
    const work = router.dispatch(testCall({ effect: "write" }), hangs).catch((thrown: QmError) => thrown);

    await vi.advanceTimersByTimeAsync(250);

    expect(await work).toMatchObject({ code: "timed_out", hint: expect.stringContaining("look before") });
  });

  test("reports the deadline, not the error of the aborted runner", async () => {
    const { router, noted } = testRouter();
    router.useRules([{ deadlineMs: 250, retry: { attempts: 3 } }]);
    const run = vi.fn(
      ({ signal }: AttemptLimits) =>
        new Promise<never>((_, reject) => {
          onAbort(signal, () => reject(new QmError("cancelled", "the runner was stopped")));
        }),
    );
    const code = readCode(router.dispatch(testCall(), run));

    await vi.advanceTimersByTimeAsync(250);

    expect(await code).toBe("timed_out");
    expect(run).toHaveBeenCalledTimes(1);
    expect(noted("call.retried")).toEqual([]);
  });

  test("leaves no timer after a call", async () => {
    const { router } = testRouter();
    router.useRules([{ deadlineMs: 250 }]);

    await router.dispatch(testCall(), async () => 1);

    expect(vi.getTimerCount()).toBe(0);
  });

  test("stops in a pause when the call is cancelled", async () => {
    const { router, noted } = testRouter();
    router.useRules([{ retry: { attempts: 5, backoffMs: 1000 } }]);
    const run = vi.fn(() => Promise.reject(passing()));
    const code = readCode(router.dispatch(testCall(), run));
    await vi.advanceTimersByTimeAsync(500);
    expect(noted("call.retried")).toHaveLength(1);

    expect(router.cancel("call-1")).toBe(true);

    expect(await code).toBe("cancelled");
    expect(run).toHaveBeenCalledTimes(1);
    expect(vi.getTimerCount()).toBe(0);
  });

  test("does not exceed the caller's timeout", async () => {
    const { router } = testRouter();
    router.useRules([{ retry: { attempts: 5, backoffMs: 100 } }]);
    const given: (number | undefined)[] = [];
    const code = readCode(
      router.dispatch(testCall({}, { timeoutMs: 350 }), async ({ timeoutMs }) => {
        given.push(timeoutMs);
        throw passing();
      }),
    );

    await vi.runAllTimersAsync();

    expect(await code).toBe("server_failed");
    expect(given).toEqual([350, 250, 50]);
  });

  test("does not retry when the retry cannot be recorded", async () => {
    const run = vi.fn(() => Promise.reject(passing()));
    const { router } = testRouter({
      record(_caller, { type }) {
        if (type === "call.retried") throw new QmError("ledger_failed", "disk full");
      },
    });
    router.useRules([{ retry: { attempts: 5 } }]);

    expect(await readCode(router.dispatch(testCall(), run))).toBe("ledger_failed");
    expect(run).toHaveBeenCalledTimes(1);
  });
});
