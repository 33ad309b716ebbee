import assert from "node:assert/strict";
import { z } from "zod";
import { createQuartermaster } from "../src/index.ts";

const qm = await createQuartermaster();
const refunds: string[] = [];

// #region register

qm.register({
  name: "refund",
  description: "Give a customer money back.",
  inputSchema: z.object({ order: z.string(), amount: z.number() }),
  effect: "external",
  scope: "generalist",
  requiresApproval: { autoApproveIf: "args.amount < 50.0", level: "user", expiresIn: "2h" },
  handler: ({ order }, { approvalDecision }) => {
    refunds.push(order);
    return { order, agreedBy: approvalDecision?.by ?? "no approval needed" };
  },
});

// #endregion

// #region approve

const waiting = await qm.invoke("tool__refund", { order: "A-1", amount: 80 });
if (waiting.status !== "waiting") throw new Error(waiting.value);

const { id } = waiting.approval; // `qm approvals approve <id>` does the same from a shell
await qm.approvals.answer(id, { decision: "approved" }, { id: "ann", roles: ["approver"], via: "chat" });

const refunded = await qm.approvals.outcome(id, { timeoutMs: 5_000 });
console.log(refunded.status); // done

// #endregion

assert.equal(refunded.status, "done");
assert.deepEqual(refunded.status === "done" && refunded.data, { order: "A-1", agreedBy: "ann" });
assert.equal((await qm.invoke("tool__refund", { order: "A-2", amount: 20 })).status, "done");
assert.deepEqual(refunds, ["A-1", "A-2"]);

// #region ask

const agreed = await qm.invoke(
  "tool__refund",
  { order: "A-3", amount: 900 },
  { ask: async ({ args }) => ({ decision: args === null ? "denied" : "approved", by: "bob", roles: ["approver"] }) },
);
console.log(agreed.status); // done: the approver agreed while the call waited

// #endregion

assert.equal(agreed.status, "done");

await qm.close();
