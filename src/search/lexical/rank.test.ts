import fc from "fast-check";
import { expect, test } from "vitest";
import { findScoreCutoff } from "./rank.ts";

test("finds the same cutoff as sorting", () => {
  const scores = fc.array(fc.integer({ min: 1, max: 30 }), { maxLength: 60 });
  fc.assert(
    fc.property(scores, fc.integer({ min: 1, max: 20 }), (some, count) => {
      const sorted = some.toSorted((a, b) => b - a);

      expect(findScoreCutoff(Float64Array.from(some), count)).toBe(some.length <= count ? 0 : sorted[count - 1]);
    }),
  );
});
