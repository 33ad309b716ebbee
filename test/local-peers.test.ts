import { describe, expect, test } from "vitest";
import type { ActorConfig, Model } from "../src/index.ts";
import { answerAll, openWorkplace } from "./fixtures/actor-workplace.ts";
import { type ActorScript, createActorModel, respondWith } from "./fixtures/scripted-actor.ts";
import { readLastResults } from "./fixtures/scripted-method.ts";

const flat = { kind: "flat" } as const;
const actors: readonly ActorConfig[] = [
  { name: "clerk", tools: ["agent.peer__*"], surface: flat, model: "clerk" },
  { name: "teller", tools: ["*"], surface: flat, model: "teller", description: "Pays and looks." },
  { name: "watcher", tools: ["*"] },
];
const askTeller = (message: string) => ["agent.peer__teller", { message }] as const;

async function openOffice(clerkScript: ActorScript, tellerScript: ActorScript) {
  const [clerk, teller] = [createActorModel(clerkScript), createActorModel(tellerScript)];
  const office = await openWorkplace({}, { models: { clerk, teller }, policy: { actors } });
  return { ...office, clerk, teller };
}

describe("an actor as a peer", () => {
  test("is seen by the others that may use it, and not by itself", async () => {
    const { qm } = await openOffice({}, {});
    const list = (actor: string) => qm.names({ actor }).filter((name) => name.startsWith("agent.peer"));

    expect(list("clerk")).toEqual(["agent.peer__teller"]);
    expect(list("teller")).toEqual(["agent.peer__clerk"]);
    expect(list("watcher")).toEqual(["agent.peer__clerk", "agent.peer__teller"]);
    expect(qm.describe("agent.peer__teller", { actor: "clerk" })).toMatchObject({ description: "Pays and looks." });
    expect(qm.explain("agent.peer__teller", { actor: "teller" })).toMatchObject({ visible: false });
  });

  test("is found by the former name of the category", async () => {
    const { qm } = await openOffice({}, { hello: ["Good morning."] });
    const caller = { actor: "watcher" };

    expect(await qm.invoke("multi_agent__teller", { message: "hello" }, { caller })).toMatchObject({
      status: "done",
      action: "agent.peer__teller",
      data: { state: "completed", text: "Good morning." },
    });
    expect(() => qm.list({ category: ["multi_agent"] }, caller)).toThrow(
      expect.objectContaining({ code: "unknown_category", hint: expect.stringContaining("agent.peer") }),
    );
  });

  test("answers another actor under its own policy, one hop further in the same session", async () => {
    const { qm, clerk, ran } = await openOffice(
      { go: [[askTeller("look 3")], [respondWith("It is there.")]] },
      { "look 3": [[["tool__look", { at: 3 }]], [respondWith("Seen.")]] },
    );

    const envelope = await qm.callActor("clerk", "go", { caller: { session: "s" } });

    expect(envelope).toMatchObject({ turnState: "complete", parts: [{ text: "It is there." }] });
    expect(JSON.parse(readLastResults(clerk.requests[1])[0] ?? "")).toEqual({ state: "completed", text: "Seen." });
    expect(ran).toEqual(["look 3"]);
    const started = await qm.ledger.read({ session: "s", actor: "teller", type: "turn.started" });
    expect(started.map(({ data }) => data)).toMatchObject([{ hops: 1 }]);
  });

  test("asks back, and fails as its turn failed", async () => {
    const { qm } = await openOffice({}, { which: [[respondWith("The red one?", "clarifying")]] });
    const caller = { actor: "watcher", session: "s" };

    expect(await qm.invoke("agent.peer__teller", { message: "which" }, { caller })).toMatchObject({
      status: "done",
      data: { state: "input_required", text: "The red one?" },
    });
    const model: Model = { name: "broken", generate: () => Promise.reject(new Error("no network")) };
    const broken = await openWorkplace({}, { models: { clerk: model, teller: model }, policy: { actors } });
    expect(await broken.qm.invoke("agent.peer__teller", { message: "x" }, { caller })).toMatchObject({
      status: "failed",
      error: { peer: "teller", error: expect.stringContaining("the actor teller gave no answer") },
    });
  });

  test("makes the call wait while a person is asked, and continues once", async () => {
    const { qm, ran } = await openOffice(
      {},
      { "pay 7": [[["tool__look"]], [["tool__pay", { at: 7 }]], [respondWith("Paid.")]] },
    );
    const ask = () =>
      qm.invoke("agent.peer__teller", { message: "pay 7" }, { caller: { actor: "watcher", session: "s" } });

    const first = await ask();
    expect(first).toMatchObject({ status: "waiting", approval: { inner: "tool__pay" } });
    await answerAll(qm);
    const second = await ask();

    expect(second).toMatchObject({ status: "done", data: { state: "completed", text: "Paid." } });
    expect(ran).toEqual(["look 0", "pay 7"]);
  });
});

test("actors that delegate to each other for ever come to an end", async () => {
  const { qm, clerk, teller } = await openOffice(
    { go: [[askTeller("go")], [respondWith("Enough.")]] },
    { go: [[["agent.peer__clerk", { message: "go" }]], [respondWith("Enough.")]] },
  );

  const envelope = await qm.callActor("clerk", "go");

  expect(envelope).toMatchObject({ turnState: "complete", parts: [{ text: "Enough." }] });
  expect(clerk.requests.length + teller.requests.length).toBeLessThanOrEqual(10);
});

test("work that was handed on too often is not handed on again", async () => {
  const { qm } = await openOffice({}, { hello: ["Good morning."] });
  const ask = (hops: number) =>
    qm.invoke("agent.peer__teller", { message: "hello" }, { caller: { actor: "watcher", session: `s${hops}`, hops } });

  expect(await ask(3)).toMatchObject({ status: "done" });
  expect(await ask(4)).toMatchObject({ status: "refused", error: { code: "denied" } });
  expect(await ask(5)).toMatchObject({ status: "refused", error: { code: "denied" } });
});

test("actors of a new policy are peers at once, and former ones are gone", async () => {
  const { qm } = await openOffice({}, {});
  const lister = { name: "lister", tools: ["agent.peer__auditor"] };
  const auditor = { name: "auditor", tools: [], model: "teller" };

  qm.usePolicy({ actors: [lister, auditor] });

  expect(qm.names({ actor: "lister" })).toEqual(["agent.peer__auditor"]);
  expect(() => qm.usePolicy({ actors: [lister] })).toThrow('lists "agent.peer__auditor", which does not exist');
});
