import { expect, test } from "vitest";
import { queryVectors } from "./query-vectors.ts";
import { wordEmbedder } from "./testing.ts";

const SECOND = 1_000;

test("asks once for each query, and forgets those that were not asked for longest", async () => {
  const embedder = wordEmbedder();
  const { vectorFor } = started(embedder);

  for (let at = 0; at < 256; at++) await vectorFor(`q${at}`);
  await vectorFor("q0");
  await vectorFor("one more");
  await vectorFor("q0");
  await vectorFor("q1");

  expect(embedder.queries.slice(256)).toEqual(["one more", "q1"]);
});

test("gives up in time, says why, and leaves the embedder alone for longer each time", async () => {
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

  expect(rests).toEqual([
    "1 the embedder did not answer within 5 ms.",
    ...Array.from({ length: 6 }, () => [
      "0 the embedder did not answer within 5 ms (it is asked again in 1 s).",
      "1 the embedder did not answer within 5 ms.",
    ]).flat(),
  ]);
});

test("goes on as before once it answers again", async () => {
  let works = false;
  const embedder = wordEmbedder("words", () => {
    if (!works) throw new Error("down");
  });
  const { vectorFor, clock } = started(embedder);
  expect(await vectorFor("red")).toEqual({ unavailable: "down." });
  works = true;
  clock.now += 31 * SECOND;

  expect(await vectorFor("red")).toHaveProperty("vector");
  works = false;
  expect(await vectorFor("green")).toEqual({ unavailable: "down." });
  clock.now += 29 * SECOND;
  expect(await vectorFor("green")).toEqual({ unavailable: "down (it is asked again in 1 s)." });
});

test("those that fail together are one failure, and one finds out for all whether it is back", async () => {
  const embedder = wordEmbedder("words", () => Promise.reject(new Error("down")));
  const { vectorFor, clock } = started(embedder);

  await Promise.all(["a", "b", "c", "d"].map((query) => vectorFor(query)));
  clock.now += 31 * SECOND;
  const again = await Promise.all(["a", "b", "c", "d"].map((query) => vectorFor(query)));

  expect(embedder.queries).toEqual(["a", "b", "c", "d", "a"]);
  expect(again[3]).toEqual({ unavailable: "down (it is asked again in 30 s)." });
});

test("a caller that goes away says nothing about the embedder", async () => {
  const embedder = wordEmbedder("words", (signal) => signal.throwIfAborted());
  const { vectorFor } = started(embedder);

  expect(await vectorFor("red", AbortSignal.abort())).toEqual({ unavailable: "the search was cancelled." });
  expect(await vectorFor("red")).toHaveProperty("vector");
});

test("refuses what is no vector", async () => {
  const answers = [[], [new Float32Array([Number.NaN])], [new Float32Array()], [[1], [2]], ["x"]] as unknown[];
  for (const answer of answers) {
    const embedder = { embed: async () => answer as Float32Array[] };
    const vectorFor = queryVectors({ embedder, runtime: { elapsed: () => 0 }, limitMs: 1_000 });

    expect(await vectorFor("red")).toEqual({ unavailable: expect.stringContaining("answered with") });
  }
});

test("asks with no more of a query than a model reads", async () => {
  const embedder = wordEmbedder();
  await started(embedder).vectorFor("x".repeat(100_000));

  expect(embedder.queries[0]?.length).toBe(2_000);
});

function started(embedder: Parameters<typeof queryVectors>[0]["embedder"], limitMs = 60_000) {
  const clock = { now: 0 };
  return { clock, vectorFor: queryVectors({ embedder, runtime: { elapsed: () => clock.now }, limitMs }) };
}
