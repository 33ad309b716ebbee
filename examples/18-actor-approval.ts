import assert from "node:assert/strict";
import { z } from "zod";
import { createQuartermaster } from "../src/index.ts";
import { createScriptedModel } from "../src/testing/exports.ts";

const refunds: string[] = [];
const model = createScriptedModel([
  { toolCalls: [{ name: "invoke_action", args: { action_name: "tool__refund", args: { order: "A-1", amount: 80 } } }] },
  "The 80 are on their way.",
]);

const qm = await createQuartermaster({
  models: { default: model },
  policy: { actors: [{ name: "support", tools: ["tool__refund"] }] },
});

qm.register({
  name: "refund",
  description: "Give a customer money back.",
  inputSchema: z.object({ order: z.string(), amount: z.number() }),
  effect: "external",
  scope: "generalist",
  requiresApproval: { autoApproveIf: "args.amount < 50.0" },
  handler: ({ order }) => {
    refunds.push(order);
    return { order };
  },
});

// #region suspend

const asked = await qm.callActor("support", "Refund 80 for order A-1.", { caller: { session: "case-7" } });
if (asked.turnState !== "suspended" || asked.resumeToken === undefined) throw new Error("no approval was needed");

for (const part of asked.parts) {
  if (part.partType !== "approval-request") continue;
  console.log(part.data.action, part.data.args); // tool__refund { order: 'A-1', amount: 80 }
  await qm.approvals.answer(
    part.data.approvalId,
    { decision: "approved" },
    { id: "ann", roles: ["approver"], via: "chat" },
  );
  await qm.approvals.outcome(part.data.approvalId, { timeoutMs: 5_000 });
}

// In any process, and after a restart: the store has the turn.
const resumed = await qm.resumeActor(asked.resumeToken);
console.log(resumed.turnState, resumed.parts); // complete [ { partType: 'response', text: 'The 80 are on their way.' } ]

// #endregion

assert.deepEqual(refunds, ["A-1"]);
assert.equal(resumed.turnState, "complete");
await assert.rejects(qm.resumeActor(asked.resumeToken));

await qm.close();
