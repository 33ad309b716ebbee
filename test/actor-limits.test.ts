import { describe, expect, test } from "vitest";
import type { ActorEvent, ModelRequest } from "../src/index.ts";
import { openWorkplace } from "./fixtures/actor-workplace.ts";
import { type ActorAnswer, respondWith } from "./fixtures/scripted-actor.ts";
import { readLastResults } from "./fixtures/scripted-method.ts";

const look: ActorAnswer = [["tool__look"]];
const clerk = { name: "clerk", tools: ["*"], surface: { kind: "flat" as const } };
const withSteps = (maxSteps: number) => ({ policy: { actors: [{ ...clerk, maxSteps }] } });

describe("the limit of steps", () => {
  test("ends with one request without tools, whose text is the answer", async () => {
    const { qm, model } = await openWorkplace({ go: [look, look, "So far I have looked."] }, withSteps(2));

    const envelope = await qm.callActor("clerk", "go", { caller: { session: "s" } });

    expect(envelope).toMatchObject({ turnState: "complete", steps: 3, parts: [{ text: "So far I have looked." }] });
    const last = model.requests[2];
    expect(last?.toolChoice).toBe("none");
    expect(last?.messages.at(-1)).toMatchObject({ role: "user", text: expect.stringContaining("all 2 steps") });
    // The request is not part of the history, the answer is.
    const { history } = await qm.sessions.get("s");
    expect(history.map(({ message }) => message.role)).toEqual([
      ...["user", "assistant", "tool", "assistant", "tool", "assistant"],
    ]);
  });

  test("runs no calls of a model that goes on calling", async () => {
    const { qm, ran } = await openWorkplace({ go: [look, look, look] }, withSteps(2));

    expect(await qm.callActor("clerk", "go")).toMatchObject({
      turnState: "failed",
      error: { code: "model_failed", error: expect.stringContaining("2 steps") },
    });
    expect(ran).toHaveLength(2);
  });

  test("takes a late respond as the answer", async () => {
    const { qm } = await openWorkplace({ go: [look, [respondWith("Late.")]] }, withSteps(1));

    expect(await qm.callActor("clerk", "go")).toMatchObject({ turnState: "complete", parts: [{ text: "Late." }] });
  });

  test("does not count answers that only had a wrong form, three in a row", async () => {
    const wrong: readonly ActorAnswer[] = [
      [["tool__look", { at: "now" }]],
      [["tool__lok_at"], ["respond", {}]],
      [["tool.look"]],
    ];
    const { qm } = await openWorkplace({ go: [...wrong, [respondWith("Right.")]] }, withSteps(1));
    expect(await qm.callActor("clerk", "go")).toMatchObject({
      turnState: "complete",
      parts: [{ text: "Right." }],
      steps: 4,
    });

    const again = await openWorkplace({ go: [...wrong, ...wrong, ...wrong.slice(0, 2), "I give up."] }, withSteps(2));
    const envelope = await again.qm.callActor("clerk", "go");

    // Three uncounted, one counted, three uncounted, one counted, and the last one without tools.
    expect(envelope).toMatchObject({ turnState: "complete", steps: 9 });
    expect(again.model.requests.map(({ toolChoice }) => toolChoice)).toEqual([...Array(8).fill(undefined), "none"]);
  });

  test("counts an answer with one call that was right", async () => {
    const { qm } = await openWorkplace({ go: [[["tool__look"], ["tool__lok_at"]], "Stopped."] }, withSteps(1));

    expect(await qm.callActor("clerk", "go")).toMatchObject({ steps: 2, parts: [{ text: "Stopped." }] });
  });

  test("refuses calls beyond the limit of one answer", async () => {
    const many = Array.from({ length: 40 }, (_, at) => ["tool__look", { at }] as const);
    const { qm, model, ran } = await openWorkplace({ go: [many, "Enough."] });

    expect(await qm.callActor("clerk", "go")).toMatchObject({ turnState: "complete", calls: 32 });

    expect(ran).toHaveLength(32);
    expect(readLastResults(model.requests[1]).filter((text) => text.includes("at most 32"))).toHaveLength(8);
  });

  test("ends the turn of a model that calls without end", async () => {
    const many = Array.from({ length: 1_001 }, () => ["tool__look"] as const);
    const { qm, ran } = await openWorkplace({ go: [many] });

    expect(await qm.callActor("clerk", "go")).toMatchObject({ turnState: "failed", error: { code: "model_failed" } });

    expect(ran).toEqual([]);
  });
});

test("a used up budget ends the turn with what was reached", async () => {
  const { qm, model } = await openWorkplace(
    { go: [[respondWith("At once.", "awaiting"), ["tool__look"]], look, "Never said."] },
    { policy: { actors: [clerk], budgets: { turn: { tokens: 20 } } } },
  );

  const envelope = await qm.callActor("clerk", "go", { caller: { session: "s" } });

  expect(envelope).toMatchObject({
    turnState: "failed",
    error: { code: "budget_exceeded" },
    parts: [{ text: "At once." }, { partType: "error", text: expect.stringContaining("budget") }],
  });
  expect(model.requests).toHaveLength(2);
  const codes = (await qm.ledger.read({ type: "model.called" })).map(({ data }) => (data as { code?: string }).code);
  expect(codes).toEqual([undefined, undefined, "budget_exceeded"]);
  // A budget of the turn is new in the next turn.
  expect(await qm.callActor("clerk", "go", { caller: { session: "s" } })).toMatchObject({
    turnState: "failed",
    steps: 3,
  });
});

describe("a cancelled turn", () => {
  test.each(["request", "call"])("in a %s ends with a valid history", async (where) => {
    const stop = new AbortController();
    const hang = async (signal: AbortSignal): Promise<never> =>
      new Promise((_, reject) => {
        signal.addEventListener("abort", () => reject(signal.reason), { once: true });
        stop.abort();
      });
    const { qm, ran } = await openWorkplace({
      go: [[["tool__look"], ["tool__hang"]], (_request, signal) => hang(signal)],
      more: ["More."],
    });
    qm.register({
      name: "hang",
      description: "Waits for ever.",
      inputSchema: { type: "object" },
      scope: "generalist",
      effect: "external",
      handler: (_args, { signal }) => (where === "call" ? hang(signal) : "over"),
    });
    const caller = { session: "s" };

    const envelope = await qm.callActor("clerk", "go", { caller, signal: stop.signal });

    expect(envelope).toMatchObject({ turnState: "cancelled", error: { code: "cancelled" }, parts: [] });
    expect(ran).toEqual(["look 0"]);
    expect(await qm.callActor("clerk", "more", { caller })).toMatchObject({ turnState: "complete" });
    const { history } = await qm.sessions.get("s");
    expect(history.map(({ message }) => message.role)).toEqual([...["user", "assistant", "tool", "user", "assistant"]]);
    const [, asked, answered] = history.map(({ message }) => message);
    const ids = asked?.role === "assistant" ? asked.toolCalls.map(({ id }) => id) : [];
    expect(answered?.role === "tool" && answered.results.map(({ id }) => id)).toEqual(ids);
    expect((await qm.ledger.read({ type: "turn.ended" }))[0]?.data).toMatchObject({ state: "cancelled" });
  });

  test("before it begins changes nothing but the history", async () => {
    const { qm, model } = await openWorkplace({ go: ["Never."] });

    expect(await qm.callActor("clerk", "go", { signal: AbortSignal.abort() })).toMatchObject({
      turnState: "cancelled",
    });
    expect(model.requests).toEqual([]);
  });
});

test.each<[string, (event: ActorEvent) => void]>([
  [
    "throws",
    () => {
      throw new Error("no screen");
    },
  ],
  ["rejects", () => Promise.reject(new Error("no screen"))],
])("a listener that %s does not disturb the turn", async (_, onEvent) => {
  const { qm, problems } = await openWorkplace({ go: [look, "Done."] });

  expect(await qm.callActor("clerk", "go", { onEvent })).toMatchObject({ turnState: "complete" });
  expect(problems).toContain("a listener for events of a turn failed: no screen");
});

describe("the tools of the next step", () => {
  const listTools = (requests: readonly ModelRequest[]) =>
    requests.map(({ tools = [] }) => tools.map(({ name }) => name));

  test("have the actions that were called on the deferred surface", async () => {
    const actors = [{ ...clerk, surface: { kind: "deferred" as const, defaultLoadingMode: "deferred" as const } }];
    const { qm, model } = await openWorkplace({ go: [look, "Done."] }, { policy: { actors } });

    await qm.callActor("clerk", "go", { caller: { session: "s" } });

    expect(listTools(model.requests).map((names) => names.includes("tool__look"))).toEqual([false, true]);
  });

  test("have the actions that were found, if they are promoted", async () => {
    const actors = [{ ...clerk, surface: { kind: "universal" as const, selection: "promote" as const } }];
    const { qm, model, ran } = await openWorkplace(
      { go: [[["search_actions", { query: "look" }]], look, "Done."] },
      { policy: { actors } },
    );

    await qm.callActor("clerk", "go");

    expect(listTools(model.requests).map((names) => names.includes("tool__look"))).toEqual([false, true, true]);
    expect(ran).toEqual(["look 0"]);
  });
});
