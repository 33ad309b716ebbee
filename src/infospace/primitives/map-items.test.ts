import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Json } from "../../core/json.ts";
import { type MapItemResult, type MapOptions, type MappedItem, mapItems } from "./map-items.ts";
import type { PrimitiveItem } from "./operation.ts";
import { createEndlessItems, streamItems } from "./testing.ts";

async function all(items: AsyncIterable<MappedItem>): Promise<MappedItem[]> {
  const taken: MappedItem[] = [];
  for await (const each of items) taken.push(each);
  return taken;
}

/** So many turns of the event loop later, for an end in any order. */
async function turns(count: number): Promise<void> {
  for (let index = 0; index < count; index++) await Promise.resolve();
}

const done = (content: Json): MapItemResult => ({ status: "done", content });

/** What becomes of an item, by itself. */
const results: readonly ((position: number) => MapItemResult)[] = [
  (position) => done({ position }),
  () => ({ status: "empty" }),
  (position) => ({ status: "failed", code: "denied", message: `no ${position}` }),
  (position) => ({ status: "waiting", approvalId: `ap-${position}` }),
  (position) => ({ status: "dropped", reason: `why ${position}` }),
];

const someWork = fc.array(fc.record({ kind: fc.nat({ max: results.length - 1 }), turns: fc.nat({ max: 30 }) }), {
  maxLength: 40,
});

/** Work that says how many of it were under way, and how far one ran ahead of the first that had not ended. */
function watched(work: readonly { readonly kind: number; readonly turns: number }[]) {
  let running = 0;
  const facts = { most: 0, started: [] as number[] };
  return {
    facts,
    async run(_: PrimitiveItem, position: number): Promise<MapItemResult> {
      facts.started.push(position);
      facts.most = Math.max(facts.most, ++running);
      await turns(work[position]?.turns ?? 0);
      running--;
      return results[work[position]?.kind ?? 0]?.(position) ?? { status: "empty" };
    },
  };
}

describe("map", () => {
  test("agrees with a loop over an array, in order, and counts everything", async () => {
    await fc.assert(
      fc.asyncProperty(
        someWork,
        fc.integer({ min: 1, max: 6 }),
        fc.nat({ max: 45 }),
        async (work, concurrency, limit) => {
          // With 16 that wait, no more are started.
          fc.pre(work.filter(({ kind }) => kind === 3).length < 16);
          const { run, facts } = watched(work);
          const { items, report, approvals } = mapItems(
            streamItems(
              work.map(({ kind }) => kind),
              1,
            ),
            run,
            { concurrency, limit },
          );
          const mapped = await all(items);
          const taken = work.slice(0, limit);
          const of = (kind: number) => taken.flatMap((each, position) => (each.kind === kind ? [position] : []));

          expect(mapped.map(({ position }) => position)).toEqual(of(0));
          expect(mapped.map(({ content }) => content)).toEqual(of(0).map((position) => ({ position })));
          expect(mapped.map(({ source }) => source)).toEqual(
            of(0).map((position) => ({ id: position + 1, content: 0 })),
          );
          expect(report()).toEqual({
            taken: taken.length,
            done: of(0).length,
            empty: of(1).length,
            failed: of(2).length,
            waiting: of(3).length,
            dropped: of(4).length,
            failures: of(2)
              .slice(0, 5)
              .map((position) => ({ position, code: "denied", message: `no ${position}` })),
            reasons: of(4)
              .slice(0, 3)
              .map((position) => ({ position, reason: `why ${position}` })),
            ...(limit < work.length ? { stopped_by: "limit", next: limit } : {}),
          });
          expect([...approvals]).toEqual(of(3).map((position) => [position, `ap-${position}`]));
          expect(facts.most).toBeLessThanOrEqual(concurrency);
          expect(facts.started).toEqual(taken.map((_, position) => position));
        },
      ),
      { numRuns: 300 },
    );
  });

  test("runs as many items at a time as allowed", async () => {
    const { run, facts } = watched(Array.from({ length: 20 }, () => ({ kind: 0, turns: 40 })));
    await all(mapItems(streamItems(Array(20).fill(0)), run, { concurrency: 4 }).items);

    expect(facts.most).toBe(4);
  });

  test("does not run far ahead of a slow item or a slow reader", async () => {
    let finish: (result: MapItemResult) => void = () => undefined;
    const slow = new Promise<MapItemResult>((resolve) => {
      finish = resolve;
    });
    const source = createEndlessItems((n) => n);
    let started = 0;
    const { items } = mapItems(
      source.inputs,
      (_, position) => {
        started++;
        return position === 0 ? slow : Promise.resolve(done(position));
      },
      { concurrency: 3 },
    );
    const first = items[Symbol.asyncIterator]();
    const reading = first.next();
    await turns(2000);
    expect(started).toBe(12);
    finish(done("slow"));

    expect((await reading).value).toMatchObject({ position: 0, content: "slow" });
    await turns(2000);
    expect(started).toBe(12);
    await first.return(undefined);
  });

  test.each<[string, Partial<MapOptions>, number]>([
    ["time", { stopWhen: nth(4) }, 0],
    ["failure", { stopOnFailure: true }, 2],
  ])("stops by %s, with what was started counted and the place to go on", async (stoppedBy, how, failing) => {
    const { items, report } = mapItems(
      streamItems([0, 1, 2, 3, 4, 5]),
      async (_, position) => results[position === 102 ? failing : 0]?.(position) ?? done(0),
      { concurrency: 1, from: 100, ...how },
    );
    const mapped = await all(items);

    expect(mapped.map(({ position }) => position)).toEqual(
      [100, 101, 102].filter((position) => position !== 102 || stoppedBy === "time"),
    );
    expect(report()).toMatchObject({ taken: 3, stopped_by: stoppedBy, next: 103 });
  });

  test("reports no stop if no item was left", async () => {
    const { items, report } = mapItems(streamItems([0, 1]), async () => done(1), {
      concurrency: 1,
      limit: 2,
      stopWhen: nth(3),
    });

    expect(await all(items)).toHaveLength(2);
    expect(report().stopped_by).toBeUndefined();
    expect(report().next).toBeUndefined();
  });

  test("waits for running items after an abort, and yields their results", async () => {
    const controller = new AbortController();
    async function* inputs(): AsyncGenerator<PrimitiveItem> {
      for (let n = 0; ; n++) {
        controller.signal.throwIfAborted();
        yield { content: n };
      }
    }
    const { items, report } = mapItems(
      inputs(),
      async (_, position) => {
        if (position === 3) controller.abort();
        await turns(10);
        return done(position);
      },
      { concurrency: 2, signal: controller.signal },
    );
    const mapped = await all(items);

    expect(mapped.map(({ content }) => content)).toEqual([0, 1, 2, 3]);
    expect(report()).toMatchObject({ taken: 4, done: 4, stopped_by: "cancelled", next: 4 });
  });

  test("yields the results before the input fails", async () => {
    async function* inputs(): AsyncGenerator<PrimitiveItem> {
      yield { content: 1 };
      yield { content: 2 };
      throw new Error("no more disk");
    }
    const { items } = mapItems(inputs(), async (_, position) => done(position), { concurrency: 4 });
    const taken: Json[] = [];
    const reading = (async () => {
      for await (const { content } of items) taken.push(content);
    })();

    await expect(reading).rejects.toThrow("no more disk");
    expect(taken).toEqual([0, 1]);
  });

  test("counts a rejection as a failure", async () => {
    const { items, report } = mapItems(
      streamItems([0, 1]),
      async (_, position) => {
        if (position === 0) throw new Error("broken");
        return done(1);
      },
      { concurrency: 2 },
    );

    expect(await all(items)).toHaveLength(1);
    expect(report()).toMatchObject({
      done: 1,
      failed: 1,
      failures: [{ position: 0, code: "internal", message: "broken" }],
    });
  });

  test("closes its input when its reader stops, and leaves nothing running", async () => {
    let isEnded = false;
    let running = 0;
    async function* inputs(): AsyncGenerator<PrimitiveItem> {
      try {
        for (;;) yield { content: 0 };
      } finally {
        isEnded = true;
      }
    }
    const { items } = mapItems(
      inputs(),
      async () => {
        running++;
        await turns(20);
        running--;
        return done(1);
      },
      { concurrency: 4 },
    );
    for await (const _ of items) break;

    expect(isEnded).toBe(true);
    expect(running).toBe(0);
  });
});

/** True from the nth time on. */
function nth(number: number): () => boolean {
  let asked = 0;
  return () => ++asked >= number;
}
