/** Register a tool, call it, and list the actions. */
import assert from "node:assert/strict";

// #region readme

import { z } from "zod";
import { createQuartermaster } from "../src/index.ts";

const qm = await createQuartermaster();

qm.register({
  name: "weather",
  description: "Tell today's weather in a city.",
  inputSchema: z.object({ city: z.string(), unit: z.enum(["C", "F"]).default("C") }),
  effect: "read",
  scope: "generalist",
  handler: ({ city, unit }) => ({ city, degrees: unit === "C" ? 21 : 70 }),
});

const outcome = await qm.invoke("tool__weather", { city: "Lisbon" }); // never rejects
if (outcome.status === "done") console.log(outcome.data);
else console.log(outcome.status, outcome.reason);

console.log(qm.list().items); // [ { qualified_name: 'tool__weather', short_description: ... } ]
console.log(qm.explain("tool__weather").decision); // allow

// #endregion

assert.equal(outcome.status, "done");
assert.deepEqual(outcome.data, { city: "Lisbon", degrees: 21 });
assert.deepEqual(qm.list().items, [
  { qualified_name: "tool__weather", short_description: "Tell today's weather in a city." },
]);
assert.equal(qm.explain("tool__weather").decision, "allow");

// #region wrong

const wrong = await qm.invoke("tool__weather", { town: "Lisbon" });
console.log(wrong.status, wrong.value); // failed, with the schema and an example to try next

// #endregion

assert.equal(wrong.status, "failed");
assert.equal(wrong.error.code, "invalid_arguments");
assert.deepEqual(wrong.error.example, { city: "text" });

await qm.close();
