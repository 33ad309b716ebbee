import { describe, expect, test } from "vitest";
import { z } from "zod";
import { type ActorEvent, defineAction } from "../src/index.ts";
import { answerAll, openWorkplace } from "./fixtures/actor-workplace.ts";
import { respondWith } from "./fixtures/scripted-actor.ts";
import { readLastResults } from "./fixtures/scripted-method.ts";

const said = (...texts: string[]) => texts.map((text) => ({ partType: "response", text }));

describe("respond", () => {
  test("ends the turn after the calls beside it have run", async () => {
    const { qm, ran, model } = await openWorkplace({ go: [[respondWith("Done."), ["tool__look", { at: 1 }]]] });

    expect(await qm.callActor("clerk", "go")).toMatchObject({ turnState: "complete", parts: said("Done."), calls: 1 });

    expect(ran).toEqual(["look 1"]);
    expect(model.requests).toHaveLength(1);
    const [session] = await qm.sessions.list();
    const { history } = await qm.sessions.get(session?.session ?? "");
    const last = history.at(-1)?.message;
    expect(last?.role === "tool" && last.results.map(({ name, text }) => [name, text])).toEqual([
      ["respond", "delivered"],
      ["tool__look", '{"did":"look","at":1}'],
    ]);
  });

  test.each([
    ["failed", ["tool__break"], "it broke"],
    ["was refused", ["tool__hidden"], "unknown_action"],
  ] as const)("goes on if a call beside it %s, and does not deliver the answer", async (_how, call, problem) => {
    const { qm, model } = await openWorkplace({ go: [[call, respondWith("Done.")], [respondWith("It failed.")]] });

    expect(await qm.callActor("clerk", "go")).toMatchObject({ turnState: "complete", parts: said("It failed.") });

    expect(readLastResults(model.requests[1])).toEqual([
      expect.stringContaining(problem),
      expect.stringContaining("not delivered"),
    ]);
  });

  test("goes on if a call beside it had to wait for a person", async () => {
    const { qm, model, ran } = await openWorkplace({
      go: [[["tool__pay"], respondWith("Wait.", "awaiting"), respondWith("Paid.")], [respondWith("Now it is paid.")]],
    });
    const texts: unknown[] = [];
    const onEvent = (event: ActorEvent) => event.type === "part" && texts.push(event.part.text);

    const first = await qm.callActor("clerk", "go", { onEvent });
    expect(first.turnState).toBe("suspended");
    expect(texts).toEqual(["Wait."]);
    await answerAll(qm);
    const second = await qm.resumeActor(first.resumeToken ?? "", { onEvent });

    expect(second).toMatchObject({ turnState: "complete", parts: said("Wait.", "Now it is paid.") });
    expect(texts).toEqual(["Wait.", "Now it is paid."]);
    expect(ran).toEqual(["pay 0"]);
    expect(readLastResults(model.requests[1])).toEqual([
      '{"did":"pay","at":0}',
      expect.stringContaining("delivered. Go on"),
      expect.stringContaining("not delivered"),
    ]);
  });

  test("joins the parts of several calls in one answer", async () => {
    const { qm } = await openWorkplace({ go: [[respondWith("One.", "awaiting"), respondWith("Two.", "clarifying")]] });

    expect(await qm.callActor("clerk", "go")).toMatchObject({ turnState: "clarifying", parts: said("One.", "Two.") });
  });

  test("goes on if one of several calls of it is wrong", async () => {
    const { qm, model } = await openWorkplace({
      go: [[["respond", { parts: [] }], respondWith("Half.")], [respondWith("Whole.")]],
    });

    expect(await qm.callActor("clerk", "go")).toMatchObject({ turnState: "complete", parts: said("Whole.") });
    expect(readLastResults(model.requests[1])[1]).toContain("not delivered");
  });

  test("delivers parts while the turn goes on", async () => {
    const { qm } = await openWorkplace({
      go: [
        [["respond", { parts: [{ partType: "ack", text: "At once." }], turn_state: "awaiting" }]],
        [respondWith("Done.")],
      ],
    });
    const events: ActorEvent[] = [];

    const { parts } = await qm.callActor("clerk", "go", { onEvent: (event) => events.push(event) });

    expect(parts).toEqual([{ partType: "ack", text: "At once." }, ...said("Done.")]);
    expect(events.filter(({ type }) => type === "part" || type === "step").map(({ type }) => type)).toEqual([
      ...["step", "part", "step", "part"],
    ]);
  });

  test.each([
    ["no parts", { parts: [] }, "parts"],
    ["an unknown type of part", { parts: [{ partType: "poem", text: "x" }] }, "partType"],
    ["an empty part", { parts: [{ partType: "response", text: " " }] }, "neither text nor data"],
    ["an unknown state", { parts: [{ partType: "response", text: "x" }], turn_state: "maybe" }, "turn_state"],
    ["nobody to pass to", { parts: [{ partType: "ack", text: "x" }], turn_state: "passed" }, "pass_to"],
    ["too many parts", { parts: Array.from({ length: 1_001 }, () => ({ partType: "ack", text: "x" })) }, "1000 parts"],
    ["nonsense", "nonsense", "respond"],
  ])("with %s is answered with what is wrong, and the model tries again", async (_what, args, problem) => {
    const { qm, model } = await openWorkplace({ go: [[["respond", args]], [respondWith("Right.")]] });

    const envelope = await qm.callActor("clerk", "go");

    expect(envelope).toMatchObject({ turnState: "complete", parts: said("Right.") });
    expect(readLastResults(model.requests[1])).toEqual([
      expect.stringMatching(new RegExp(`invalid_arguments.*${problem}`)),
    ]);
  });

  test("takes arguments that are written as JSON text", async () => {
    const text = JSON.stringify({ parts: [{ partType: "response", text: "Encoded." }] });
    const { qm, model } = await openWorkplace({ go: [[["respond", text]]] });

    expect(await qm.callActor("clerk", "go")).toMatchObject({ turnState: "complete", parts: said("Encoded.") });
    expect(model.requests).toHaveLength(1);
  });

  test.each(["universal", "deferred", "flat"] as const)("cannot be replaced on the %s surface", async (kind) => {
    const actors = [{ name: "clerk", tools: ["*"], surface: { kind, selection: "promote" as const } }];
    const { qm, model, ran } = await openWorkplace({ go: [[respondWith("Mine.")]] }, { policy: { actors } });
    const definition = { description: "Takes the answer.", effect: "read" as const };
    const handler = () => ran.push("taken");
    const tool = {
      ...definition,
      name: "respond",
      inputSchema: z.looseObject({}),
      scope: "generalist",
      handler,
    } as const;
    expect(() => qm.register(tool)).toThrow(expect.objectContaining({ code: "invalid_registration" }));
    const input = { type: "object" };
    const action = defineAction("desk", { ...definition, entry: "respond", input, aliases: ["respond"], run: handler });
    qm.catalog.provide({ category: "desk", capability: "Take answers.", list: async () => [action] });
    await qm.catalog.settled();

    expect(await qm.callActor("clerk", "go")).toMatchObject({ turnState: "complete", parts: said("Mine.") });

    expect(ran).toEqual([]);
    expect(model.requests[0]?.tools?.filter(({ name }) => name === "respond")).toMatchObject([
      { description: expect.stringContaining("Answer the user") },
    ]);
  });
});

test("text without a call is the answer", async () => {
  const { qm } = await openWorkplace({ go: ["  Just text.  "] });

  expect(await qm.callActor("clerk", "go")).toMatchObject({
    turnState: "complete",
    parts: said("Just text."),
    steps: 1,
  });
});

test("a model that answers nothing is reminded, and fails in the end", async () => {
  const { qm, model } = await openWorkplace({ go: [" "] });

  expect(await qm.callActor("clerk", "go")).toMatchObject({ turnState: "failed", error: { code: "model_failed" } });

  expect(model.requests).toHaveLength(4);
  expect(model.requests[1]?.messages.at(-1)).toMatchObject({ text: expect.stringContaining("empty") });
});
