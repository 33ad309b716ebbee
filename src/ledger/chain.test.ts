import fc from "fast-check";
import { expect, test } from "vitest";
import { CHAIN_START, type ChainedLine, hashLine } from "./hash-chain.ts";

const line: ChainedLine = {
  session: "s",
  seq: 1,
  type: "call.ended",
  at: "2026-01-02T03:04:05.678Z",
  actor: null,
  tenant: null,
  turn: null,
  user: null,
  person: null,
  callId: "c",
  action: null,
  data: { b: 1, a: [true, null] },
  prev: CHAIN_START,
};

test("the hash of a line never changes", () => {
  expect(hashLine(line)).toBe("c6dd79d39b06ecbb0f893c2a9726190741b73783d1af987b50f7021d673a1993");
  expect(hashLine({ ...line, data: { a: [true, null], b: 1 } })).toBe(hashLine(line));
});

test("the hash differs when any field differs", () => {
  const text = fc.oneof(fc.string(), fc.constant(null));
  const parts = fc.record({
    session: fc.string(),
    seq: fc.nat(),
    type: fc.string(),
    at: fc.string(),
    actor: text,
    tenant: text,
    turn: text,
    user: text,
    person: text,
    callId: text,
    action: text,
    data: fc.jsonValue(),
    prev: fc.string(),
  });
  fc.assert(
    fc.property(parts, fc.constantFrom(...Object.keys(line)), fc.jsonValue(), (some, part, other) => {
      const changed = { ...some, [part]: other } as ChainedLine;
      const same = JSON.stringify(some[part as keyof typeof some]) === JSON.stringify(other);
      fc.pre(!same && part !== "data");
      expect(hashLine(changed)).not.toBe(hashLine(some as ChainedLine));
    }),
  );
});

test("the hash keeps neighbouring fields apart", () => {
  expect(hashLine({ ...line, actor: "ab", tenant: "c" })).not.toBe(hashLine({ ...line, actor: "a", tenant: "bc" }));
  expect(hashLine({ ...line, actor: "x", tenant: null })).not.toBe(hashLine({ ...line, actor: null, tenant: "x" }));
  expect(hashLine({ ...line, data: "1" })).not.toBe(hashLine({ ...line, data: 1 }));
});
