import { expect, test } from "vitest";
import { targets as listGatewayTargets } from "../bench/gateway/targets.ts";
import { type Target, targetTable } from "../bench/targets.ts";

test.each<[number | undefined, Target["sign"], string]>([
  [2, "≤", "met"],
  [2.01, "≤", "NOT MET"],
  [2, "<", "NOT MET"],
  [1.99, "<", "met"],
  [2, "≥", "met"],
  [1.99, "≥", "NOT MET"],
  [Number.NaN, "<", "NOT MET"],
  [undefined, "≥", "not measured"],
])("%s with the target %s 2 is %s", (measured, sign, expected) => {
  const { rows } = targetTable([{ name: "it", measured, sign, limit: 2, unit: "ms" }]);

  expect(rows).toEqual([["it", expect.any(String), `${sign} 2 ms`, expected]]);
});

test("a comparison with a gateway that is not installed is not measured", () => {
  const cost = { server: "pipe", width: 8, addedP50: 1, callsPerSecond: 1000, processorMs: 1 };
  const ours = { ...cost, gateway: "qm serve, universal", isRaw: false };
  const raw = { ...cost, gateway: "qm serve, universal, raw client", isRaw: true, processorMs: 4 };
  const floor = { ...cost, gateway: "floor", isRaw: true };
  const hub = { ...cost, gateway: "mcp-hub", isRaw: false, callsPerSecond: 500 };
  const listVerdicts = (costs: readonly (typeof cost & { gateway: string; isRaw: boolean })[]) =>
    listGatewayTargets({ costs, starts: [], afters: [] }).rows.map((row) => [row[1], row.at(-1)]);

  expect(listVerdicts([floor, raw, ours, hub])).toEqual([
    ["4 ×", "met"],
    ["2 ×", "met"],
  ]);
  expect(listVerdicts([floor, raw, ours])).toEqual([
    ["4 ×", "met"],
    ["–", "not measured"],
  ]);
});
