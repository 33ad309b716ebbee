import { describe, expect, test } from "vitest";
import { z } from "zod";
import { type ActorConfig, annotate, type QuartermasterOptions } from "../../src/index.ts";
import { answerAll, openWorkplace } from "../fixtures/actor-workplace.ts";
import { type ActorAnswer, type ActorScript, createActorModel, respondWith } from "../fixtures/scripted-actor.ts";
import { readLastResults } from "../fixtures/scripted-method.ts";

const actors: readonly ActorConfig[] = ["clerk", "teller"].map((name) => ({
  name,
  tools: ["*"],
  surface: { kind: "flat" },
  model: name,
}));

async function openOffice(
  clerkScript: ActorScript,
  tellerScript: ActorScript,
  policy: Partial<QuartermasterOptions["policy"]> = {},
) {
  const [clerk, teller] = [createActorModel(clerkScript), createActorModel(tellerScript)];
  const office = await openWorkplace({}, { models: { clerk, teller }, policy: { actors, ...policy } });
  return { ...office, clerk, teller };
}

const askTeller = (message: string) => ["agent.peer__teller", { message }] as const;
const passToTeller = respondWith("Not mine.", "passed", { pass_to: "teller" });

describe("passing the work on", () => {
  const rule = "tool.name == 'agent.peer__teller'";

  test.each([
    ["deny", rule, "The teller is closed."],
    ["ask", rule, "The teller is closed."],
    ["deny", `${rule} && args.message.contains('money')`, "The teller is closed."],
  ] as const)("is refused where a call would be: %s, %s", async (effect, condition, reason) => {
    const rules = [{ name: "closed", rule: condition, effect, reason }];
    const { qm, clerk, teller } = await openOffice({ "the money": [[passToTeller], "Alone."] }, {}, { rules });

    const envelope = await qm.callActor("clerk", "the money");

    expect(envelope).toMatchObject({ actor: "clerk", parts: [{ text: "Alone." }] });
    expect(readLastResults(clerk.requests[1])[0]).toContain(reason);
    expect(teller.requests).toEqual([]);
  });
});

test("a peer that watches a delegated turn sees tokens, like the model that delegated it", async () => {
  const tell: ActorAnswer = (request) => {
    const [token = "none"] = /\{\{iban:\w+\}\}/.exec(readLastResults(request).join()) ?? [];
    return [["respond", { parts: [{ partType: "progress", text: `Found ${token}.` }], turn_state: "awaiting" }]];
  };
  const { qm } = await openOffice({}, { which: [[["tool__reveal"]], tell, "Done."] });
  qm.register({
    name: "reveal",
    description: "Reveals an account.",
    inputSchema: z.object({}),
    scope: "generalist",
    effect: "read",
    handler: () => annotate({ iban: "DE-1" }, { iban: { composition: "anchored" } }),
  });
  const said: unknown[] = [];
  const dialogue = {
    owner: "test",
    capabilities: {},
    progress: (update: object) => said.push(update),
    log: () => {},
    ask: () => Promise.reject(new Error("nobody")),
  };

  await qm.invoke("agent.peer__teller", { message: "which" }, { caller: { actor: "clerk" }, dialogue } as never);

  expect(JSON.stringify(said)).toContain("Found {{iban:");
  expect(JSON.stringify(said)).not.toContain("DE-1");
});

describe("a cancelled turn runs nothing later", () => {
  test("that it asked a person about while another call was running", async () => {
    const stop = new AbortController();
    const { qm, ran } = await openOffice({ go: [[["tool__pay"], ["tool__hang"]]] }, {});
    qm.register({
      name: "hang",
      description: "Waits for ever.",
      inputSchema: z.object({}),
      scope: "generalist",
      effect: "external",
      handler: (_args, { signal }) =>
        new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
    });

    const turn = qm.callActor("clerk", "go", {
      signal: stop.signal,
      onEvent: (event) => event.type === "call-ended" && event.tool === "tool__pay" && stop.abort(),
    });

    expect(await turn).toMatchObject({ turnState: "cancelled" });
    await answerAll(qm);
    expect(ran).toEqual([]);
  });

  test("that a turn it had delegated asked a person about", async () => {
    const { qm, ran } = await openOffice({ go: [[askTeller("pay 7")]] }, { "pay 7": [[["tool__pay", { at: 7 }]]] });
    await qm.callActor("clerk", "go", { caller: { session: "s" } });

    expect(await qm.sessions.cancel("s", { actor: "clerk" })).toBe(true);

    await answerAll(qm);
    expect(ran).toEqual([]);
  });
});
