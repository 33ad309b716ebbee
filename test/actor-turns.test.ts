import { expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { type ActorEvent, createQuartermaster, type Model, type QuartermasterOptions } from "../src/index.ts";
import { type ActorScript, createActorModel, respondWith } from "./fixtures/scripted-actor.ts";
import { readLastResults } from "./fixtures/scripted-method.ts";

const ann = { id: "ann", roles: ["user"], via: "test" };

async function open(script: ActorScript, options: Partial<QuartermasterOptions> = {}) {
  const model = createActorModel(script);
  const ran: string[] = [];
  const qm = await createQuartermaster({
    models: { default: model },
    policy: {
      actors: [
        { name: "clerk", tools: ["*"], surface: { kind: "flat" } },
        { name: "default", tools: ["*"] },
      ],
    },
    ...options,
  });
  onTestFinished(() => qm.close());
  for (const [name, requiresApproval] of [
    ["look", false],
    ["pay", true],
    ["break", false],
  ] as const)
    qm.register({
      name,
      description: `Something to ${name}.`,
      inputSchema: z.object({ at: z.number().optional() }),
      scope: "generalist",
      effect: name === "look" ? "read" : "external",
      requiresApproval,
      handler({ at = 0 }) {
        ran.push(`${name} ${at}`);
        if (name === "break") throw new Error("it broke");
        return { did: name, at };
      },
    });
  return { qm, model, ran };
}

test("an actor calls tools, answers with respond, and remembers the session", async () => {
  const { qm, model, ran } = await open({
    "look twice": [
      [
        ["tool__look", { at: 1 }],
        ["tool__look", { at: 2 }],
      ],
      [respondWith("Looked.")],
    ],
    again: ["Still there."],
  });
  const events: ActorEvent[] = [];

  const first = await qm.callActor("clerk", "look twice", { caller: { session: "s" }, onEvent: (e) => events.push(e) });

  expect(first).toEqual({
    ...{ actor: "clerk", session: "s", turnId: expect.any(String), turnState: "complete", steps: 2, calls: 2 },
    parts: [{ partType: "response", text: "Looked." }],
    usage: { inputTokens: 20, outputTokens: 4 },
  });
  expect(ran.sort()).toEqual(["look 1", "look 2"]);
  expect(readLastResults(model.requests[1])).toEqual(['{"did":"look","at":1}', '{"did":"look","at":2}']);
  expect(events.map(({ type }) => type)).toEqual([
    ...["step", "call-started", "call-started", "call-ended", "call-ended", "step", "part"],
  ]);
  expect(model.requests[0]?.tools?.at(-1)?.name).toBe("respond");

  const second = await qm.callActor("clerk", "again", { caller: { session: "s" }, onEvent: (e) => events.push(e) });

  expect(second.parts).toEqual([{ partType: "response", text: "Still there." }]);
  expect(model.requests[2]?.messages.map(({ role }) => role)).toEqual([
    "user",
    "assistant",
    "tool",
    "assistant",
    "tool",
    "user",
  ]);
  expect(events.filter(({ type }) => type === "text")).toEqual([
    { type: "text", text: "Still " },
    { type: "text", text: "there." },
  ]);
  expect(await qm.sessions.list()).toMatchObject([{ session: "s", actor: "clerk", title: "look twice", messages: 7 }]);
  expect((await qm.sessions.get("s")).history.map(({ seq }) => seq)).toEqual([1, 2, 3, 4, 5, 6, 7]);
  const types = (await qm.ledger.read({ session: "s" })).map(({ type }) => type);
  expect(types.filter((type) => type.startsWith("turn."))).toEqual([
    ...["turn.started", "turn.ended", "turn.started", "turn.ended"],
  ]);
  expect(types.filter((type) => type === "model.called")).toHaveLength(3);
});

test("a call that needs approval suspends the turn, and the answer continues it", async () => {
  const { qm, model, ran } = await open({
    "pay it": [[["tool__pay", { at: 7 }], ["tool__look"]], [respondWith("Paid.")]],
  });
  const first = await qm.callActor("clerk", "pay it");

  expect(first).toMatchObject({
    turnState: "suspended",
    parts: [{ partType: "approval-request", data: { action: "tool__pay", args: { at: 7 } } }],
    resumeToken: expect.any(String),
    resumeExpiresAt: expect.any(String),
  });
  expect(ran).toEqual(["look 0"]);
  const token = first.resumeToken ?? "";
  await expect(qm.callActor("clerk", "pay it", { caller: { session: first.session } })).rejects.toMatchObject({
    code: "conflict",
    message: expect.stringContaining("tool__pay"),
  });
  expect(await qm.resumeActor(token)).toMatchObject({
    turnState: "suspended",
    parts: [{ data: { action: "tool__pay" } }],
  });

  const [approval] = await qm.approvals.list();
  await qm.approvals.answer(approval?.id ?? "", { decision: "approved" }, ann);
  await qm.approvals.outcome(approval?.id ?? "", { timeoutMs: 5_000 });
  const second = await qm.resumeActor(token);

  expect(second).toMatchObject({ turnId: first.turnId, turnState: "complete", parts: [{ text: "Paid." }], steps: 2 });
  expect(readLastResults(model.requests[1])).toEqual(['{"did":"pay","at":7}', '{"did":"look","at":0}']);
  expect(ran).toEqual(["look 0", "pay 7"]);
  await expect(qm.resumeActor(token)).rejects.toMatchObject({ code: "conflict" });
  await expect(qm.resumeActor("nonsense")).rejects.toMatchObject({ code: "not_found" });
});

test("a denied call is a result that the model sees", async () => {
  const { qm, model, ran } = await open({
    "pay it": [[["tool__pay"]], ["not paid"].map(() => respondWith("Not paid."))],
  });
  const { resumeToken = "" } = await qm.callActor("clerk", "pay it");
  const [approval] = await qm.approvals.list();
  await qm.approvals.answer(approval?.id ?? "", { decision: "denied", reason: "too dear" }, ann);

  const ended = await qm.resumeActor(resumeToken);

  expect(ended).toMatchObject({ turnState: "complete", parts: [{ text: "Not paid." }] });
  expect(readLastResults(model.requests[1])).toEqual([expect.stringMatching(/tool_denied.*too dear/)]);
  expect(ran).toEqual([]);
});

test("rejects an unknown actor, wrong options, and an actor without a model", async () => {
  const { qm } = await open(
    {},
    {
      models: {},
      policy: { actors: [{ name: "clerk", tools: ["*"] }] },
    },
  );

  await expect(qm.callActor("clark", "hello")).rejects.toMatchObject({ code: "unknown_actor" });
  await expect(qm.callActor("clerk", "hello")).rejects.toMatchObject({
    code: "no_model",
    hint: expect.stringContaining("models.default"),
  });
  await expect(qm.callActor("clerk", " ")).rejects.toMatchObject({ code: "invalid_config" });
  await expect(qm.callActor("clerk", "hello", { calle: {} } as never)).rejects.toMatchObject({
    code: "invalid_config",
  });
});

test("a model that fails ends the turn, and the next message works", async () => {
  const failing: Model["generate"] = async () => {
    throw new Error("out of order");
  };
  const { qm, model } = await open({ hello: ["Hello."] });
  const generate = model.generate;
  Object.assign(model, { generate: failing });
  const failed = await qm.callActor("clerk", "hello", { caller: { session: "s" } });
  Object.assign(model, { generate });

  expect(failed).toMatchObject({
    turnState: "failed",
    error: { code: "model_failed" },
    parts: [{ partType: "error" }],
  });
  expect(await qm.callActor("clerk", "hello", { caller: { session: "s" } })).toMatchObject({ turnState: "complete" });
  expect((await qm.sessions.get("s")).history.map(({ message }) => message.role)).toEqual([
    ...["user", "user", "assistant"],
  ]);
});

test("a session of another user or tenant is not found", async () => {
  const { qm } = await open({ hello: ["Hello."] });
  const caller = { session: "s", tenant: "acme", user: { id: "u" } };
  await qm.callActor("clerk", "hello", { caller });

  for (const other of [undefined, { tenant: "acme" }, { tenant: "other", user: { id: "u" } }])
    await expect(qm.sessions.get("s", other && { caller: other })).rejects.toMatchObject({ code: "not_found" });
  await expect(qm.sessions.remove("s")).rejects.toMatchObject({ code: "not_found" });
  expect(await qm.sessions.get("s", { caller })).toMatchObject({ user: "u", tenant: "acme", messages: 2 });

  await qm.sessions.remove("s", { caller });

  await expect(qm.sessions.get("s", { caller })).rejects.toMatchObject({ code: "not_found" });
});
