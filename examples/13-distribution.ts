/** Show each destination a different part of a result, and keep a model from restating a price. */
import assert from "node:assert/strict";
import type { Json, Outcome } from "../src/index.ts";

const screen: Json[] = [];
const kept = new Map<string, Json>();

// #region distribute

import { annotate, createQuartermaster } from "../src/index.ts";

const qm = await createQuartermaster({
  destinations: {
    ui: (view) => screen.push(view),
    cache: { deliver: (view) => void kept.set("quote", view), redact: ["customer.email"] },
  },
});

qm.register({
  name: "quote",
  description: "Quote a price for a customer.",
  inputSchema: { type: "object", properties: { sku: { type: "string" } }, required: ["sku"] },
  effect: "read",
  scope: "generalist",
  handler: ({ sku }) =>
    annotate(
      { sku, price: 1249.5, margin: 0.31, customer: { name: "Ann", email: "ann@example.org" } },
      {
        price: { composition: "anchored", label: "Price" },
        margin: { hidden: ["llm-session", "peer-response"], redacted: ["audit"] },
        "customer.email": { hidden: ["llm-session"] },
      },
    ),
});

const caller = { actor: "default", session: "chat-1" };
const outcome = await qm.invoke("tool__quote", { sku: "L-7" }, { caller });
console.log(outcome.value); // {"sku":"L-7","price":"{{Price:7f3a9c2k}}","customer":{"name":"Ann"}}

// #endregion

function tokenOf({ value }: Outcome): string {
  return (JSON.parse(value) as { readonly price: string }).price;
}

// #region anchors

const said = `The lamp is ${tokenOf(outcome)}.`; // the model's text
const { text, unknown } = await qm.anchors.render(caller, said);
console.log(text, unknown); // The lamp is 1249.5. []

// #endregion

assert.equal(text, "The lamp is 1249.5.");
assert.deepEqual(unknown, []);
assert.doesNotMatch(outcome.value, /1249|0\.31|example\.org/);
await qm.close();
assert.deepEqual(
  screen.map((view) => (view as { readonly margin: number }).margin),
  [0.31],
);
assert.match(JSON.stringify(kept.get("quote")), /"email":"\[redacted\]"/);
