import { expect, test } from "vitest";
import { systemRuntime, toTimeOrderedId } from "./system-runtime.ts";

test("ids are UUIDs of version 7, in the order of their time", () => {
  const [low, high] = ["00000000-0000-4000-8000-000000000000", "ffffffff-ffff-4fff-bfff-ffffffffffff"];

  expect(toTimeOrderedId(high, 1)).toBe("00000000-0001-7fff-bfff-ffffffffffff");
  expect(toTimeOrderedId(high, 1) < toTimeOrderedId(low, 2)).toBe(true);
  expect(systemRuntime.newId()).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
});

test("ids are unique", () => {
  expect(new Set(Array.from({ length: 10_000 }, systemRuntime.newId)).size).toBe(10_000);
});
