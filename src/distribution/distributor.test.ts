import { randomUUID } from "node:crypto";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { Caller } from "../core/caller.ts";
import type { Json } from "../core/json.ts";
import { actionName } from "../core/names.ts";
import { anchorStore } from "../store/anchors.ts";
import { openSqlite } from "../store/drivers/sqlite.ts";
import { migrate } from "../store/migrations.ts";
import type { SqlDriver } from "../store/sql.ts";
import type { AnchorStore } from "./anchor-store.ts";
import { createAnchors } from "./anchors.ts";
import { type Annotations, annotate } from "./annotated-record.ts";
import type { Destination } from "./destination.ts";
import type { Deliver, DeliveryFacts, Destinations } from "./destinations.ts";
import { createDistributor, type DistributionEvent, type DistributionLimits } from "./distributor.ts";
import { parsePath } from "./field-path.ts";
import { leadsTo, paths, placesOf, records } from "./testing.ts";

const caller: Caller = { actor: "sales", session: "s1", user: { id: "u1", tier: "gold" } };
const about = { callId: "c1", action: actionName("tool", "quote"), caller };
const record = { id: 7, email: "ann@example.org", owner: { phone: "555-0199" }, items: [{ price: 12.5, margin: 31 }] };
const annotations: Annotations = {
  email: { hidden: ["llm-session"], redacted: ["audit"], label: "E-mail" },
  "owner.phone": { hidden: true },
  "items[].price": { composition: "anchored", label: "Price", temporal: "as of today" },
  "items[].margin": { hidden: ["llm-session", "formatter:*"] },
};

let db: SqlDriver;
let store: AnchorStore;

beforeEach(async () => {
  db = await openSqlite(":memory:");
  await migrate(db);
  store = anchorStore(db, () => new Date("2026-01-02T03:04:05Z"));
});
afterEach(() => db.close());

function open(destinations: Destinations, limits: Partial<DistributionLimits> = {}, anchors = store) {
  const events: DistributionEvent[] = [];
  const problems: string[] = [];
  let time = Date.parse("2026-01-02T03:04:05Z");
  const distributor = createDistributor({
    destinations,
    anchors,
    runtime: { now: () => new Date(time), elapsed: () => 0, newId: randomUUID },
    note: (_caller, event) => void events.push(event),
    onProblem: (problem) => void problems.push(problem),
    limits,
  });
  const failures = () => events.map(({ data }) => [data.destination, data.reason]);
  const passTime = (ms: number): void => {
    time += ms;
  };
  return { ...distributor, problems, failures, passTime };
}

/** A destination that can be waited for. */
function collecting() {
  const views: Json[] = [];
  const told: DeliveryFacts[] = [];
  const waiting: (() => void)[] = [];
  const deliver: Deliver = (view, facts) => {
    views.push(view);
    told.push(facts);
    for (const tell of waiting.splice(0)) tell();
  };
  const reached = async (count: number): Promise<void> => {
    while (views.length < count) await new Promise<void>((resolve) => waiting.push(resolve));
  };
  return { views, told, deliver, reached };
}

const never = (): Promise<never> => new Promise(() => {});

describe("a result", () => {
  test("is whole for programs, and each destination has its own view of it", async () => {
    const seen = { ui: collecting(), cache: collecting(), audit: collecting(), peer: collecting(), mail: collecting() };
    const { distribute, close, problems } = open({
      ui: seen.ui.deliver,
      cache: { deliver: seen.cache.deliver, hide: ["items[].margin"], redact: ["email"] },
      audit: { deliver: seen.audit.deliver, redact: ["id"] },
      "peer-response": seen.peer.deliver,
      "formatter:mail": seen.mail.deliver,
    });

    const { data, forModel, audit } = await distribute(annotate(record, annotations), about);
    await close();

    expect(data).toBe(record);
    expect(forModel).toEqual({ id: 7, owner: {}, items: [{ price: expect.stringMatching(/^\{\{Price:\w{8}\}\}$/) }] });
    const full = { id: 7, email: "ann@example.org", owner: {}, items: [{ price: 12.5, margin: 31 }] };
    expect(seen.ui.views).toEqual([full]);
    expect(seen.peer.views).toEqual([full]);
    expect(seen.cache.views).toEqual([{ ...full, email: "[redacted]", items: [{ price: 12.5 }] }]);
    expect(seen.mail.views).toEqual([{ ...full, items: [{ price: 12.5 }] }]);
    expect(audit).toEqual({ ...full, id: "[redacted]", email: "[redacted]" });
    expect(seen.audit.views).toEqual([audit]);
    expect(problems).toEqual([]);
  });

  test("comes with what is said of the fields that a destination gets", async () => {
    const ui = collecting();
    const audit = collecting();
    const { distribute, close } = open({ ui: ui.deliver, audit: audit.deliver });

    await distribute(annotate(record, annotations), about);
    await close();

    const price = { "items[].price": { composition: "anchored", label: "Price", temporal: "as of today" } };
    expect(ui.told[0]).toMatchObject({ callId: "c1", action: "tool__quote", caller, destination: "ui" });
    expect(ui.told[0]?.fields).toEqual({ email: { label: "E-mail" }, ...price });
    expect(audit.told[0]?.fields).toEqual(price);
  });

  test.each<[string, unknown]>([
    [
      "a cycle",
      Object.assign(
        {},
        {
          get self() {
            return this;
          },
        },
      ),
    ],
    ["a big number", { n: 1n }],
    [
      "a getter that throws",
      {
        get boom() {
          throw "no error at all";
        },
      },
    ],
    ["lists beyond any depth", { email: JSON.parse(`${"[".repeat(3_000)}${"]".repeat(3_000)}`) }],
  ])("that is %s is refused, and nobody gets anything", async (_what, bad) => {
    const ui = collecting();
    const { distribute, close } = open({ ui: ui.deliver });

    const refused = distribute(annotate(bad, { "email.x": { hidden: ["llm-session"] } }), about);

    await expect(refused).rejects.toMatchObject({ code: "invalid_output" });
    await close();
    expect(ui.views).toEqual([]);
  });

  test.each([
    ["nothing", undefined],
    ["null", null],
    ["a text", "text"],
    ["a list", [1]],
  ])("may be %s", async (_what, plain) => {
    const { distribute } = open({});

    expect(await distribute(annotate(plain, annotations), about)).toEqual({
      data: plain ?? null,
      forModel: plain ?? null,
      audit: plain ?? null,
    });
  });
});

describe("whatever the record and the annotations", () => {
  const kinds = ["hidden", "everywhere", "redacted", "anchored", "validated", "narrative"] as const;
  const rule = fc.record({ path: paths, kind: fc.constantFrom(...kinds) });
  const annotationOf = (kind: (typeof kinds)[number]): Annotations[string] => {
    if (kind === "everywhere") return { hidden: true };
    if (kind === "hidden" || kind === "redacted") return { [kind]: ["llm-session"] };
    return { composition: kind };
  };

  test("the model sees every value that is not kept from it, and none that is", async () => {
    let kept = 0;
    const { distribute, problems } = open({});
    await fc.assert(
      fc.asyncProperty(records, fc.array(rule, { minLength: 1, maxLength: 5 }), async (given, rules) => {
        const said = Object.fromEntries(rules.map(({ path, kind }) => [path, annotationOf(kind)]));
        const keeping = Object.entries(said)
          .filter(([, { hidden, redacted, composition }]) => hidden ?? redacted ?? composition === "anchored")
          .map(([path]) => parsePath(path) ?? []);

        const { forModel } = await distribute(annotate(given, said), about);

        const isKept = new Map<Json, boolean>();
        for (const { place, value } of placesOf(given)) {
          const above = place.map((_, at) => place.slice(0, at + 1));
          if (typeof value !== "string" && typeof value !== "number") continue;
          isKept.set(
            value,
            keeping.some((path) => [[], ...above].some((at) => leadsTo(path, at, isListAt(given, at)))),
          );
        }
        const text = JSON.stringify(forModel);
        for (const [value, is] of isKept) {
          if (is) kept++;
          expect(text.includes(JSON.stringify(value))).toBe(!is);
        }
      }),
      { numRuns: 500 },
    );
    expect(kept).toBeGreaterThan(100);
    expect(problems).toEqual([]);
  });

  test("what is anchored is what fills the view, and nothing else is missing", async () => {
    const { distribute } = open({});
    const anchors = createAnchors(store);
    await fc.assert(
      fc.asyncProperty(records, fc.array(paths, { minLength: 1, maxLength: 4 }), async (given, anchored) => {
        const said = Object.fromEntries(anchored.map((path) => [path, annotationOf("anchored")]));

        const { forModel } = await distribute(annotate(given, said), about);

        expect((await anchors.fill(caller, forModel)).args).toEqual(given);
      }),
      { numRuns: 200 },
    );
  });
});

function isListAt(value: Json, place: readonly (string | number)[]): boolean {
  let at: unknown = value;
  for (const step of place) at = Object.getOwnPropertyDescriptor(at, step)?.value;
  return Array.isArray(at);
}

describe("one destination", () => {
  const failing: Record<string, Deliver> = {
    "throws at once": () => {
      throw new Error("ui is down");
    },
    rejects: () => Promise.reject(new Error("ui is down")),
    "throws what is no error": () => {
      throw null;
    },
    "throws what cannot be shown": () => {
      throw {
        toString: () => {
          throw new Error("ha");
        },
      };
    },
    "answers what fails when it is waited for": () =>
      new Proxy(
        {},
        {
          get: () => {
            throw new Error("ui is down");
          },
        },
      ),
  };

  test.each(Object.keys(failing))("that %s affects nobody else, and is told", async (way) => {
    const cache = collecting();
    const { distribute, close, failures, problems } = open({ ui: failing[way] as Deliver, cache: cache.deliver });

    const first = await distribute(annotate(record, annotations), about);
    await distribute(annotate(record, annotations), about);
    await close();

    expect(first.forModel).toMatchObject({ id: 7 });
    expect(cache.views).toHaveLength(2);
    expect(failures().map(([destination]) => destination)).toEqual(["ui", "ui"]);
    expect(problems).toHaveLength(2);
  });

  test("that never ends is given up, and gets the next all the same", async () => {
    const ui = collecting();
    const signals: AbortSignal[] = [];
    const cache = collecting();
    const { distribute, close, failures } = open({
      ui: {
        deliver(view, facts) {
          ui.deliver(view, facts);
          signals.push(facts.signal);
          return never();
        },
        timeoutMs: 20,
      },
      cache: cache.deliver,
    });

    await distribute(annotate({ n: 1 }, {}), about);
    await distribute(annotate({ n: 2 }, {}), about);
    await cache.reached(2);
    await close();

    expect(ui.views).toEqual([{ n: 1 }, { n: 2 }]);
    expect(signals.every(({ aborted }) => aborted)).toBe(true);
    expect(failures()).toEqual([
      ["ui", "it did not end within 20 ms"],
      ["ui", "it did not end within 20 ms"],
    ]);
  });

  test("that changes what it is given changes nothing for others", async () => {
    const spoiled = (view: Json, { caller: given }: DeliveryFacts): void => {
      Object.assign((view as { items: object[] }).items[0] ?? {}, { price: 0 });
      Object.assign(view as object, { email: "gone" });
      Object.assign(given.user ?? {}, { id: "somebody else" });
    };
    const cache = collecting();
    const { distribute, close } = open({ ui: spoiled, "llm-session": spoiled, cache: cache.deliver });
    const given = structuredClone(record);

    const { data, forModel, audit } = await distribute(annotate(given, annotations), about);
    await close();

    expect(data).toEqual(record);
    expect(JSON.stringify([forModel, audit])).not.toMatch(/gone|"price":0/);
    expect(cache.views[0]).toMatchObject({ email: "ann@example.org", items: [{ price: 12.5 }] });
    expect(cache.told[0]?.caller).toEqual(caller);
    expect(caller.user?.id).toBe("u1");
  });

  test("that comes later sees the record as it was answered", async () => {
    const ui = collecting();
    const { distribute, close } = open({ ui: ui.deliver });
    const given = structuredClone(record);

    const distributed = distribute(annotate(given, annotations), about);
    given.email = "changed";
    await distributed;
    await close();

    expect(ui.views[0]).toMatchObject({ email: "ann@example.org" });
  });

  test("that is too slow loses what is beyond its queue, in order, and only that", async () => {
    const ui = collecting();
    let release = (): void => {};
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    const cache = collecting();
    const { distribute, close, failures } = open(
      {
        async ui(view, facts) {
          ui.deliver(view, facts);
          await gate;
        },
        cache: cache.deliver,
      },
      { waiting: 2 },
    );

    for (let n = 1; n <= 5; n++) {
      await distribute(annotate({ n }, {}), about);
      await cache.reached(n);
    }
    release();
    await close();

    expect(ui.views).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }]);
    expect(cache.views).toHaveLength(5);
    expect(failures()).toEqual([
      ["ui", "2 others are waiting already"],
      ["ui", "2 others are waiting already"],
    ]);
  });

  test("that fails does not tell the ledger what is kept back", async () => {
    const { distribute, close, failures, problems } = open({
      ui: (view) => {
        throw new Error(`cannot show ${JSON.stringify(view)}`);
      },
      cache: () => {
        throw new Error("no place for 31");
      },
      "peer-response": () => {
        throw new Error("peer 3 is down, 313 bytes");
      },
    });

    await distribute(annotate(record, annotations), about);
    await close();

    const untold = "it failed, and what it said holds a value that is kept back";
    expect(failures()).toEqual([
      ["ui", untold],
      ["cache", untold],
      ["peer-response", "peer 3 is down, 313 bytes"],
    ]);
    expect(problems.join()).not.toMatch(/ann@|12\.5|no place/);
  });

  test("fails without harm where those who are told fail too", async () => {
    const distributor = createDistributor({
      destinations: {
        ui: () => Promise.reject(new Error("down")),
        "llm-session": () => Promise.reject(new Error("down")),
      },
      anchors: store,
      runtime: { now: () => new Date(), elapsed: () => 0, newId: randomUUID },
      note: () => {
        throw new Error("ledger is closed");
      },
      onProblem: () => {
        throw new Error("log is closed");
      },
    });

    const { forModel } = await distributor.distribute(annotate({ n: 1 }, {}), about);
    await distributor.close();

    expect(forModel).toEqual({ n: 1 });
  });

  test("gets nothing more once all is closed, and that is told", async () => {
    const ui = collecting();
    const { distribute, close, failures } = open({ ui: ui.deliver });

    await close();
    const { forModel } = await distribute(annotate({ n: 1 }, {}), about);

    expect(forModel).toEqual({ n: 1 });
    expect(ui.views).toEqual([]);
    expect(failures()).toEqual([["ui", "the system is closing"]]);
  });

  test("that hangs holds up the end for a moment only", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    try {
      const ui = collecting();
      const { distribute, close, failures } = open({
        ui(view, facts) {
          ui.deliver(view, facts);
          return never();
        },
      });
      await distribute(annotate({ n: 1 }, {}), about);
      await distribute(annotate({ n: 2 }, {}), about);
      const closed = close();
      await vi.advanceTimersByTimeAsync(5_000);
      await closed;

      expect(ui.views).toEqual([{ n: 1 }]);
      expect(failures()).toEqual([
        ["ui", "it was cancelled"],
        ["ui", "it was cancelled"],
      ]);
    } finally {
      vi.useRealTimers();
    }
  });
});

describe("the model's view", () => {
  test("may be another one, a shorter say", async () => {
    const { distribute, problems } = open({
      "llm-session": (view) => ({ id: (view as typeof record).id, first: (view as typeof record).items[0] }),
    });

    const { forModel } = await distribute(annotate(record, annotations), about);

    expect(forModel).toEqual({ id: 7, first: { price: expect.stringMatching(/^\{\{Price:/) } });
    expect(problems).toEqual([]);
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

  test("is not kept from saying what it sees elsewhere, or what gives nobody away", async () => {
    const { distribute, problems } = open({
      "llm-session": () => ({ open: 5, said: "yes", is: true, no: null, none: "" }),
    });
    const given = { open: 5, hidden: 5, yes: true, no: null, none: "" };
    const hidden = { hidden: ["llm-session" as const] };

    await distribute(annotate(given, { hidden, yes: hidden }), about);

    expect(problems).toEqual([]);
  });

  test("is the usual one when it takes too long, or the call is cancelled", async () => {
    const signals: AbortSignal[] = [];
    const deliver: Deliver = (_view, { signal }) => {
      signals.push(signal);
      return never();
    };
    const { distribute, failures } = open({ "llm-session": { deliver, timeoutMs: 20 } });
    const cancelled = open({ "llm-session": deliver });
    const controller = new AbortController();

    const late = await distribute(annotate({ n: 1 }, {}), about);
    const waiting = cancelled.distribute(annotate({ n: 2 }, {}), { ...about, signal: controller.signal });
    controller.abort();

    expect(late.forModel).toEqual({ n: 1 });
    expect((await waiting).forModel).toEqual({ n: 2 });
    expect(failures()).toEqual([["llm-session", "it did not end within 20 ms"]]);
    expect(signals[0]?.aborted).toBe(true);
  });

  test("has nothing in place of what has no token, because there are too many or one is too large", async () => {
    const { distribute, failures } = open({}, { anchors: 2 });
    const given = { items: [1, 2, 2, 3, 1], huge: "x".repeat(70_000) };

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

  test("takes two thousand tokens", async () => {
    const { distribute, failures } = open({});
    const items = Array.from({ length: 2_001 }, (_, at) => at);

    const { forModel } = await distribute(annotate({ items }, { "items[]": { composition: "anchored" } }), about);

    expect((forModel as { items: unknown[] }).items).toHaveLength(2_000);
    expect(failures()).toHaveLength(1);
    expect((await createAnchors(store).fill(caller, forModel)).args).toEqual({ items: items.slice(0, 2_000) });
  });

  test("has nothing in place of what is anchored when the tokens cannot be kept", async () => {
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

  test("gets other tokens where those are taken", async () => {
    const put = vi.fn(store.put).mockResolvedValueOnce(false);
    const { distribute, problems } = open({}, {}, { ...store, put });

    const { forModel } = await distribute(annotate(record, annotations), about);

    const [first, second] = put.mock.calls.map(([, values]) => [...values.keys()]);
    expect(first).not.toEqual(second);
    expect(forModel).toMatchObject({ items: [{ price: `{{${second?.[0]}}}` }] });
    expect(problems).toEqual([]);
  });

  test("has tokens that are forgotten after thirty days, looked for once a day", async () => {
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

describe("destinations", () => {
  test.each<[string, unknown]>([
    ["of an unknown name", { screen: () => {} }],
    ["for all formatters", { "formatter:*": () => {} }],
    ["that cannot deliver", { ui: {} }],
    ["that are no function", { ui: "file" }],
    ["with a misspelled key", { ui: { deliver() {}, hidden: [] } }],
    ["with a garbled path", { ui: { deliver() {}, hide: ["a..b"] } }],
    ["with a path that is none", { ui: { deliver() {}, redact: [undefined] } }],
    ["with paths that are no list", { ui: { deliver() {}, redact: "a" } }],
    ["with no time at all", { ui: { deliver() {}, timeoutMs: 0 } }],
    ["with time without end", { ui: { deliver() {}, timeoutMs: Number.POSITIVE_INFINITY } }],
  ])("%s are refused", (_what, destinations) => {
    expect(() => open(destinations as Record<Destination, Deliver>)).toThrowError(
      expect.objectContaining({ code: "invalid_config" }),
    );
  });
});
