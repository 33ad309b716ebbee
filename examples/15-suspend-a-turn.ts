/** Suspend a turn that waits for approvals, and resume it after the answers. The model's messages are hard-coded. */
import assert from "node:assert/strict";
import { z } from "zod";
import { createQuartermaster, type Json, type Outcome } from "../src/index.ts";

const qm = await createQuartermaster();
const refunds: string[] = [];
qm.register({
  name: "refund",
  description: "Give a customer money back.",
  inputSchema: z.object({ order: z.string(), amount: z.number() }),
  effect: "external",
  scope: "generalist",
  requiresApproval: { autoApproveIf: "args.amount < 50.0" },
  handler: ({ order }) => {
    refunds.push(order);
    return { refunded: order };
  },
});

// The model's output: three calls at once. Two of them need approval.
const messages: Json[] = [{ role: "user", content: "Refund A-1, A-2 and A-3." }];
const toolCalls = [
  { id: "call-1", name: "tool__refund", args: { order: "A-1", amount: 20 } },
  { id: "call-2", name: "tool__refund", args: { order: "A-2", amount: 80 } },
  { id: "call-3", name: "tool__refund", args: { order: "A-3", amount: 900 } },
];
const answerOf = (id: string, { value }: Outcome) => ({ role: "tool", id, content: value });

// #region suspend

const turn = await qm.turns.begin({ actor: "default", session: "chat-1" });

const called = toolCalls.map(async ({ id, name, args }) => {
  const outcome = await qm.invoke(name, args, { caller: turn.caller });
  turn.noted(id, outcome); // the turn stores the calls that wait
  if (outcome.status !== "waiting") messages.push(answerOf(id, outcome));
});
await Promise.all(called);

const { resumeToken, parts } = await turn.suspend({ messages });
console.log(parts.map(({ data }) => data.ref)); // [ 'call-2', 'call-3' ]

// An approver answers through any channel. The rest may run in another process, days later.
const ann = { id: "ann", roles: ["approver"], via: "chat" };
for (const { data } of parts) {
  const decision = data.ref === "call-2" ? "approved" : "denied";
  await qm.approvals.answer(data.approvalId, { decision }, ann);
  await qm.approvals.outcome(data.approvalId, { timeoutMs: 5_000 });
}

const resumed = await qm.turns.resume(resumeToken);
if (resumed.state === "suspended") throw new Error("a call still waits for an answer: try again later");

const told = resumed.memo as { messages: Json[] };
for (const { ref, outcome } of resumed.results) told.messages.push(answerOf(ref, outcome));
// Now the model continues with told.messages. When it has finished:
await resumed.turn.end("complete");

// #endregion

assert.deepEqual(refunds, ["A-1", "A-2"]);
assert.deepEqual(
  resumed.results.map(({ ref, outcome }) => [ref, outcome.status]),
  [
    ["call-2", "done"],
    ["call-3", "refused"],
  ],
);
assert.deepEqual(told.messages.slice(0, 3), [
  { role: "user", content: "Refund A-1, A-2 and A-3." },
  { role: "tool", id: "call-1", content: '{"refunded":"A-1"}' },
  { role: "tool", id: "call-2", content: '{"refunded":"A-2"}' },
]);
assert.match(JSON.stringify(told.messages[3]), /tool_denied/);
// A turn can be resumed only once, by one process.
await assert.rejects(qm.turns.resume(resumeToken), { code: "conflict" });

await qm.close();
