import { TaskState } from "@a2a-js/sdk";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import type { QuartermasterOptions } from "../../app/options.ts";
import { createQuartermaster } from "../../app/quartermaster.ts";
import type { ProgressUpdate } from "../../core/caller.ts";
import { peerStates } from "./peer-answer.ts";
import { startSdkAgent, type TestAgent, toTextPart } from "./testing.ts";

async function openWithPeer(url: string, options: QuartermasterOptions = {}, peer: object = {}) {
  const quartermaster = await createQuartermaster({ peers: { helper: { url, ...peer } }, ...options });
  onTestFinished(() => quartermaster.close());
  return quartermaster;
}

const echo: TestAgent = async ({ parts }, say) => {
  const [part] = parts;
  const text = part?.content?.$case === "text" ? part.content.value : "";
  say("working", "thinking about it");
  return [
    toTextPart(`You said ${text}.`),
    { ...toTextPart(""), content: { $case: "data", value: { length: text.length } } },
  ];
};

test("knows the numbers that the SDK has for states", () => {
  const names = Object.keys(TaskState).filter((name) => name.startsWith("TASK_STATE_"));

  expect(names.map((name) => name.slice("TASK_STATE_".length).toLowerCase())).toEqual([...peerStates]);
});

describe.each([{ streaming: true }, { streaming: false }])("a peer with streaming: $streaming", ({ streaming }) => {
  test("answers a message with text, parts and its task", async () => {
    const { url, seen } = await startSdkAgent(echo, { streaming });
    const quartermaster = await openWithPeer(url);

    const outcome = await quartermaster.invoke("agent.peer__helper", { message: "hello" });

    expect(outcome).toMatchObject({
      status: "done",
      data: {
        state: "completed",
        text: "You said hello.",
        parts: [{ data: { length: 5 } }],
        task: expect.any(String),
        context: expect.any(String),
      },
    });
    expect(seen).toMatchObject([{ messageId: outcome.callId, metadata: { "quartermaster.hops": 1 } }]);
    const [started] = await quartermaster.ledger.read({ type: "delegation.started" });
    expect(started?.data).toMatchObject({ callId: outcome.callId, action: "agent.peer__helper" });
  });

  test("is asked for more, and goes on with the same task", async () => {
    const { url } = await startSdkAgent(
      async ({ parts: [part] }, say) => {
        if (part?.content?.value !== "blue") return void say("input_required", "Which colour?");
        return [toTextPart("Painted it blue.")];
      },
      { streaming },
    );
    const quartermaster = await openWithPeer(url);

    const asked = await quartermaster.invoke("agent.peer__helper", { message: "paint it" });
    const question = asked.status === "done" ? (asked.data as { readonly task: string }) : { task: "" };
    const answered = await quartermaster.invoke("agent.peer__helper", { message: "blue", task: question.task });

    expect(question).toMatchObject({ state: "input_required", text: "Which colour?" });
    expect(answered).toMatchObject({ status: "done", data: { text: "Painted it blue.", task: question.task } });
  });

  test.each([
    ["failed", { status: "failed", error: { code: "action_failed" } }],
    ["rejected", { status: "refused", error: { code: "denied" } }],
    ["canceled", { status: "failed", error: { code: "cancelled" } }],
  ] as const)("that ends a task as %s ends the call like that", async (state, expected) => {
    const { url } = await startSdkAgent(async (_, say) => void say(state, "It is \u001b[31mred\u001b[0m."), {
      streaming,
    });
    const quartermaster = await openWithPeer(url);

    const outcome = await quartermaster.invoke("agent.peer__helper", { message: "hello" });

    expect(outcome).toMatchObject({ ...expected, error: { ...expected.error, peer: "helper", state } });
    expect(JSON.stringify(outcome)).toContain("red");
    expect(JSON.stringify(outcome)).not.toMatch(/\\u001b/);
  });

  test("whose person approves later ends the call with the task, and sends nothing twice", async () => {
    let approve = (): void => {};
    const approved = new Promise<void>((resolve) => {
      approve = resolve;
    });
    const { url, seen } = await startSdkAgent(
      async (_, say) => {
        say("auth_required", "Ann must agree.");
        await approved;
        return [toTextPart("Ann agreed.")];
      },
      { streaming },
    );
    const quartermaster = await openWithPeer(url, {}, { timeoutMs: 1_500 });

    const first = await quartermaster.invoke("agent.peer__helper", { message: "delete it" });
    expect(first).toMatchObject({ status: "done", data: { state: "auth_required", text: "Ann must agree." } });
    approve();
    const { task } = (first as { readonly data: { readonly task: string } }).data;
    await vi.waitFor(async () => {
      const later = await quartermaster.invoke("agent.peer__helper", { task });
      expect(later).toMatchObject({ status: "done", data: { state: "completed", text: "Ann agreed." } });
    });

    expect(seen).toHaveLength(1);
  });

  test("whose person approves in time completes the same call", async () => {
    const { url } = await startSdkAgent(
      async (_, say) => {
        say("auth_required", "Ann must agree.");
        await quartermaster.ledger.flush();
        say("working", "Ann agreed.");
        return [toTextPart("Done.")];
      },
      { streaming },
    );
    const quartermaster = await openWithPeer(url);

    const outcome = await quartermaster.invoke("agent.peer__helper", { message: "delete it" });

    expect(outcome).toMatchObject({ status: "done", data: { state: "completed", text: "Done." } });
  });

  test("is told when the call is cancelled", async () => {
    const { url, cancelled } = await startSdkAgent(
      (_message, say, { isCancelled }) =>
        new Promise((resolve) => {
          say("working", "still at it");
          const timer = setInterval(() => {
            if (!isCancelled()) return;
            clearInterval(timer);
            resolve(undefined);
          }, 10);
          timer.unref();
        }),
      { streaming },
    );
    const quartermaster = await openWithPeer(url);
    const stop = new AbortController();

    const running = quartermaster.invoke("agent.peer__helper", { message: "wait" }, { signal: stop.signal });
    await vi.waitFor(async () =>
      expect(await quartermaster.ledger.read({ type: "delegation.started" })).toHaveLength(1),
    );
    stop.abort();

    expect(await running).toMatchObject({ status: "failed", error: { code: "cancelled" } });
    await vi.waitFor(() => expect(cancelled.size).toBe(1));
  });
});

test("the status of a task is progress of the call", async () => {
  const { url } = await startSdkAgent(echo);
  const quartermaster = await openWithPeer(url);
  const updates: ProgressUpdate[] = [];
  const dialogue = {
    owner: "me",
    capabilities: {},
    progress: (update: ProgressUpdate) => updates.push(update),
    log: () => {},
    ask: () => Promise.reject(new Error("nobody is there")),
  };

  await quartermaster.invoke("agent.peer__helper", { message: "hello" }, { dialogue });

  expect(updates).toEqual([{ progress: 1, message: "helper: thinking about it" }]);
});

test("work that was handed on too often is refused before anything is sent", async () => {
  const { url, seen } = await startSdkAgent(echo);
  const quartermaster = await openWithPeer(url);
  const send = (hops: number) => quartermaster.invoke("agent.peer__helper", { message: "hello" }, { caller: { hops } });

  expect(await send(3)).toMatchObject({ status: "done" });
  expect(await send(4)).toMatchObject({ status: "refused", error: { code: "denied" } });

  expect(seen.map(({ metadata }) => metadata)).toEqual([{ "quartermaster.hops": 4 }]);
});
