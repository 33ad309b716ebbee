import { describe, expect, test } from "vitest";
import type { RehearsedCall } from "../replay/scripted-call.ts";
import type { CaseExpectations } from "./eval-case.ts";
import { runScorer, type Scorer, scorers } from "./scorers.ts";

const call = (action: string, args: unknown = {}, status: RehearsedCall["status"] = "done"): RehearsedCall => ({
  callId: "c",
  asked: action,
  action,
  args,
  status,
  isScripted: true,
});

const run = {
  envelope: {
    parts: [
      { type: "text", text: "Done.", lang: "en" },
      { type: "data", rows: [1, 2] },
    ],
    turnState: "complete",
  },
  calls: [call("tool__pay", { to: "ann", amount: 5 }), call("file__read", { path: "a" }, "failed")],
};

async function judged(expected: CaseExpectations) {
  const scores = await Promise.all(
    scorers.map((scorer) => runScorer(scorer, { ...run, case: { id: "x", calls: [], expected } })),
  );
  return scores.filter((score) => score !== undefined);
}

describe("the scorers of expectations", () => {
  test.each<[string, CaseExpectations, number]>([
    ["state", { state: "complete" }, 1],
    ["state", { state: "suspended" }, 0],
    ["parts", { parts: [{ type: "text" }, { type: "data", rows: [1, 2] }] }, 1],
    [
      "parts",
      {
        parts: [
          { type: "text", text: "Done." },
          { type: "data", rows: [1] },
        ],
      },
      0.5,
    ],
    [
      "exact",
      {
        exact: [
          { lang: "en", text: "Done.", type: "text" },
          { type: "data", rows: [1, 2] },
        ],
      },
      1,
    ],
    ["exact", { exact: [{ type: "text", text: "Done." }] }, 0],
    ["schema", { schema: [{ part: "data", schema: { properties: { rows: { maxItems: 2 } } } }] }, 1],
    [
      "schema",
      { schema: [{ part: "data", schema: { properties: { rows: { maxItems: 1 } } } }, { schema: { type: "array" } }] },
      0.5,
    ],
    ["schema", { schema: [{ part: "image", schema: {} }] }, 0],
    ["called", { called: ["pay", "file__*", { name: "tool__pay", args: { amount: 5 }, times: 1 }] }, 1],
    [
      "called",
      {
        called: [
          { name: "pay", args: { amount: 6 } },
          { name: "file__read", status: "failed" },
        ],
      },
      0.5,
    ],
    ["called", { called: [{ name: "*", times: 3 }] }, 0],
    ["called", { called: [{ name: "pay", args: { constructor: {} } }] }, 0],
    ["notCalled", { notCalled: ["file__write", { name: "pay", args: { to: "bob" } }] }, 1],
    ["notCalled", { notCalled: ["file__*", "tool__send"] }, 0.5],
  ])("%s of %j is %d", async (name, expected, score) => {
    expect(await judged(expected)).toEqual([{ name, score, pass: score === 1, why: expect.stringMatching(/./) }]);
  });

  test("do not apply without an expectation", async () => {
    expect(await judged({})).toEqual([]);
  });

  test("do not pass if they throw", async () => {
    const [unusable] = await judged({ schema: [{ schema: { type: "no type" } }] });
    const custom = (score: Scorer["score"]) =>
      runScorer({ name: "own", score }, { ...run, case: { id: "x", calls: [], expected: {} } });

    expect(unusable).toMatchObject({ pass: false, score: 0 });
    expect(await custom(() => Promise.reject(undefined))).toMatchObject({ pass: false, score: 0 });
    expect(await custom(() => ({ pass: true, score: 7, why: "" }))).toMatchObject({ pass: true, score: 1 });
    expect(await custom(() => ({ pass: true, score: Number.NaN, why: "" }))).toMatchObject({ score: 0 });
    expect(await custom(() => undefined)).toBeUndefined();
  });
});
