import fc from "fast-check";
import { expect, test } from "vitest";
import { leastOfBest } from "./top.ts";

test("the least of the best is what sorting would find", () => {
  const scores = fc.array(fc.integer({ min: 1, max: 30 }), { maxLength: 60 });
  fc.assert(
    fc.property(scores, fc.integer({ min: 1, max: 20 }), (some, count) => {
      const sorted = some.toSorted((a, b) => b - a);

      expect(leastOfBest(Float64Array.from(some), count)).toBe(some.length <= count ? 0 : sorted[count - 1]);
    }),
  );
});
