/** Policy: actors, rules, budgets, a visibility policy, and how to explain a decision. */
import assert from "node:assert/strict";
import { z } from "zod";

// #region policy

import { createQuartermaster, type PolicyOptions } from "../src/index.ts";

const policy: PolicyOptions = {
  tools: { denied: ["tool__drop_*"] },
  rules: [
    { name: "admins-delete", rule: "actor.scope != 'admin' && 'destructive' in tool.tags", effect: "hide" },
    { name: "small-sums", rule: "tool.name == 'tool__pay' && args.sum > 100", effect: "deny", reason: "At most 100." },
    { name: "ask-outbound", rule: "'outbound' in tool.tags", effect: "ask" },
  ],
  actors: [
    { name: "default", tools: ["*"] },
    { name: "admin", tools: ["*"], scope: "admin" },
  ],
  budgets: { session: { calls: 100 } },
};
const qm = await createQuartermaster({ policy });

// #endregion

for (const { name, tags = [] } of [
  { name: "drop_table" },
  { name: "delete", tags: ["destructive"] },
  { name: "pay" },
  { name: "mail", tags: ["outbound"] },
]) {
  qm.register({
    name,
    tags,
    description: `An example that does nothing: ${name}.`,
    inputSchema: z.object({ sum: z.number().optional() }),
    effect: "external",
    scope: "generalist",
    handler: () => "ran",
  });
}

const isTool = (name: string) => name.startsWith("tool__");
const namesFor = (actor: string) => qm.list({}, { actor }).items.map(({ qualified_name }) => qualified_name);
assert.deepEqual(namesFor("default").filter(isTool), ["tool__mail", "tool__pay"]);
assert.deepEqual(namesFor("admin").filter(isTool), ["tool__delete", "tool__mail", "tool__pay"]);

// #region outcomes

const hidden = await qm.invoke("tool__delete"); // failed, unknown_action: as if it did not exist
const denied = await qm.invoke("tool__pay", { sum: 500 }); // refused, denied: "At most 100."
const asked = await qm.invoke("tool__mail"); // waiting: not approved yet
const done = await qm.invoke("tool__delete", {}, { caller: { actor: "admin" } });

// #endregion

assert.deepEqual([hidden, denied].map(codeOf), ["unknown_action", "denied"]);
assert.deepEqual(
  [hidden, denied, asked, done].map(({ status }) => status),
  ["failed", "refused", "waiting", "done"],
);
assert.equal(denied.status !== "done" && denied.reason, "At most 100.");

// #region explain

const { visible, because } = qm.explain("tool__delete", { actor: "default" });
console.log(visible, because); // false { layer: 'tag-rules', rule: 'admins-delete' }

// #endregion

assert.equal(visible, false);
assert.deepEqual(because, { layer: "tag-rules", rule: "admins-delete" });

// #region visibility

const isShut = new Set<string>();
qm.usePolicy({
  ...policy,
  visibility: { visibleTools: (actions, { tenant }) => actions.filter(() => !isShut.has(tenant ?? "")) },
});
isShut.add("acme"); // from now on, this tenant sees no actions

// #endregion

assert.equal(qm.list({}, { tenant: "acme" }).total, 0);
assert.equal(qm.list({ category: ["tool"] }, { tenant: "other" }).total, 2);

await qm.close();

function codeOf(outcome: Awaited<ReturnType<typeof qm.invoke>>): string {
  return "error" in outcome ? outcome.error.code : "";
}
