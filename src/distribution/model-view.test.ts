import { beforeEach, describe, expect, test, vi } from "vitest";
import type { AnchorStore } from "./anchors.ts";
import { createAnchors } from "./anchors.ts";
import { annotate } from "./annotated-record.ts";
import type { Deliver, Destinations } from "./destination-config.ts";
import type { DistributionLimits } from "./distributor.ts";
import { about, annotations, caller, never, openAnchorStore, openDistribution, record } from "./testing.ts";

let store: AnchorStore;
beforeEach(async () => {
  store = await openAnchorStore();
});

const open = (destinations: Destinations, limits?: Partial<DistributionLimits>, anchors = store) =>
  openDistribution(anchors, destinations, limits);

describe("the model's view", () => {
  test("may be replaced by a shorter one", async () => {
    const { distribute, problems } = open({
      "llm-session": (view) => ({ id: (view as typeof record).id, first: (view as typeof record).items[0] }),
    });

    const { forModel } = await distribute(annotate(record, annotations), about);

    expect(forModel).toEqual({ id: 7, first: { price: expect.stringMatching(/^\{\{Price:/) } });
    expect(problems).toEqual([]);
  });

  test("is a copy of the returned view", async () => {
    const answer = { n: 1 };
    const { distribute } = open({ "llm-session": () => answer });

    const { forModel } = await distribute(annotate({ n: 0 }, {}), about);
    answer.n = 2;

    expect(forModel).toEqual({ n: 1 });
  });

  test("may be a text with tokens", async () => {
    const { distribute, problems } = open({
      "llm-session": (view) => `It costs ${(view as { items: { price: string }[] }).items[0]?.price}.`,
    });

    const { forModel } = await distribute(annotate(record, annotations), about);

    const said = await createAnchors(store).render(caller, String(forModel));
    expect(said.text).toBe("It costs 12.5.");
    expect(problems).toEqual([]);
  });

  const bad: Record<string, Deliver> = {
    "the whole record": () => record,
    "a hidden value elsewhere": () => ({ note: "write to ann@example.org" }),
    "a hidden value as a name": () => ({ "ann@example.org": 1 }),
    "a hidden number in a text": () => "margin 31 %",
    "an anchored number": () => ({ total: 12.5 }),
    "a value where a token should be": () => ({ items: [{ price: true }] }),
    "a field that is hidden, with any value": () => ({ owner: { phone: null } }),
    "a redacted field": () => ({ flag: false }),
    "a cycle": () =>
      Object.assign(
        {},
        {
          get self() {
            return this;
          },
        },
      ),
    "a function": () => () => record,
    "a big number": () => 1n,
    "what hides itself until it is written": () => ({ toJSON: () => record }),
    "an error": () => {
      throw new Error("cannot shorten");
    },
  };

  test.each(Object.keys(bad))("is the usual one when it would be %s, and that is told", async (way) => {
    const { distribute, failures } = open({ "llm-session": { deliver: bad[way] as Deliver, redact: ["flag"] } });

    const { forModel } = await distribute(annotate({ ...record, flag: false }, annotations), about);

    expect(forModel).toEqual({
      id: 7,
      owner: {},
      items: [{ price: expect.stringMatching(/^\{\{/) }],
      flag: "[redacted]",
    });
    expect(failures()).toEqual([["llm-session", expect.any(String)]]);
  });

  test("is the default one if checking another would take too long", async () => {
    const { distribute, failures } = open({ "llm-session": () => ({ text: "x".repeat(500_000) }) });
    const secrets = Array.from({ length: 500 }, (_, at) => `secret ${at}`);

    const { forModel } = await distribute(annotate({ secrets }, { secrets: { hidden: true } }), about);

    expect(forModel).toEqual({});
    expect(failures()).toHaveLength(1);
  });

  test("may contain withheld values that it shows elsewhere, and booleans", async () => {
    const { distribute, problems } = open({
      "llm-session": () => ({ open: 5, said: "yes", is: true, no: null, none: "" }),
    });
    const given = { open: 5, hidden: 5, yes: true, no: null, none: "" };
    const hidden = { hidden: ["llm-session" as const] };

    await distribute(annotate(given, { hidden, yes: hidden }), about);

    expect(problems).toEqual([]);
  });

  test("is the default one if it takes too long, or the call is cancelled", async () => {
    const signals: AbortSignal[] = [];
    const deliver: Deliver = (_view, { signal }) => {
      signals.push(signal);
      return never();
    };
    const { distribute, failures } = open({ "llm-session": { deliver, timeoutMs: 20 } });
    const cancelled = open({ "llm-session": deliver }, { modelTimeoutMs: 600_000 });
    const controller = new AbortController();

    const late = await distribute(annotate({ n: 1 }, {}), about);
    const waiting = cancelled.distribute(annotate({ n: 2 }, {}), { ...about, signal: controller.signal });
    controller.abort();

    expect(late.forModel).toEqual({ n: 1 });
    expect((await waiting).forModel).toEqual({ n: 2 });
    expect(cancelled.failures()).toEqual([["llm-session", "it was cancelled"]]);
    expect(failures()).toEqual([["llm-session", "it did not finish within 20 ms"]]);
    expect(signals[0]?.aborted).toBe(true);
  });

  test("hides values without a token: too many, or too large", async () => {
    const { distribute, failures } = open({}, { anchors: 2 });
    const given = { huge: "x".repeat(70_000), items: [1, 2, 2, 3, 1] };

    const { forModel } = await distribute(
      annotate(given, { "items[]": { composition: "anchored" }, huge: { composition: "anchored" } }),
      about,
    );

    const token = expect.stringMatching(/^\{\{items:\w{8}\}\}$/);
    expect(forModel).toEqual({ items: [token, token, token, token] });
    expect(failures()).toEqual([
      ["llm-session", expect.stringContaining("2 anchored values are hidden: there are more than 2")],
    ]);
  });

  test("can have two thousand tokens", async () => {
    const { distribute, failures } = open({});
    const items = Array.from({ length: 2_001 }, (_, at) => at);

    const { forModel } = await distribute(annotate({ items }, { "items[]": { composition: "anchored" } }), about);

    expect((forModel as { items: unknown[] }).items).toHaveLength(2_000);
    expect(failures()).toHaveLength(1);
    expect((await createAnchors(store).fill(caller, forModel)).args).toEqual({ items: items.slice(0, 2_000) });
  });

  test("hides anchored values if the tokens cannot be stored", async () => {
    const broken: AnchorStore = { ...store, put: () => Promise.reject(new Error("disk is full: 12.5")) };
    const taken: AnchorStore = { ...store, put: async () => false };

    for (const anchors of [broken, taken]) {
      const { distribute, failures, problems } = open({}, {}, anchors);
      const { forModel } = await distribute(annotate(record, annotations), about);
      expect(forModel).toEqual({ id: 7, owner: {}, items: [{}] });
      expect(failures()).toEqual([["llm-session", expect.any(String)]]);
      expect(problems.join()).not.toContain("12.5");
    }
  });

  test("gets other tokens if the first ones exist", async () => {
    const put = vi.fn(store.put).mockResolvedValueOnce(false);
    const { distribute, problems } = open({}, {}, { ...store, put });

    const { forModel } = await distribute(annotate(record, annotations), about);

    const [first, second] = put.mock.calls.map(([, values]) => [...values.keys()]);
    expect(first).not.toEqual(second);
    expect(forModel).toMatchObject({ items: [{ price: `{{${second?.[0]}}}` }] });
    expect(problems).toEqual([]);
  });

  test("has tokens that are pruned after thirty days, once a day", async () => {
    const prune = vi.fn(store.prune);
    const { distribute, passTime } = open({}, {}, { ...store, prune });
    const anchored = annotate(record, annotations);
    const day = 86_400_000;

    await distribute(annotate(record, {}), about);
    expect(prune).not.toHaveBeenCalled();
    await distribute(anchored, about);
    await distribute(anchored, about);
    passTime(day);
    await distribute(anchored, about);

    expect(prune.mock.calls).toEqual([[new Date("2025-12-03T03:04:05Z")], [new Date("2025-12-04T03:04:05Z")]]);
  });
});
