import { expect, test } from "vitest";
import { z } from "zod";
import { annotate } from "../src/index.ts";
import { openWorkplace } from "./fixtures/actor-workplace.ts";
import { type ActorAnswer, type ActorScript, createActorModel, respondWith } from "./fixtures/scripted-actor.ts";
import { readLastResults } from "./fixtures/scripted-method.ts";

async function openOffice(clerkScript: ActorScript, tellerScript: ActorScript) {
  const [clerk, teller] = [createActorModel(clerkScript), createActorModel(tellerScript)];
  const actors = [
    { name: "clerk", model: "clerk", tools: ["agent.peer__teller", "tool__rev*"] },
    { name: "teller", model: "teller", tools: ["tool__*"] },
    { name: "hidden", model: "teller", tools: ["tool__*"] },
  ];
  return { ...(await openWorkplace({}, { models: { clerk, teller }, policy: { actors } })), clerk, teller };
}

const invoke = (action_name: string, args: object) => ["invoke_action", { action_name, args }] as const;
const askTeller = (message: string) => invoke("agent.peer__teller", { message });

test("an actor neither delegates nor passes to one that it does not see", async () => {
  const { qm, clerk, teller } = await openOffice(
    {
      go: [
        [invoke("agent.peer__hidden", { message: "go" })],
        [respondWith("Not mine.", "passed", { pass_to: "hidden" })],
        [respondWith("Not mine.", "passed", { pass_to: "nobody" })],
        "Alone.",
      ],
    },
    {},
  );

  expect(await qm.callActor("clerk", "go")).toMatchObject({ actor: "clerk", parts: [{ text: "Alone." }] });

  const results = [1, 2, 3].map((at) => readLastResults(clerk.requests[at]).join());
  expect(results[0]).toContain("unknown_action");
  expect(results[1]?.replace("hidden", "nobody")).toBe(results[2]);
  expect(teller.requests).toEqual([]);
});

test("tokens keep their values on the way to another actor and back", async () => {
  const findToken = (text: string) => /\{\{iban:\w+\}\}/.exec(text)?.[0] ?? "none";
  const passToken: ActorAnswer = (request) => [askTeller(`check ${findToken(readLastResults(request).join())}`)];
  const { qm, clerk, teller } = await openOffice(
    { go: [[invoke("tool__reveal", {})], passToken, (request) => [respondWith(readLastResults(request).join())]] },
    {},
  );
  const checked: unknown[] = [];
  const tool = { scope: "generalist", effect: "read", description: "Handles an account." } as const;
  qm.register({
    ...tool,
    name: "reveal",
    inputSchema: z.object({}),
    handler: () => annotate({ iban: "DE-1" }, { iban: { composition: "anchored" } }),
  });
  qm.register({
    ...tool,
    name: "check",
    inputSchema: z.object({ iban: z.string() }),
    handler: ({ iban }) => checked.push(iban),
  });
  const generate = teller.generate.bind(teller);
  const check: typeof generate = async (request) => {
    teller.requests.push(request);
    const token = findToken(JSON.stringify(request.messages[0]));
    const calls =
      request.messages.length === 1 ? [invoke("tool__check", { iban: token })] : [respondWith(`${token} is fine`)];
    const toolCalls = calls.map(([name, args], at) => ({ id: `t${at}`, name, args }));
    return {
      message: { role: "assistant", text: "", toolCalls },
      finish: "tool-calls",
      inputTokens: 1,
      outputTokens: 1,
    };
  };
  Object.assign(teller, { generate: check });

  const { parts } = await qm.callActor("clerk", "go");

  expect(checked).toEqual(["DE-1"]);
  expect(parts).toEqual([{ partType: "response", text: expect.stringContaining("DE-1 is fine") }]);
  expect(JSON.stringify([clerk.requests, teller.requests])).not.toContain("DE-1");
});
