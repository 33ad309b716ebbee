import { expect, test } from "vitest";
import { createQueryVectors } from "./query-vectors.ts";
import { wordEmbedder } from "./testing.ts";

const SECOND = 1_000;
const LATE = "the embedder did not answer in time.";
const FAILED = "the embedder failed.";
const RESTING = "the embedder failed a moment ago and is paused for a while.";

test("caches vectors, and drops the least recently used", async () => {
  const embedder = wordEmbedder();
  const { vectorFor } = started(embedder);

  for (let at = 0; at < 256; at++) await vectorFor(`q${at}`);
  await vectorFor("q0");
  await vectorFor("one more");
  await vectorFor("q0");
  await vectorFor("q1");

  expect(embedder.queries.slice(256)).toEqual(["one more", "q1"]);
});

test("times out, explains why, and pauses longer each time", async () => {
  const embedder = wordEmbedder(
    "words",
    (signal) => new Promise((_, reject) => signal.addEventListener("abort", reject)),
  );
  const { vectorFor, clock } = started(embedder, 5);
  const rests: string[] = [];

  for (const seconds of [0, 29, 1, 59, 1, 119, 1, 239, 1, 299, 1, 299, 1]) {
    clock.now += seconds * SECOND;
    const before = embedder.queries.length;
    const answer = await vectorFor("red");
    rests.push(`${embedder.queries.length - before} ${"unavailable" in answer ? answer.unavailable : "vector"}`);
  }

  expect(rests).toEqual([`1 ${LATE}`, ...Array.from({ length: 6 }, () => [`0 ${RESTING}`, `1 ${LATE}`]).flat()]);
});

test("recovers once the embedder works again", async () => {
  let works = false;
  const embedder = wordEmbedder("words", () => {
    if (!works) throw new Error("down");
  });
  const { vectorFor, clock, troubles } = started(embedder);
  expect(await vectorFor("red")).toEqual({ unavailable: FAILED });
  works = true;
  clock.now += 31 * SECOND;

  expect(await vectorFor("red")).toHaveProperty("vector");
  works = false;
  expect(await vectorFor("green")).toEqual({ unavailable: FAILED });
  clock.now += 29 * SECOND;
  expect(await vectorFor("green")).toEqual({ unavailable: RESTING });
  expect(troubles).toEqual(["down", undefined, "down"]);
});

test("counts concurrent failures as one, and tests recovery with one query", async () => {
  const embedder = wordEmbedder("words", () => Promise.reject(new Error("down")));
  const { vectorFor, clock } = started(embedder);

  await Promise.all(["a", "b", "c", "d"].map((query) => vectorFor(query)));
  clock.now += 31 * SECOND;
  const again = await Promise.all(["a", "b", "c", "d"].map((query) => vectorFor(query)));

  expect(embedder.queries).toEqual(["a", "b", "c", "d", "a"]);
  expect(again[3]).toEqual({ unavailable: RESTING });
});

test("an aborted query does not count as a failure", async () => {
  const embedder = wordEmbedder("words", (signal) => signal.throwIfAborted());
  const { vectorFor } = started(embedder);

  expect(await vectorFor("red", AbortSignal.abort())).toEqual({ unavailable: "the search was cancelled." });
  expect(await vectorFor("red")).toHaveProperty("vector");
});

test("refuses an invalid vector", async () => {
  const answers = [[], [new Float32Array([Number.NaN])], [new Float32Array()], [[1], [2]], ["x"]] as unknown[];
  for (const answer of answers) {
    const embedder = { embed: async () => answer as Float32Array[] };
    const { vectorFor, troubles } = started(embedder);

    expect(await vectorFor("red")).toEqual({ unavailable: FAILED });
    expect(troubles).toEqual([expect.stringContaining("answered with")]);
  }
});

test("clips long queries", async () => {
  const embedder = wordEmbedder();
  await started(embedder).vectorFor("x".repeat(100_000));

  expect(embedder.queries[0]?.length).toBe(2_000);
});

function started(embedder: Parameters<typeof createQueryVectors>[0]["embedder"], limitMs = 60_000) {
  const clock = { now: 0 };
  const troubles: (string | undefined)[] = [];
  const onTrouble = (error: Error | undefined) => void troubles.push(error?.message);
  const vectorFor = createQueryVectors({ embedder, runtime: { elapsed: () => clock.now }, limitMs, onTrouble });
  return { clock, troubles, vectorFor };
}
