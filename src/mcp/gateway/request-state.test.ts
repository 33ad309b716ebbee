import { expect, test } from "vitest";
import { createRequestStateSigner } from "./held-calls.ts";

const binding = {
  principal: "p",
  client: "k",
  profile: "f",
  method: "tools/call",
  params: { name: "x", arguments: { b: 1, a: 2 } },
};
const round = { call: "c", round: 3, expires: 1_000 };

test("reads a state back, in any order of the parameters", () => {
  const states = createRequestStateSigner();
  const state = states.sign(round, binding);

  const params = { arguments: { a: 2, b: 1 }, name: "x" };
  expect(states.read(state, { ...binding, params }, 999)).toEqual(round);
});

test.each([
  ["another principal", { principal: "q" }],
  ["another client of the principal", { client: "l" }],
  ["another profile", { profile: "g" }],
  ["another method", { method: "prompts/get" }],
  ["other parameters", { params: { name: "x", arguments: { a: 2 } } }],
])("refuses a state for %s", (_which, other) => {
  const states = createRequestStateSigner();
  const state = states.sign(round, binding);

  expect(states.read(state, { ...binding, ...other }, 0)).toBeUndefined();
});

test("refuses an old state, a changed one, and one of another process", () => {
  const states = createRequestStateSigner();
  const state = states.sign(round, binding);
  const [payload = "", mac = ""] = state.split(".");
  const forged = Buffer.from(JSON.stringify(["c", 4, 9_999])).toString("base64url");

  expect(states.read(state, binding, 1_000)).toBeUndefined();
  for (const wrong of [`${forged}.${mac}`, `${payload}.`, payload, `${state}.x`, "", ".", `${payload}.${mac}${mac}`]) {
    expect(states.read(wrong, binding, 0)).toBeUndefined();
  }
  expect(createRequestStateSigner().read(state, binding, 0)).toBeUndefined();
});
