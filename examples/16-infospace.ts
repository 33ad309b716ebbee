/** Store a result that is too long for a model, and use it through its handle. */
import assert from "node:assert/strict";

// #region keep

import { createQuartermaster } from "../src/index.ts";

const qm = await createQuartermaster({ infospace: {} });

qm.register({
  name: "list_orders",
  description: "List all orders.",
  inputSchema: { type: "object", properties: {} },
  effect: "read",
  scope: "generalist",
  handler: () =>
    Array.from({ length: 5_000 }, (_, at) => ({
      order: at,
      customer: `c${at % 50}`,
      amount: (at * 37) % 1000,
      status: at % 100 === 0 ? "disputed" : "paid",
    })),
});

const caller = { session: "chat-1" };
const orders = await qm.invoke("tool__list_orders", {}, { caller });
console.log(orders.value); // {"handle":"collection__1","resource_id":"collection__1","kind":"collection","count":5000,…,"next":"Give {\"$from\":…

// #endregion

assert.ok(orders.status === "done" && orders.kept !== undefined);
assert.ok(orders.value.length <= 1_200);
const sent: unknown[] = [];
qm.register({
  name: "send_report",
  description: "Send a report about some orders.",
  inputSchema: { type: "object", properties: { rows: { type: "array" } }, required: ["rows"] },
  effect: "external",
  scope: "generalist",
  handler: ({ rows }) => {
    sent.push(rows);
    return "sent";
  },
});

// #region handles

const disputed = await qm.invoke(
  "infospace__filter-structured",
  { target: orders.kept.handle, where: "status == 'disputed' && amount > 500" },
  { caller },
);
console.log(disputed.value); // {"handle":"collection__2",…,"count":20,"input":5000,"dropped":4980,…

await qm.invoke("tool__send_report", { rows: { $from: "collection__2" } }, { caller });

// #endregion

assert.ok(disputed.status === "done");
assert.equal((sent[0] as unknown[]).length, (disputed.data as { readonly count: number }).count);

// #region map

const mapped = await qm.invoke(
  "infospace__map",
  { target: "collection__2", action: "tool__send_report", args: { rows: [{ $item: "" }] } },
  { caller },
);
console.log(mapped.value); // {"handle":"collection__3",…,"done":20,"failed":0,"empty":0,…

// #endregion

assert.equal(sent.length, 1 + (disputed.data as { readonly count: number }).count);
await qm.close();
