import { randomUUID } from "node:crypto";
import fc from "fast-check";
import { beforeEach, describe, expect, test, vi } from "vitest";
import type { Json } from "../core/json.ts";
import type { AnchorStore } from "./anchors.ts";
import { createAnchors } from "./anchors.ts";
import type { Destination } from "./annotated-record.ts";
import { type Annotations, annotate } from "./annotated-record.ts";
import type { Deliver, DeliveryFacts, Destinations } from "./destination-config.ts";
import { createDistributor, type DistributionLimits } from "./distributor.ts";
import { parseFieldPath } from "./field-path.ts";
import {
  about,
  annotations,
  caller,
  collecting,
  leadsTo,
  listPlaces,
  never,
  openAnchorStore,
  openDistribution,
  paths,
  record,
  records,
} from "./testing.ts";

let store: AnchorStore;
beforeEach(async () => {
  store = await openAnchorStore();
});

const open = (destinations: Destinations, limits?: Partial<DistributionLimits>, anchors = store) =>
  openDistribution(anchors, destinations, limits);

describe("a result", () => {
  test("is complete for the program, and each destination gets its view", async () => {
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

  test("comes with facts about the fields that a destination gets", async () => {
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
  ])("that is %s is refused, and no destination gets anything", async (_what, bad) => {
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

describe("for any record and annotations", () => {
  const kinds = ["hidden", "everywhere", "redacted", "anchored", "validated", "narrative"] as const;
  const rule = fc.record({ path: paths, kind: fc.constantFrom(...kinds) });
  const annotationOf = (kind: (typeof kinds)[number]): Annotations[string] => {
    if (kind === "everywhere") return { hidden: true };
    if (kind === "hidden" || kind === "redacted") return { [kind]: ["llm-session"] };
    return { composition: kind };
  };

  test("the model sees every value that is not withheld, and no withheld one", async () => {
    let kept = 0;
    const { distribute, problems } = open({});
    await fc.assert(
      fc.asyncProperty(records, fc.array(rule, { minLength: 1, maxLength: 5 }), async (given, rules) => {
        const said = Object.fromEntries(rules.map(({ path, kind }) => [path, annotationOf(kind)]));
        const keeping = Object.entries(said)
          .filter(([, { hidden, redacted, composition }]) => hidden ?? redacted ?? composition === "anchored")
          .map(([path]) => parseFieldPath(path) ?? []);

        const { forModel } = await distribute(annotate(given, said), about);

        const isKept = new Map<Json, boolean>();
        for (const { place, value } of listPlaces(given)) {
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

  test("filling the tokens restores the view", async () => {
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

  test.each(Object.keys(failing))("that %s affects no other destination, and is reported", async (way) => {
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

  test("that never finishes times out, and gets the next result", async () => {
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
      ["ui", "it did not finish within 20 ms"],
      ["ui", "it did not finish within 20 ms"],
    ]);
  });

  test("that changes its view does not affect others", async () => {
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
    expect([forModel, audit]).toMatchObject([{ id: 7 }, { id: 7 }]);
    expect(JSON.stringify([forModel, audit])).not.toMatch(/gone|"price":0/);
    expect(cache.views[0]).toMatchObject({ email: "ann@example.org", items: [{ price: 12.5 }] });
    expect(cache.told[0]?.caller).toEqual(caller);
    expect(caller.user?.id).toBe("u1");
  });

  test("sees the record as it was returned, also later", async () => {
    const ui = collecting();
    const { distribute, close } = open({ ui: ui.deliver });
    const given = structuredClone(record);

    const distributed = distribute(annotate(given, annotations), about);
    given.email = "changed";
    await distributed;
    await close();

    expect(ui.views[0]).toMatchObject({ email: "ann@example.org" });
  });

  test("that is too slow loses only the results beyond its queue", async () => {
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
      ["ui", "2 others are already waiting"],
      ["ui", "2 others are already waiting"],
    ]);
  });

  test("that fails does not reveal withheld values to the ledger", async () => {
    const { distribute, close, failures, problems } = open({
      ui: (view) => {
        throw new Error(`cannot show ${JSON.stringify(view)}`);
      },
      cache: () => {
        throw new Error("no place for 31");
      },
      "formatter:mail": {
        deliver: () => {
          throw new Error("no letter to Ann Smith");
        },
        redact: ["name"],
      },
      "formatter:sms": () => {
        throw new Error("no text to Bern");
      },
      "peer-response": () => {
        throw new Error("peer 3 is down, 313 bytes");
      },
    });

    const given = { ...record, name: "Ann Smith", city: "Bern" };
    await distribute(annotate(given, { ...annotations, city: { redacted: ["audit"] } }), about);
    await close();

    const untold = "it failed, and its message contains a withheld value";
    expect(failures()).toEqual([
      ["ui", untold],
      ["cache", untold],
      ["formatter:mail", untold],
      ["formatter:sms", untold],
      ["peer-response", "peer 3 is down, 313 bytes"],
    ]);
    expect(problems.join()).not.toMatch(/ann@|12\.5|no place|Ann Smith|Bern/);
  });

  test("fails without harm if the listeners fail too", async () => {
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

  test("gets nothing after close, and the failure is reported", async () => {
    const ui = collecting();
    const { distribute, close, failures } = open({ ui: ui.deliver });

    await close();
    const { forModel } = await distribute(annotate({ n: 1 }, {}), about);

    expect(forModel).toEqual({ n: 1 });
    expect(ui.views).toEqual([]);
    expect(failures()).toEqual([["ui", "the system is closing"]]);
  });

  test("that hangs delays close only briefly", async () => {
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
