import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type CellRuns, runCells } from "../bench/models/cells.ts";
import { estimateMean, estimateShare } from "../bench/models/statistics.ts";
import { measureCell, measureRecoveries, toCellTable, toRecoveryTable } from "../bench/models/tables.ts";
import { createFileTasks } from "../bench/models/tasks.ts";
import { printed } from "../bench/table.ts";

const root = mkdtempSync(join(tmpdir(), "qm-bench-models-"));
let runs: readonly CellRuns[];

beforeAll(async () => {
  const world = { actions: [], tasks: createFileTasks(root, 24), root, seed: 1 };
  runs = await runCells({ ...world, countTokens: (text) => Math.ceil(text.length / 4) }, [
    { scheme: "universal", model: "strong", tier: "strong" },
    { scheme: "universal", model: "inventsNames", tier: "strong" },
    { scheme: "universal+enum", model: "inventsNames", tier: "strong" },
    { scheme: "universal+promote", model: "inventsNames", tier: "strong" },
    { scheme: "universal", model: "skipsDiscovery", tier: "strong" },
    { scheme: "universal", model: "skipsDiscovery", tier: "light" },
    { scheme: "flat", model: "weak", tier: "strong" },
    { scheme: "universal", model: "weak", tier: "strong" },
  ]);
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

const find = (scheme: string, model: string, tier = "strong") => {
  const cell = runs.find((each) => each.scheme === scheme && each.model === model && each.tier === tier);
  if (cell === undefined) throw new Error("no such cell");
  return measureCell(cell);
};

describe("the bench of simulated models", () => {
  test("finds that the strong model solves every task without a wrong call", () => {
    const { success, steps, wrongCalls } = find("universal", "strong");

    expect([success.value, steps.value, wrongCalls.value]).toEqual([1, 3, 0]);
  });

  test("finds that invented names cost calls, and that a choice of names or tools prevents them", () => {
    const [free, listed, promoted] = [
      find("universal", "inventsNames"),
      find("universal+enum", "inventsNames"),
      find("universal+promote", "inventsNames"),
    ];

    expect(free.wrongCalls.value).toBeGreaterThan(0.2);
    expect([listed.wrongCalls.value, promoted.wrongCalls.value]).toEqual([0, 0]);
    expect(free.steps.value).toBeGreaterThan(listed.steps.value);
    expect(measureRecoveries(runs).find(({ measure }) => measure === "enum")?.wrongCalls?.value).toBe(1);
  });

  test("finds that skipped discovery costs calls, and that a demanded first tool prevents them", () => {
    const [free, forced] = [find("universal", "skipsDiscovery"), find("universal", "skipsDiscovery", "light")];

    expect(free.wrongCalls.value).toBeGreaterThan(0.5);
    expect([forced.success.value, forced.wrongCalls.value]).toEqual([1, 0]);
  });

  test("finds that the weak model needs fewer steps and fails less with all tools at once", () => {
    const [flat, universal] = [find("flat", "weak"), find("universal", "weak")];

    expect(flat.success.value).toBeGreaterThan(universal.success.value);
    expect(flat.steps.value).toBeLessThan(universal.steps.value);
    expect(flat.wrongCalls.value).toBeLessThan(universal.wrongCalls.value);
  });

  test("says that its models are simulated", () => {
    const text = [toCellTable(runs.map(measureCell)), toRecoveryTable(measureRecoveries(runs))].map(printed).join("\n");

    expect(text).toContain("The models are simulated");
    expect(text).toMatch(/inventsNames +enum .* 100 % \(100 %–100 %\)/);
  });
});

describe("an interval of confidence", () => {
  test("of a share is Wilson's", () => {
    const { value, low, high } = estimateShare(8, 10);

    expect(value).toBe(0.8);
    expect(low).toBeCloseTo(0.49, 2);
    expect(high).toBeCloseTo(0.943, 2);
    expect(estimateShare(50, 50)).toMatchObject({ value: 1, high: 1 });
    expect(estimateShare(50, 50).low).toBeCloseTo(0.929, 2);
  });

  test("of a mean covers it, and is the same in each run", () => {
    const values = Array.from({ length: 50 }, (_, index) => index % 5);
    const { value, low, high } = estimateMean(values);

    expect(value).toBe(2);
    expect(low).toBeCloseTo(2 - 0.39, 1);
    expect(high).toBeCloseTo(2 + 0.39, 1);
    expect(estimateMean(values)).toEqual({ value, low, high });
    expect(estimateMean([3, 3, 3])).toEqual({ value: 3, low: 3, high: 3 });
  });
});
