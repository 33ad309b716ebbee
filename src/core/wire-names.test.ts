import fc from "fast-check";
import { expect, test } from "vitest";
import { createWireNames, toWireName } from "./wire-names.ts";

const WIRE = /^[a-zA-Z0-9_-]{1,64}$/;
const name = fc.oneof(
  fc.string({ unit: fc.constantFrom(..."ab._-/:0f"), minLength: 1, maxLength: 80 }),
  fc.string({ unit: "grapheme", minLength: 1, maxLength: 120 }),
  fc.stringMatching(/^[a-f0-9]{1,8}-[0-9a-f]{12}$/),
);

test("gives every name a unique wire name that fits and leads back", () => {
  fc.assert(
    fc.property(fc.uniqueArray(name, { maxLength: 60 }), (names) => {
      const wires = names.map(createWireNames(names).toWire);

      for (const wire of wires) expect(wire).toMatch(WIRE);
      expect(new Set(wires).size).toBe(names.length);
      expect(wires.map(createWireNames(names).fromWire)).toEqual(names);
    }),
    { numRuns: 500 },
  );
});

test("keeps a wire name when unrelated actions are added", () => {
  fc.assert(
    fc.property(
      fc.uniqueArray(name, { minLength: 1, maxLength: 20 }),
      fc.uniqueArray(name, { maxLength: 20 }),
      (names, more) => {
        const before = createWireNames(names);
        const after = createWireNames([...more, ...names]);

        for (const each of names) expect(after.toWire(each)).toBe(before.toWire(each));
      },
    ),
    { numRuns: 500 },
  );
});

test("keeps a name that fits, and never clashes with a hashed one", () => {
  expect(toWireName("file__read")).toBe("file__read");
  expect(toWireName("agent.peer__alice")).toMatch(/^agent_peer__alice-[0-9a-f]{12}$/);
  const rewritten = toWireName("agent.peer__alice");
  expect(toWireName(rewritten)).not.toBe(rewritten);
  expect(toWireName("x".repeat(200))).toHaveLength(64);
});
