import assert from "node:assert/strict";
import { z } from "zod";
import { createQuartermaster } from "../src/index.ts";
import { createScriptedModel } from "../src/testing/exports.ts";

const triage = createScriptedModel([
  {
    toolCalls: [
      {
        name: "respond",
        args: {
          parts: [{ partType: "ack", text: "Billing takes over." }],
          turn_state: "passed",
          pass_to: "billing",
        },
      },
    ],
  },
]);
const billing = createScriptedModel([
  { toolCalls: [{ name: "invoke_action", args: { action_name: "tool__invoice", args: { customer: "C-4" } } }] },
  "The invoice of C-4 is over 120.",
]);

// #region pass

const qm = await createQuartermaster({
  models: { triage, billing },
  policy: {
    actors: [
      { name: "triage", model: "triage", tools: ["agent.peer__billing"], instructions: "Find who can help." },
      { name: "billing", model: "billing", tools: ["tool__invoice"], instructions: "Answer about invoices." },
    ],
  },
});

qm.register({
  name: "invoice",
  description: "Read the last invoice of a customer.",
  inputSchema: z.object({ customer: z.string() }),
  effect: "read",
  scope: "generalist",
  handler: ({ customer }) => ({ customer, total: 120 }),
});

const answer = await qm.callActor("triage", "What is on the last invoice of C-4?");
console.log(answer.actor, answer.parts.at(-1)); // billing { partType: 'response', text: 'The invoice of C-4 is over 120.' }

// #endregion

assert.equal(answer.actor, "billing");
assert.equal(answer.turnState, "complete");
// The one that passes the work on cannot use the other's tools.
assert.equal(qm.names({ actor: "triage" }).includes("tool__invoice" as never), false);

await qm.close();
