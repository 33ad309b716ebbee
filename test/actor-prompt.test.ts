import { expect, onTestFinished, test } from "vitest";
import { createQuartermaster, type QuartermasterOptions } from "../src/index.ts";
import { type ActorScript, createActorModel, respondWith } from "./fixtures/scripted-actor.ts";

const HELLO: ActorScript = {
  "Greet Ann.": [
    [["list_actions", {}]],
    [["invoke_action", { action_name: "tool__greet", args: { name: "Ann" } }]],
    [respondWith("Done.")],
  ],
};

async function world(script: ActorScript, options: QuartermasterOptions = {}) {
  const model = createActorModel(script);
  const actors = [
    { name: "strong", tools: ["*"], instructions: "You greet people." },
    { name: "weak", tools: ["*"], tier: "light" },
    { name: "flat", tools: ["*"], tier: "light", surface: { kind: "flat" } },
    { name: "searching", tools: ["*"], tier: "light", surface: { kind: "deferred" } },
  ] as const;
  const qm = await createQuartermaster({ models: { default: model }, policy: { actors }, ...options });
  onTestFinished(qm.close);
  qm.register({
    name: "greet",
    description: "Greet a person.",
    effect: "read",
    scope: "generalist",
    inputSchema: { type: "object", properties: { name: { type: "string" } } },
    handler: ({ name }) => `Hello, ${name}!`,
  });
  return { qm, model };
}

test("the model gets the actor's prompt, with the rules of a turn before what changes", async () => {
  const { qm, model } = await world(HELLO, { search: { hints: { enabled: true } } });

  const { turnState, session } = await qm.callActor("strong", "Greet Ann.");
  await qm.callActor("strong", "Greet Ann.", { caller: { session } });

  const { prefix, text } = await qm.prompt({ actor: "strong" }, { query: "Greet Ann." });
  const system = model.requests[0]?.system ?? "";
  expect(turnState).toBe("complete");
  expect(system.startsWith(`${prefix}\n\n## Answering\n`)).toBe(true);
  expect(prefix).toContain("## Instructions\nYou greet people.");
  expect(system.endsWith(text.slice(prefix.length))).toBe(true);
  expect(text.slice(prefix.length)).toContain("tool__greet");
  expect(new Set(model.requests.map((request) => request.system)).size).toBe(1);
});

test.each([
  ["weak", { tool: "list_actions" }],
  ["searching", { tool: "tool_search" }],
  ["flat", undefined],
  ["strong", undefined],
])("the first request of %s demands %j, and later ones nothing", async (actor, demanded) => {
  const { qm, model } = await world(HELLO);

  const { session } = await qm.callActor(actor, "Greet Ann.");
  await qm.callActor(actor, "Greet Ann.", { caller: { session } });

  // Each turn begins with it again.
  const turn = [demanded, undefined, undefined];
  expect(model.requests.map(({ toolChoice }) => toolChoice)).toEqual([...turn, ...turn]);
});

test("an action that the user names runs after one list", async () => {
  const { qm, model } = await world({
    "Run tool__greet.": [
      ({ toolChoice }) => [typeof toolChoice === "object" ? ["list_actions", {}] : ["invoke_action", {}]],
      [["invoke_action", { action_name: "tool__greet", args: { name: "Bo" } }]],
      [respondWith("Done.")],
    ],
  });

  const { turnState, calls } = await qm.callActor("weak", "Run tool__greet.");

  expect({ turnState, calls, requests: model.requests.length }).toEqual({
    turnState: "complete",
    calls: 2,
    requests: 3,
  });
  expect(JSON.stringify(model.requests[2]?.messages)).toContain("Hello, Bo!");
});
