import { describe, expect, onTestFinished, test, vi } from "vitest";
import { QmError } from "../../core/errors.ts";
import type { Embedder } from "../embedders/embedder.ts";
import { createHitOrder } from "../hits.ts";
import type { SemanticIndex } from "./semantic-index.ts";
import {
  actions,
  createGate,
  createSearchView,
  openIndex,
  searchNames,
  testAction,
  testActions,
  wordEmbedder,
  wordVector,
} from "./testing.ts";
import type { VectorStore } from "./vector-set.ts";

const order = createHitOrder();
const opened = () => openIndex(onTestFinished);

describe("a build", () => {
  test("embeds everything once, and enables search by meaning", async () => {
    const { indexWith } = await opened();
    const embedder = wordEmbedder();
    const onBuilt = vi.fn();
    const index = indexWith(embedder, { onBuilt });
    expect(index.status()).toEqual({ state: "waiting", model: "words", done: 0, total: 0 });
    const steps: string[] = [];

    const report = await index.build(actions, { onProgress: ({ done, total }) => steps.push(`${done}/${total}`) });

    expect(report).toMatchObject({ embedded: actions.map(({ name }) => name).sort(), reused: 0, model: "words" });
    expect(onBuilt.mock.calls).toEqual([[report]]);
    expect(steps).toEqual(["0/40", "32/40", "40/40"]);
    expect(index.status()).toEqual({ state: "ready", model: "words", done: 40, total: 40, rows: 40, embedded: 40 });
    expect(await searchNames(index, "what handles thing17 well")).toContain("tool__thing_17");
    expect(embedder.texts).toHaveLength(40);
  });

  test("of an unchanged catalog embeds and writes nothing", async () => {
    const { indexWith, changes } = await opened();
    await indexWith(wordEmbedder()).build(actions);
    const embedder = wordEmbedder();
    const onBuilt = vi.fn();
    const index = indexWith(embedder, { onBuilt });
    const before = await changes();

    const report = await index.build(actions.toReversed());
    index.follow(actions);
    await index.settled();

    expect(report).toMatchObject({ embedded: [], reused: 40 });
    expect(await searchNames(index, "thing3")).toContain("tool__thing_3");
    expect(await changes()).toBe(before);
    expect([embedder.texts, onBuilt.mock.calls]).toEqual([[], []]);
  });

  test("embeds only a changed action, and nothing for a removed one", async () => {
    const { indexWith } = await opened();
    const embedder = wordEmbedder();
    const onBuilt = vi.fn();
    const index = indexWith(embedder, { onBuilt });
    await index.build(actions);
    embedder.texts.length = 0;
    const changed = [...actions.slice(0, 38), testAction("tool__thing_38", "Peels bananas.")];

    const report = await index.build(changed);

    expect(embedder.texts).toEqual(["tool thing 38\nPeels bananas."]);
    expect(report).toMatchObject({ embedded: ["tool__thing_38"], reused: 38 });
    expect((await searchNames(index, "peels bananas", changed))[0]).toBe("tool__thing_38");
    expect(await searchNames(index, "handles thing39 well", changed)).not.toContain("tool__thing_39");
    expect(await index.build(changed.slice(1))).toMatchObject({ embedded: [], reused: 38 });
    expect(onBuilt).toHaveBeenCalledTimes(2);
  });

  test("for another model embeds everything, and leaves the first one's vectors alone", async () => {
    const { indexWith } = await opened();
    const [first, second] = [wordEmbedder("first"), wordEmbedder("second")];
    await indexWith(first).build(actions);

    const report = await indexWith(second).build(actions);
    const again = await indexWith(first).build(actions);

    expect(report).toMatchObject({ model: "second", reused: 0 });
    expect(again).toMatchObject({ model: "first", embedded: [] });
    expect([first.texts.length, second.texts.length]).toEqual([40, 40]);
  });

  test("embeds everything again if forced", async () => {
    const { indexWith } = await opened();
    const embedder = wordEmbedder();
    const counts: number[] = [];
    const building = async (index: SemanticIndex, options = {}) => {
      const before = embedder.texts.length;
      await index.build(actions, options);
      counts.push(embedder.texts.length - before);
    };

    const plain = indexWith(embedder);
    for (const options of [{}, {}, { force: true }]) await building(plain, options);
    const fresh = indexWith(embedder, { rebuild: true });
    for (const options of [{}, {}]) await building(fresh, options);

    expect(counts).toEqual([40, 0, 40, 40, 0]);
  });

  test("that is not incremental embeds everything again only for a changed catalog", async () => {
    const { indexWith } = await opened();
    const embedder = wordEmbedder();
    await indexWith(embedder).build(actions);
    embedder.texts.length = 0;
    const index = indexWith(embedder, { incremental: false });

    expect(await index.build(actions)).toMatchObject({ embedded: [], reused: 40 });
    expect((await index.build(actions.slice(1))).embedded).toHaveLength(39);
    expect(await index.build(actions.slice(1))).toMatchObject({ embedded: [] });

    expect(embedder.texts).toHaveLength(39);
  });

  test("at the same time as another that is not incremental embeds nothing twice", async () => {
    const { indexWith } = await opened();
    const embedder = wordEmbedder("words", () => new Promise((resolve) => setTimeout(resolve, 20)));

    await Promise.all([0, 1, 2].map(() => indexWith(embedder, { incremental: false }).build(actions)));

    expect(embedder.texts).toHaveLength(40);
  });

  test("with rebuild happens once, and searches use the old vectors until then", async () => {
    const { indexWith } = await opened();
    await indexWith(wordEmbedder()).build(actions);
    const { gate, go } = createGate();
    const embedder = wordEmbedder("words", (_signal, texts) => (texts[0]?.startsWith("tool") ? gate : undefined));
    const index = indexWith(embedder, { rebuild: true });

    index.follow(actions);
    await expect.poll(() => embedder.texts.length).toBe(32);
    const building = index.build(actions);

    expect(index.status()).toMatchObject({ state: "building", rows: 40 });
    expect(await searchNames(index, "thing17")).toContain("tool__thing_17");
    go();
    expect(await building).toMatchObject({ embedded: [], reused: 40 });
    await expect
      .poll(() => index.status())
      .toEqual({ state: "ready", model: "words", done: 40, total: 40, rows: 40, embedded: 0 });
    expect(embedder.texts).toHaveLength(40);
  });

  test("with rebuild is retried after a failure, and waiting builds can be cancelled", async () => {
    const { indexWith } = await opened();
    await indexWith(wordEmbedder()).build(actions);
    const { gate, go } = createGate();
    let works = false;
    const embedder = wordEmbedder("words", async () => {
      await gate;
      if (!works) throw new Error("down");
    });
    const index = indexWith(embedder, { rebuild: true });
    const caller = new AbortController();

    const first = index.build(actions);
    await expect.poll(() => embedder.texts.length).toBe(32);
    const second = index.build(actions, { signal: caller.signal });
    await expect.poll(() => index.status().rows).toBe(40);
    caller.abort();
    await expect(second).rejects.toMatchObject({ code: "cancelled" });
    go();
    await expect(first).rejects.toThrow("down");
    works = true;
    embedder.texts.length = 0;
    index.follow(actions);

    await expect.poll(() => embedder.texts.length).toBe(40);
    await expect.poll(() => index.status().state).toBe("ready");
  });

  test("that began earlier does not replace a later one", async () => {
    const { indexWith, store } = await opened();
    const { gate, go } = createGate();
    const vectors: VectorStore = {
      ...store.vectors,
      // The first is read, and then held up until the second answers.
      async lastUse(set) {
        const used = await store.vectors.lastUse(set);
        if (set.catalog === older) await gate;
        return used;
      },
    };
    const banana = [testAction("tool__banana", "Peels bananas.")];
    const { catalog: older } = await indexWith(wordEmbedder()).build(actions);
    await indexWith(wordEmbedder()).build(banana);
    const index = indexWith(wordEmbedder(), { store: vectors });

    const first = index.build(actions);
    await index.build(banana);
    go();
    await first;

    expect(index.status()).toMatchObject({ state: "ready", rows: 1 });
    expect(await searchNames(index, "peels bananas", banana)).toEqual(["tool__banana"]);
  });

  test("embeds everything again if the dimensions of the model changed", async () => {
    const { indexWith } = await opened();
    await indexWith(wordEmbedder()).build(actions);
    const texts: string[] = [];
    const short: Embedder = {
      fingerprint: "words",
      async embed(given) {
        texts.push(...given);
        return given.map((text) => Float32Array.from(wordVector(text, 16)));
      },
    };
    const index = indexWith(short);
    const more = [...actions, testAction("tool__more", "Something new.")];

    const report = await index.build(more);

    expect(report.embedded).toHaveLength(41);
    expect(texts).toHaveLength(42); // the new one, and then all of them
    expect(await searchNames(index, "something new", more)).toContain("tool__more");
  });

  test("that is cancelled keeps its vectors, and the next one continues", async () => {
    const { indexWith } = await opened();
    const caller = new AbortController();
    const embedder = wordEmbedder("words", (signal, texts) =>
      texts.length === 32 ? undefined : new Promise((_, reject) => signal.addEventListener("abort", reject)),
    );
    const onFailed = vi.fn();
    const index = indexWith(embedder, { onFailed });

    const building = index.build(actions, { signal: caller.signal });
    await expect.poll(() => index.status()).toMatchObject({ state: "building", done: 32, total: 40 });
    caller.abort();

    await expect(building).rejects.toMatchObject({ code: "cancelled", hint: expect.stringContaining("kept") });
    expect(index.status()).toMatchObject({ state: "waiting" });
    expect(await index.search("thing3", createSearchView(actions), { limit: 5, order })).toEqual({
      unavailable: "the index is not ready yet.",
    });
    const next = wordEmbedder();
    expect(await indexWith(next).build(actions)).toMatchObject({ reused: 32 });
    expect(next.texts).toHaveLength(8);
    expect(onFailed).not.toHaveBeenCalled();
  });

  test("that fails reports why, and searches use the last complete vectors", async () => {
    const { indexWith } = await opened();
    let works = true;
    const embedder = wordEmbedder("words", () => {
      if (!works) throw new QmError("embedder_failed", "it is down", { hint: "Start it." });
    });
    const onFailed = vi.fn();
    const index = indexWith(embedder, { onFailed });
    await index.build(actions);
    await searchNames(index, "thing3");
    works = false;
    const changed = [...actions.slice(1), testAction("tool__new", "New.")];

    await expect(index.build(changed)).rejects.toMatchObject({ code: "embedder_failed", message: "it is down" });
    await expect(index.build(changed)).rejects.toThrow("it is down");

    expect(index.status()).toMatchObject({ state: "failed", reason: "it is down", hint: "Start it.", rows: 40 });
    expect(onFailed.mock.calls).toEqual([["it is down"]]);
    expect(await searchNames(index, "thing3", changed)).toContain("tool__thing_3");
    works = true;
    await index.build(changed);
    expect(index.status()).toEqual({ state: "ready", model: "words", done: 40, total: 40, rows: 40, embedded: 1 });
  });

  test("refuses an embedder that returns invalid vectors", async () => {
    const { indexWith } = await opened();
    const broken: Embedder = { fingerprint: "broken", embed: async () => [new Float32Array([1])] };

    await expect(indexWith(broken).build(actions)).rejects.toMatchObject({
      code: "embedder_failed",
      message: "the embedder answered with 1 vectors for 32 texts",
    });
  });

  test("at the same time as another embeds nothing twice", async () => {
    const { indexWith } = await opened();
    const embedder = wordEmbedder("words", () => new Promise((resolve) => setTimeout(resolve, 20)));
    const more = [...actions, testAction("tool__more", "More.")];

    await Promise.all([
      indexWith(embedder).build(actions),
      indexWith(embedder).build(more),
      indexWith(embedder).build(actions),
    ]);

    expect(embedder.texts).toHaveLength(41);
  });

  test("of an empty catalog does nothing", async () => {
    const { indexWith } = await opened();
    const embedder = wordEmbedder();
    const index = indexWith(embedder);

    await index.build([]);

    expect(index.status()).toMatchObject({ state: "ready", total: 0 });
    expect(await index.search("anything", createSearchView([]), { limit: 5, order })).toEqual({ hits: [] });
    expect(embedder.queries).toEqual([]);
  });
});

describe("two catalogs in one store", () => {
  test("do not affect each other, and share common vectors", async () => {
    const { indexWith, changes } = await opened();
    const embedder = wordEmbedder();
    const others = [...actions.slice(0, 10), ...testActions(30, "other")];
    const [mine, yours] = [indexWith(embedder), indexWith(embedder)];

    await mine.build(actions);
    await yours.build(others);
    const before = await changes();
    await indexWith(embedder).build(actions);
    await indexWith(embedder).build(others);

    expect(embedder.texts).toHaveLength(70);
    expect(await changes()).toBe(before);
    expect(await searchNames(mine, "thing20")).toContain("tool__thing_20");
    expect(await searchNames(yours, "other20", others)).toContain("tool__other_20");
  });
});

describe("pruning", () => {
  test("removes vectors unused for a month, but not searched or built ones", async () => {
    const { indexWith, store, clock, changes } = await opened();
    const others = testActions(10, "other");
    const searched = indexWith(wordEmbedder());
    await searched.build(actions);
    await indexWith(wordEmbedder()).build(others);
    await indexWith(wordEmbedder("old model")).build(actions);

    clock.days = 20;
    const before = await changes();
    await searchNames(searched, "thing3");
    await expect.poll(() => changes()).toBe(before + 41); // 40 rows and the set
    await searchNames(searched, "thing4");
    clock.days = 31;
    const embedder = wordEmbedder();
    await indexWith(embedder).build([...actions, testAction("tool__more", "More.")]);

    expect(embedder.texts).toEqual(["tool more\nMore."]);
    expect(await changes()).toBeGreaterThan(before + 41);
    expect(await store.vectors.clear()).toEqual({ rows: 41 });
  });

  test("keeps vectors that another catalog uses", async () => {
    const { indexWith, clock } = await opened();
    const embedder = wordEmbedder();
    await indexWith(embedder).build(actions);

    clock.days = 40;
    await indexWith(embedder).build(actions.slice(1));
    await indexWith(embedder).build(actions.slice(1));
    await indexWith(embedder).build(actions.slice(2));

    expect(embedder.texts).toHaveLength(40);
  });

  test("records the use of a loaded set once a day", async () => {
    const { indexWith, clock, changes } = await opened();
    await indexWith(wordEmbedder()).build(actions);
    const writes: number[] = [];

    for (const days of [0.9, 1.1, 1.5, 2.2]) {
      clock.days = days;
      const before = await changes();
      await indexWith(wordEmbedder()).build(actions);
      writes.push((await changes()) - before);
    }

    expect(writes).toEqual([0, 41, 0, 41]);
  });
});
