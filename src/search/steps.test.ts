import fc from "fast-check";
import { expect, test } from "vitest";
import { runInSlices, runToEnd, sortSteps } from "./steps.ts";

test("sorts as a stable sort does", () => {
  const list = fc.array(fc.record({ key: fc.nat(20), at: fc.nat() }), { maxLength: 5_000, size: "max" });
  fc.assert(
    fc.property(list, (items) => {
      const compare = (one: { key: number }, other: { key: number }) => one.key - other.key;

      expect(runToEnd(sortSteps(items, compare))).toEqual(items.toSorted(compare));
    }),
    { numRuns: 30 },
  );
});

test("stops between two steps when the signal aborts", async () => {
  const stop = new AbortController();
  function* endless(): Generator<void, never, void> {
    for (;;) yield;
  }
  setImmediate(() => stop.abort());

  await expect(runInSlices(endless(), stop.signal)).rejects.toMatchObject({ name: "AbortError" });
});
