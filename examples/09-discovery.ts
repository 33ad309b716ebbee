/** Search for actions, detect that none fits, add prompt aids, and let a model load tools when it needs them. */
import assert from "node:assert/strict";
import { z } from "zod";
import { createQuartermaster } from "../src/index.ts";

const qm = await createQuartermaster({
  search: { hints: { enabled: true }, directory: { enabled: true } },
  surface: { kind: "deferred", activationScope: "session" },
});

qm.register({
  name: "weather",
  description: "Tell today's weather in a city.",
  inputSchema: z.object({ city: z.string(), unit: z.enum(["C", "F"]).default("C") }),
  effect: "read",
  scope: "generalist",
  handler: ({ city, unit }) => ({ city, degrees: unit === "C" ? 21 : 70 }),
});
qm.register({
  name: "rename_heading",
  description: "Rename a heading in a text file such as a readme.",
  inputSchema: z.object({ path: z.string(), from: z.string(), to: z.string() }),
  effect: "write",
  scope: "generalist",
  handler: () => "renamed",
});

// #region readme

const { items } = await qm.search({ query: "the wether in my city" });
console.log(items[0]?.qualified_name, items[0]?.signature); // tool__weather (city: string, unit?: "C"|"F")

const nothing = await qm.search({ query: "book a flight" });
console.log(nothing.items, nothing.unmatched); // [] [ 'book', 'flight' ]

// #endregion

assert.equal(items[0]?.qualified_name, "tool__weather");
assert.equal(items[0]?.signature, '(city: string, unit?: "C"|"F")');
assert.deepEqual(nothing.items, []);
assert.deepEqual(nothing.unmatched, ["book", "flight"]);

// #region search

const page = await qm.search(
  { query: "weather", type: "fts", category: ["tool"], limit: 3, detail: "full" },
  { actor: "default", session: "chat-1" },
);

// #endregion

assert.equal(page.items[0]?.qualified_name, "tool__weather");

// #region aids

const aids = await qm.promptAids("rename the title in the readme", { session: "chat-1" });

// #endregion

assert.match(aids, /^## Directory of actions\n- tool — 2 actions\n {2}tool__rename_heading, tool__weather\n/);
assert.match(
  aids,
  /\n## Actions that may fit "rename the title in the readme"\n- tool__rename_heading: Rename a heading/,
);

// #region deferred

const surface = await qm.surface({ session: "chat-1" });
console.log(surface.tools.map(({ name }) => name)); // tool_get, tool_search

await surface.call("tool_search", { query: "weather" });
await surface.call("tool__weather", { city: "Lisbon" });
console.log(surface.tools.map(({ name }) => name)); // tool_get, tool_search, tool__weather

// #endregion

assert.deepEqual(
  surface.tools.map(({ name }) => name),
  ["tool_get", "tool_search", "tool__weather"],
);

await qm.close();
