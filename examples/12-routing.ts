/** Routing: subscribe to calls, route your own events, and cancel calls. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { z } from "zod";
import { createQuartermaster } from "../src/index.ts";

const qm = await createQuartermaster({
  policy: {
    actors: [
      { name: "default", tools: ["*"] },
      { name: "triage", tools: ["task"] },
    ],
  },
});
for (const [name, input] of [
  ["weather", { city: z.string() }],
  ["task", { title: z.string() }],
] as const) {
  qm.register({
    name,
    description: `An example that does nothing: ${name}.`,
    inputSchema: z.object(input),
    effect: "read",
    scope: "generalist",
    handler: () => name,
  });
}
qm.register({
  name: "slow",
  description: "An example that waits until it is cancelled.",
  inputSchema: z.object({}),
  effect: "read",
  scope: "generalist",
  handler: (_args, { signal }) => once(signal, "abort"),
});
const seen: string[] = [];

// #region subscribe

const unsubscribe = qm.router.subscribe({ event: "tool_call:*" }, ({ source, type, data }) => {
  seen.push(`${source} ${type} ${JSON.stringify(data)}`);
});
await qm.invoke("tool__weather", { city: "Lisbon" });
unsubscribe();

// #endregion

assert.deepEqual(seen, ['actor:default tool_call:tool__weather {"city":"Lisbon"}']);

// #region events

qm.router.handle("triage", async ({ data }, signal) => {
  const { subject } = data as { subject: string };
  const outcome = await qm.invoke("tool__task", { title: subject }, { caller: { actor: "triage" }, signal });
  return outcome.status;
});
qm.router.useRules([
  { name: "spam", event: "mail_received", when: "event.data.subject.startsWith('WIN')" },
  { name: "mail", source: "imap:*", event: "mail_received", to: "triage", deadlineMs: 30_000, retry: { attempts: 3 } },
]);

const routed = await qm.router.routeEvent("imap:inbox", "mail_received", { subject: "The roof leaks" });
console.log(routed.rule, routed.result); // mail done

// #endregion

assert.deepEqual([routed.rule, routed.result], ["mail", "done"]);
const spam = await qm.router.routeEvent("imap:inbox", "mail_received", { subject: "WIN a roof" });
assert.deepEqual([spam.rule, spam.to], ["spam", undefined]);

const slow = qm.invoke("tool__slow");
while (qm.router.underWay().length === 0) await new Promise(setImmediate);

// #region cancel

for (const { callId, action } of qm.router.underWay()) {
  if (action === "tool__slow") qm.router.cancel(callId, "it is no longer needed");
}

// #endregion

const cancelled = await slow;
assert.equal(cancelled.status, "failed");
assert.equal(cancelled.error.code, "cancelled");

await qm.close();
