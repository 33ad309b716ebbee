import assert from "node:assert/strict";
import { resolve } from "node:path";
import { createQuartermaster } from "../src/index.ts";
import { createScriptedModel } from "../src/testing/exports.ts";

// What a model would do in the two steps of examples/method/skills/sort-feedback/SKILL.md.
const model = createScriptedModel([
  { toolCalls: [{ name: "infospace__filter-structured", args: { target: "collection__1", where: "stars <= 2" } }] },
  { toolCalls: [{ name: "finish_step", args: { result: "The complaints are collection__2." } }] },
  { toolCalls: [{ name: "infospace__size", args: { target: "collection__2" } }] },
  {
    toolCalls: [
      { name: "set_export", args: { name: "complaints", value: "collection__2" } },
      { name: "set_export", args: { name: "count", value: 2 } },
      { name: "end_method", args: { outcome: "success" } },
    ],
  },
]);

// #region method

const qm = await createQuartermaster({
  models: { default: model },
  infospace: { enabled: true },
  skills: { roots: [{ folder: resolve("examples/method/skills"), source: "example", trusted: true }] },
});

const stored = await qm.invoke("infospace__create-collection", {
  items: [
    { text: "Arrived broken.", stars: 1 },
    { text: "Lovely.", stars: 5 },
    { text: "Too late.", stars: 2 },
  ],
});
if (stored.status !== "done") throw new Error(stored.value);

const { handle } = stored.data as { handle: string };
const sorted = await qm.invoke("skill__sort-feedback", { feedback: handle });
console.log(sorted.value); // {"outcome":"success","exports":{"complaints":"collection__2","count":2},…

// #endregion

assert.equal(sorted.status, "done", sorted.value);
assert.deepEqual((sorted.status === "done" && (sorted.data as { exports: unknown }).exports) || {}, {
  complaints: "collection__2",
  count: 2,
});
const steps = (await qm.ledger.read({})).filter(({ type }) => type === "method.advanced");
assert.equal(steps.length, 2);

await qm.close();
