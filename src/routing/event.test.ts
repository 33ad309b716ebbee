import { describe, expect, test } from "vitest";
import { isDeepFrozen } from "../core/json.ts";
import { copyEventData, requireHostEvent } from "./event.ts";

describe("the data of an event", () => {
  test("is a frozen copy, with any keys", () => {
    const data = JSON.parse('{"__proto__":{"polluted":1},"constructor":[{"deep":[1,{"er":2}]}]}');

    const { value, size } = copyEventData(data);

    expect(value).toEqual(data);
    expect(Object.keys(value as object)).toEqual(["__proto__", "constructor"]);
    expect(value).not.toBe(data);
    expect(isDeepFrozen(value)).toBe(true);
    expect(size).toBe(JSON.stringify(data).length);
    expect(({} as { polluted?: number }).polluted).toBeUndefined();
  });

  test("is null if undefined", () => {
    expect(copyEventData(undefined).value).toBeNull();
  });

  const cycle: Record<string, unknown> = {};
  cycle.self = cycle;
  let doubled: unknown = "x";
  for (let times = 0; times < 60; times++) doubled = [doubled, doubled];
  const throwing = Object.defineProperty({}, "x", {
    enumerable: true,
    get: () => {
      throw new Error("no");
    },
  });

  test.each([
    ["too_large", "a cycle", cycle],
    ["too_large", "a few objects that write out as billions", doubled],
    ["too_large", "a long text", "x".repeat(5 * 1024 * 1024)],
    ["invalid_arguments", "a getter that throws", throwing],
    ["invalid_arguments", "a whole number beyond JSON", { big: 1n }],
    ["invalid_arguments", "a function", () => {}],
    ["invalid_arguments", "a toJSON that throws", { toJSON: () => copyEventData.call(undefined, 1n) }],
  ])("%s: %s", (code, _what, data) => {
    expect(() => copyEventData(data)).toThrow(expect.objectContaining({ code }));
  });
});

describe("a host event", () => {
  test.each([
    ["", "x"],
    ["x", ""],
    ["x".repeat(257), "x"],
    [7 as never, "x"],
    ["x", undefined as never],
    ["actor:triage", "tool_call:tool__pay"],
    ["actor:triage", "tool_result:tool__pay"],
  ])("cannot be from %j of type %j", (source, type) => {
    expect(() => requireHostEvent(source, type)).toThrow(expect.objectContaining({ code: "invalid_arguments" }));
  });

  test("may come from an actor", () => {
    expect(() => requireHostEvent("actor:triage", "reply")).not.toThrow();
  });
});
