/** The tools that a model sees, and how to run its tool calls, without a model library. */
import assert from "node:assert/strict";
import { qm } from "./support/weather.ts";

// #region readme

const surface = await qm.surface({ actor: "default", session: "chat-1" });
console.log(surface.tools.map(({ name }) => name)); // describe_action, invoke_action, list_actions, search_actions

const answer = await surface.call("invoke_action", { action_name: "tool__weather", args: { city: "Lisbon" } });
console.log(answer.ok, answer.text); // true {"city":"Lisbon","degrees":21}

// #endregion

assert.deepEqual(
  surface.tools.map(({ name }) => name),
  ["describe_action", "invoke_action", "list_actions", "search_actions"],
);
const { callId, ...said } = answer;
assert.equal(typeof callId, "string"); // the call's id in the ledger
assert.deepEqual(said, {
  ok: true,
  data: { city: "Lisbon", degrees: 21 },
  text: '{"city":"Lisbon","degrees":21}',
});

// With few actions, `auto` lists them directly as tools.
const small = await qm.surface({}, "auto");
assert.equal(small.kind, "flat");
assert.deepEqual(
  small.tools.map(({ name }) => name),
  ["tool__weather"],
);

const events = await qm.ledger.read({ session: "chat-1" });
assert.deepEqual(
  events.map(({ type }) => type),
  ["call.received", "call.decided", "call.ended"],
);

await qm.close();
