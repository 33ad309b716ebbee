import assert from "node:assert/strict";
import { z } from "zod";
import { createQuartermaster } from "../src/index.ts";
import { createScriptedModel } from "../src/testing/exports.ts";

// A scripted model, so that this runs without a key. In a program: anthropic("…"), or any other model of the AI SDK.
const model = createScriptedModel([
  { toolCalls: [{ name: "search_actions", args: { query: "weather" } }] },
  { toolCalls: [{ name: "invoke_action", args: { action_name: "tool__weather", args: { city: "Lisbon" } } }] },
  { toolCalls: [{ name: "respond", args: { parts: [{ partType: "response", text: "21 degrees in Lisbon." }] } }] },
  "You asked about Lisbon.",
]);

// #region call

const qm = await createQuartermaster({
  models: { default: model },
  policy: {
    actors: [{ name: "guide", tools: ["tool__*"], instructions: "You help people who plan a trip.", maxSteps: 8 }],
  },
});

qm.register({
  name: "weather",
  description: "Tell today's weather in a city.",
  inputSchema: z.object({ city: z.string() }),
  effect: "read",
  scope: "generalist",
  handler: ({ city }) => ({ city, degrees: 21 }),
});

const answer = await qm.callActor("guide", "How warm is it in Lisbon?", {
  caller: { session: "trip-1" },
  onEvent: (event) => event.type === "call-started" && console.log("calls", event.tool),
});
console.log(answer.turnState, answer.parts); // complete [ { partType: 'response', text: '21 degrees in Lisbon.' } ]

const next = await qm.callActor("guide", "Which city did I ask about?", { caller: { session: "trip-1" } });
console.log(next.parts); // the session has the history

// #endregion

assert.equal(answer.turnState, "complete");
assert.deepEqual(answer.parts, [{ partType: "response", text: "21 degrees in Lisbon." }]);
assert.deepEqual(next.parts, [{ partType: "response", text: "You asked about Lisbon." }]);
assert.ok(JSON.stringify(model.requests[3]).includes("How warm is it in Lisbon?"));

await qm.close();
