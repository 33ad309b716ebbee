import assert from "node:assert/strict";
import { z } from "zod";
import { createQuartermaster } from "../src/index.ts";
import {
  createScriptedModel,
  createSimulatedModel,
  simulatedBehaviors,
  startModelServer,
} from "../src/testing/exports.ts";

// #region scripted

const scripted = createScriptedModel([
  { toolCalls: [{ name: "invoke_action", args: { action_name: "tool__weather", args: { city: "Oslo" } } }] },
  "It is sunny in Oslo.",
]);

// #endregion

// #region simulated

const goal = "What is the weather in Oslo?";
const simulated = createSimulatedModel({
  ...simulatedBehaviors.inventsNames,
  seed: 1,
  tasks: [{ goal, action: "tool__weather", args: { city: "Oslo" }, searches: ["weather of a city"] }],
});

// #endregion

// #region test

const qm = await createQuartermaster({
  models: { scripted, simulated },
  policy: {
    actors: [
      { name: "guide", tools: ["*"], model: "scripted" },
      { name: "trainee", tools: ["*"], model: "simulated", surface: { selection: "enum" } },
    ],
  },
});
qm.register({
  name: "weather",
  description: "The weather of a city today.",
  inputSchema: z.object({ city: z.string() }),
  effect: "read",
  scope: "generalist",
  handler: ({ city }) => `${city}: sunny`,
});

const { parts } = await qm.callActor("guide", goal);
assert.deepEqual(parts, [{ partType: "response", text: "It is sunny in Oslo." }]);
assert.match(JSON.stringify(scripted.requests[1]?.messages), /Oslo: sunny/);

await qm.callActor("trainee", goal, { caller: { session: "s1" } });
const calls = await qm.ledger.read({ session: "s1", type: "call.ended" });
assert.match(JSON.stringify(calls), /"status":"done"/);

// #endregion

// #region server

const server = await startModelServer(simulated);
console.log(server.url); // http://127.0.0.1:<port>/v1
await server.close();

// #endregion

await qm.close();
