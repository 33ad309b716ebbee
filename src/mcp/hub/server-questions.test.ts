import { expect, test } from "vitest";
import { createTestCaller } from "../../../test/support/mcp-hub.ts";
import type { JsonObject } from "../../core/json.ts";
import { answerQuestion, findAskedCall, type ServerCall, sendWithAnswers } from "./server-questions.ts";

const call = (owner: string, dialogue = true): ServerCall => ({
  owner,
  dialogue: dialogue ? createTestCaller(undefined, undefined, owner) : undefined,
});
const FORM = {
  method: "elicitation/create",
  params: { message: "?", requestedSchema: { type: "object", properties: {} } },
};

test("a question belongs only to the call whose stream brought it", () => {
  const [mine, other] = [call("one"), call("two")];

  expect(findAskedCall(new Set([mine, other]), { call: mine })).toBe(mine);
  expect(findAskedCall(new Set([other]), { call: mine })).toBeUndefined();
  expect(findAskedCall(new Set([other]), { call: undefined })).toBeUndefined();
});

test("on a shared channel a question belongs to the latest call that can be asked, if all have one owner", () => {
  const [first, last, mute] = [call("one"), call("one"), call("one", false)];

  expect(findAskedCall(new Set([first, last, mute]), undefined)).toBe(last);
  expect(findAskedCall(new Set([first, call("two")]), undefined)).toBeUndefined();
  expect(findAskedCall(new Set([first, call("two", false)]), undefined)).toBeUndefined();
  expect(findAskedCall(new Set(), undefined)).toBeUndefined();
});

test("declines a question that the caller cannot be asked", async () => {
  const mute = { owner: "one", dialogue: createTestCaller(undefined, {}) };

  expect(await answerQuestion(mute, FORM)).toEqual({ action: "decline" });
  expect(await answerQuestion(undefined, { method: "roots/list", params: {} })).toEqual({ roots: [] });
  await expect(answerQuestion(mute, { method: "sampling/createMessage", params: {} })).rejects.toMatchObject({
    code: -1,
  });
  await expect(answerQuestion(mute, { method: "other/thing", params: {} })).rejects.toMatchObject({ code: -32601 });
  expect(mute.dialogue.asked).toEqual([]);
});

test.each([
  ["a form for a client that only opens URLs", { elicitation: { url: {} } }, {}, "decline"],
  ["a URL for a client that only fills forms", { elicitation: { form: {} } }, { mode: "url" }, "decline"],
  ["a URL for a client without modes", { elicitation: {} }, { mode: "url" }, "decline"],
  ["a form for a client without modes", { elicitation: {} }, {}, "accept"],
  ["a URL for a client that opens URLs", { elicitation: { url: {} } }, { mode: "url" }, "accept"],
])("asked for %s: %s", async (_, capabilities, params, action) => {
  const answer = await answerQuestion(
    { owner: "one", dialogue: createTestCaller(undefined, capabilities as JsonObject) },
    { method: "elicitation/create", params: params as JsonObject },
  );

  expect(answer.action).toBe(action);
});

test("fills in only the missing defaults of a form", async () => {
  const properties = {
    a: { type: "string", default: "A" },
    b: { type: "string", default: "B" },
    c: { type: "string" },
  };
  const form = { method: "elicitation/create", params: { requestedSchema: { type: "object", properties } } };
  const accepting = { owner: "one", dialogue: createTestCaller(() => ({ action: "accept", content: { b: "mine" } })) };
  const declining = { owner: "one", dialogue: createTestCaller(() => ({ action: "decline" })) };

  expect(await answerQuestion(accepting, form)).toEqual({ action: "accept", content: { a: "A", b: "mine" } });
  expect(await answerQuestion(declining, form)).toEqual({ action: "decline" });
});

test("asks all questions as one batch and returns the server's state unchanged", async () => {
  const dialogue = createTestCaller((_, key) => ({ action: "accept", content: { key } }));
  const sent: JsonObject[] = [];
  const state = '{"b":1,  "a":"\\u00e9"}';
  const results: JsonObject[] = [
    { resultType: "input_required", inputRequests: { x: FORM, y: FORM }, requestState: state },
    { resultType: "input_required", inputRequests: { z: FORM } },
    { content: [] },
  ];
  const send = async (params: JsonObject) => {
    sent.push(params);
    return results.shift() as JsonObject;
  };

  const result = await sendWithAnswers(send, { name: "t" }, { dialogue, server: "subject" });

  expect(result).toEqual({ content: [] });
  expect(dialogue.asked.map((batch) => Object.keys(batch))).toEqual([["x", "y"], ["z"]]);
  const accepted = (key: string) => ({ [key]: { action: "accept", content: { key } } });
  expect(sent).toEqual([
    { name: "t" },
    { name: "t", inputResponses: { ...accepted("x"), ...accepted("y") }, requestState: state },
    { name: "t", inputResponses: accepted("z") },
  ]);
});

test("gives up on a server that keeps asking", async () => {
  let sent = 0;
  const asking = async (): Promise<JsonObject> => {
    sent++;
    return { resultType: "input_required", inputRequests: { x: FORM } };
  };

  await expect(sendWithAnswers(asking, {}, { dialogue: createTestCaller(), server: "subject" })).rejects.toMatchObject({
    code: "action_failed",
    message: expect.stringContaining("10 times"),
  });
  expect(sent).toBe(11);
});

test.each([
  ["no caller", undefined],
  ["a caller that cannot answer", createTestCaller(undefined, {})],
])("sends no further request to a server that asks %s", async (_, dialogue) => {
  let sent = 0;
  const asking = async (): Promise<JsonObject> => {
    sent++;
    return { resultType: "input_required", inputRequests: { x: FORM }, requestState: "s" };
  };

  await expect(sendWithAnswers(asking, {}, { dialogue, server: "subject" })).rejects.toMatchObject({
    code: "action_failed",
  });
  expect(sent).toBe(1);
});

test("refuses a question of an unknown kind", async () => {
  const asking = async (): Promise<JsonObject> => ({
    resultType: "input_required",
    inputRequests: { x: { method: "tools/call", params: {} } },
  });
  const dialogue = createTestCaller();

  await expect(sendWithAnswers(asking, {}, { dialogue, server: "subject" })).rejects.toMatchObject({
    code: "action_failed",
  });
  expect(dialogue.asked).toEqual([]);
});

test("sends state without a question back", async () => {
  const results: JsonObject[] = [{ resultType: "input_required", requestState: "s" }, { content: [] }];
  const sent: JsonObject[] = [];
  const send = async (params: JsonObject) => {
    sent.push(params);
    return results.shift() as JsonObject;
  };

  await sendWithAnswers(send, { name: "t" }, { dialogue: undefined, server: "subject" });

  expect(sent).toEqual([{ name: "t" }, { name: "t", requestState: "s" }]);
});
