import { expect, test } from "vitest";
import { z } from "zod";
import { type ActorConfig, annotate, type Model } from "../src/index.ts";
import { answerAll, openWorkplace } from "./fixtures/actor-workplace.ts";
import { type ActorAnswer, type ActorScript, createActorModel, respondWith } from "./fixtures/scripted-actor.ts";
import { readLastResults } from "./fixtures/scripted-method.ts";

const actors = ["clerk", "teller"].map((name) => ({
  name,
  tools: name === "clerk" ? ["tool__look", "agent.peer__*"] : ["*"],
  surface: { kind: "flat" as const },
  model: name,
}));

async function openOffice(
  clerkScript: ActorScript,
  tellerScript: ActorScript,
  [other, third]: readonly [ActorConfig?, Model?] = [],
) {
  const [clerk, teller] = [createActorModel(clerkScript), createActorModel(tellerScript)];
  const models = { clerk, teller, ...(third && { third }) };
  const office = await openWorkplace({}, { models, policy: { actors: [...actors, ...(other ? [other] : [])] } });
  return { ...office, clerk, teller };
}

const askTeller = (message: string) => ["agent.peer__teller", { message }] as const;

test("an actor runs a turn of another one inside its call", async () => {
  const { qm, clerk } = await openOffice(
    { go: [[askTeller("look 3")], [respondWith("It said so.")]], again: [[askTeller("look 3")], "Twice."] },
    { "look 3": [[["tool__look", { at: 3 }]], [respondWith("Seen.")]] },
  );

  const envelope = await qm.callActor("clerk", "go", { caller: { session: "s", tenant: "acme" } });

  expect(envelope).toMatchObject({ actor: "clerk", turnState: "complete", parts: [{ text: "It said so." }] });
  expect(readLastResults(clerk.requests[1])).toEqual([expect.stringMatching(/completed.*Seen\./)]);
  const events = await qm.ledger.read({ session: "s" });
  const asked = events.find(({ type, action }) => type === "call.decided" && action === "agent.peer__teller");
  const inner = events.filter(({ actor }) => actor === "teller");
  expect(inner.find(({ type }) => type === "turn.started")?.data).toMatchObject({ parent: asked?.callId, hops: 1 });
  expect(inner.find(({ type }) => type === "call.received")?.data).toMatchObject({ parent: asked?.callId });

  // The same question later is a new one, with the history of the first.
  await qm.callActor("clerk", "again", { caller: { session: "s", tenant: "acme" } });

  const of = await qm.sessions.list({ session: "s", actor: "teller" });
  expect(of).toMatchObject([{ tenant: "acme", messages: 10 }]);
});

test("a delegated turn that waits for a person makes the call wait, and continues when the call is repeated", async () => {
  const { qm, clerk, ran } = await openOffice(
    { go: [[askTeller("pay 7")], [respondWith("Settled.")]] },
    {
      "pay 7": [
        [
          ["tool__look", { at: 1 }],
          ["tool__pay", { at: 7 }],
        ],
        [["tool__pay", { at: 8 }]],
        [respondWith("Paid.")],
      ],
    },
  );

  const first = await qm.callActor("clerk", "go");

  expect(first).toMatchObject({
    turnState: "suspended",
    parts: [{ partType: "approval-request", data: { action: "agent.peer__teller", inner: "tool__pay" } }],
  });
  expect(await qm.resumeActor(first.resumeToken ?? "")).toMatchObject({ turnState: "suspended" });
  await answerAll(qm);
  // The turn of the teller waits a second time.
  const second = await qm.resumeActor(first.resumeToken ?? "");
  expect(second).toMatchObject({ turnState: "suspended", parts: [{ data: { inner: "tool__pay" } }] });
  expect(second.resumeToken).not.toBe(first.resumeToken);
  await answerAll(qm);

  const third = await qm.resumeActor(second.resumeToken ?? "");

  expect(third).toMatchObject({ actor: "clerk", turnState: "complete", parts: [{ text: "Settled." }] });
  expect(readLastResults(clerk.requests[1])).toEqual([expect.stringContaining("Paid.")]);
  expect(ran).toEqual(["look 1", "pay 7", "pay 8"]);
  expect((await qm.ledger.read({ type: "turn.started" })).length).toBe(2);
});

test("a handler delegates with its context, and gets the answer of the same turn after the approval", async () => {
  const { qm, ran } = await openOffice({}, { "pay 7": [[["tool__pay", { at: 7 }]], [respondWith("Paid.")]] }, [
    { name: "third", tools: ["*"] },
  ]);
  qm.register({
    name: "settle",
    description: "Settles a bill.",
    inputSchema: z.object({}),
    scope: "generalist",
    effect: "external",
    async handler(_args, context) {
      const outcome = await context.invoke("agent.peer__teller", { message: "pay 7" });
      return outcome.status === "done" ? outcome.data : outcome;
    },
  });
  const settle = () => qm.invoke("tool__settle", {}, { caller: { actor: "third", session: "s" } });

  expect(await settle()).toMatchObject({ status: "waiting", approval: { inner: "tool__pay" } });
  await answerAll(qm);

  expect(await settle()).toMatchObject({ status: "done", data: { state: "completed", text: "Paid." } });
  expect(ran).toEqual(["pay 7"]);
  expect(await qm.ledger.read({ type: "turn.started" })).toHaveLength(1);
});

test("a delegated turn that is left alone with its approval is cancelled by the next one", async () => {
  const { qm, ran } = await openOffice(
    { go: [[askTeller("pay 7")]], look: [[askTeller("look 3")], [respondWith("Fine.")]] },
    { "pay 7": [[["tool__pay", { at: 7 }]]], "look 3": ["Looked."] },
  );
  await qm.callActor("clerk", "go", { caller: { session: "s" } });
  await qm.sessions.cancel("s", { actor: "clerk" });

  const next = await qm.callActor("clerk", "look", { caller: { session: "s" } });

  expect(next).toMatchObject({ turnState: "complete", parts: [{ text: "Fine." }] });
  await answerAll(qm);
  expect(ran).toEqual([]);
});

test("actors that ask each other in a circle are refused", async () => {
  const { qm, teller } = await openOffice(
    { go: [[askTeller("go")], "Stopped."] },
    { go: [[["agent.peer__clerk", { message: "go" }]], "Stopped."] },
  );

  expect(await qm.callActor("clerk", "go")).toMatchObject({ turnState: "complete", parts: [{ text: "Stopped." }] });

  expect(readLastResults(teller.requests[1])).toEqual([expect.stringMatching(/conflict.*another turn/)]);
});

test("work is handed on four times at most", async () => {
  const names = ["a0", "a1", "a2", "a3", "a4", "a5"];
  const script = (at: number): ActorScript => ({
    go: [[respondWith("Not mine.", "passed", { pass_to: `a${at + 1}` })], `I am a${at}.`],
  });
  const models = Object.fromEntries(names.map((name, at) => [name, createActorModel(script(at))]));
  const chain = names.map((name) => ({ name, tools: ["*"], model: name }));
  const { qm } = await openWorkplace({}, { models, policy: { actors: chain } });

  expect(await qm.callActor("a0", "go")).toMatchObject({ actor: "a4", parts: [{ text: "I am a4." }] });

  expect(readLastResults(models.a4?.requests[1])).toEqual([expect.stringContaining("the limit is 4")]);
});

test("the work is passed to another actor, whose answer is the answer", async () => {
  const { qm, clerk } = await openOffice(
    {
      "pay 7": [
        [respondWith("Not mine.", "passed", { pass_to: "nobody" })],
        [respondWith("Not mine.", "passed", { pass_to: "clerk" })],
        [respondWith("Not mine.", "passed", { pass_to: "teller" })],
      ],
    },
    { "pay 7": [[["tool__pay", { at: 7 }]], [respondWith("Paid.")]] },
  );

  const first = await qm.callActor("clerk", "pay 7", { caller: { session: "s" } });

  expect(first).toMatchObject({ actor: "teller", turnState: "suspended" });
  expect(readLastResults(clerk.requests[1])[0]).toMatch(/there is no actor .*nobody/);
  expect(readLastResults(clerk.requests[2])[0]).toContain("itself");
  await answerAll(qm);
  expect(await qm.resumeActor(first.resumeToken ?? "")).toMatchObject({ actor: "teller", turnState: "complete" });
  expect((await qm.ledger.read({ type: "turn.ended" })).map(({ data }) => data)).toMatchObject([
    { state: "complete" },
    { state: "complete" },
  ]);
});

test("a delegated turn that passes the work on is found again after the approval", async () => {
  const third = { name: "third", tools: ["*"], model: "third", surface: { kind: "flat" as const } };
  const { qm, ran, clerk } = await openOffice(
    { go: [[askTeller("pay 7")], [respondWith("Settled.")]] },
    { "pay 7": [[respondWith("Not mine.", "passed", { pass_to: "third" })]] },
    [third, createActorModel({ "pay 7": [[["tool__pay", { at: 7 }]], [respondWith("Paid.")]] })],
  );
  const first = await qm.callActor("clerk", "go");
  await answerAll(qm);

  const last = await qm.resumeActor(first.resumeToken ?? "");

  expect(last).toMatchObject({ turnState: "complete", parts: [{ text: "Settled." }] });
  expect(readLastResults(clerk.requests[1])).toEqual([expect.stringContaining("Paid.")]);
  expect(ran).toEqual(["pay 7"]);
  expect(await qm.ledger.read({ type: "turn.started" })).toHaveLength(3);
});

test("models pass on tokens, and only the host gets the values", async () => {
  const copyToken: ActorAnswer = (request) => {
    const [token = "none"] = /\{\{iban:\w+\}\}/.exec(readLastResults(request).join()) ?? [];
    return [respondWith(`It is ${token}.`)];
  };
  const { qm, clerk, teller } = await openOffice(
    { go: [[askTeller("which")], copyToken] },
    { which: [[["tool__reveal"]], copyToken] },
  );
  qm.register({
    name: "reveal",
    description: "Reveals an account.",
    inputSchema: z.object({}),
    scope: "generalist",
    effect: "read",
    handler: () => annotate({ iban: "DE-1" }, { iban: { composition: "anchored" } }),
  });
  const texts: string[] = [];

  const { parts } = await qm.callActor("clerk", "go", {
    onEvent: (event) => event.type === "part" && texts.push(event.part.text ?? ""),
  });

  expect(parts).toEqual([{ partType: "response", text: "It is DE-1." }]);
  expect(texts).toEqual(["It is DE-1."]);
  expect(JSON.stringify([clerk.requests, teller.requests])).not.toContain("DE-1");
});
