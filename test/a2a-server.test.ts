import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Message, Part, StreamResponse, Task } from "@a2a-js/sdk";
import { taskStateToJSON } from "@a2a-js/sdk";
import { ClientFactory, JsonRpcTransportFactory } from "@a2a-js/sdk/client";
import { afterEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { z } from "zod";
import { cleanUp, createTestFolder } from "../src/cli/testing.ts";
import { ANN_TOKEN, BOB_TOKEN, CLERK, createClerk, openA2aWorld } from "./fixtures/a2a-world.ts";

afterEach(cleanUp);

async function openWorld(options: Parameters<typeof openA2aWorld>[1] = {}) {
  const folder = await createTestFolder({});
  const world = await openA2aWorld(folder, options);
  onTestFinished(() => world.close());
  const readEffects = () => readFile(join(folder, "effects.txt"), "utf8").catch(() => "");
  return { ...world, folder, readEffects };
}

/** The client of the A2A SDK, with a token. */
async function connect(url: string, token = ANN_TOKEN) {
  const fetchImpl: typeof fetch = (input, init) => {
    const headers = new Headers(init?.headers);
    headers.set("authorization", `Bearer ${token}`);
    return fetch(input, { ...init, headers });
  };
  return new ClientFactory({ transports: [new JsonRpcTransportFactory({ fetchImpl })] }).createFromUrl(url);
}

const toPart = (content: NonNullable<Part["content"]>): Part => ({
  content,
  metadata: undefined,
  filename: "",
  mediaType: "",
});
const toRequest = (parts: Part[], more: Partial<Message> = {}, returnImmediately = false) => ({
  tenant: "",
  metadata: undefined,
  configuration: { acceptedOutputModes: [], taskPushNotificationConfig: undefined, returnImmediately },
  message: {
    messageId: crypto.randomUUID(),
    contextId: "",
    taskId: "",
    role: 1,
    parts,
    metadata: undefined,
    extensions: [],
    referenceTaskIds: [],
    ...more,
  },
});
const callSkill = (skill: string, args: object, more: Partial<Message> = {}, returnImmediately = false) =>
  toRequest([toPart({ $case: "data", value: { skill, arguments: args } })], more, returnImmediately);
const show = ({ status, artifacts }: Task) => ({
  state: taskStateToJSON(status?.state ?? 0).slice("TASK_STATE_".length),
  said: status?.message?.parts.map(({ content }) => content?.value).join(""),
  result: artifacts.flatMap(({ parts }) => parts.map(({ content }) => content?.value)),
});
const APPROVER = { id: "ann", roles: ["user"], via: "test" };

describe("a message to a skill", () => {
  test("runs it and answers with its result", async () => {
    const { url } = await openWorld();
    const client = await connect(url);

    const text = (await client.sendMessage(callSkill("tool__greet", { text: "Bob" }))) as Task;
    const data = (await client.sendMessage(callSkill("tool__record", {}))) as Task;

    expect(show(text)).toEqual({ state: "COMPLETED", said: undefined, result: ["Hello Bob"] });
    expect(show(data)).toEqual({ state: "COMPLETED", said: undefined, result: [{ shown: 1, price: 12.5 }] });
    expect(show(await client.getTask({ tenant: "", id: text.id }))).toEqual(show(text));
  });

  test("fails if its result does not fit its output schema", async () => {
    const { url, quartermaster } = await openWorld();
    quartermaster.register({
      name: "count",
      description: "Counts.",
      inputSchema: z.object({ result: z.unknown() }),
      outputSchema: { type: "object", properties: { sum: { type: "number" } }, required: ["sum"] },
      effect: "read",
      scope: "generalist",
      peerExposed: true,
      handler: ({ result }) => result,
    });
    const client = await connect(url);
    const count = async (result: object) =>
      show((await client.sendMessage(callSkill("tool__count", { result }))) as Task);

    expect(await count({ sum: 3 })).toMatchObject({ state: "COMPLETED", result: [{ sum: 3 }] });
    expect(await count({ sum: "three" })).toMatchObject({ state: "FAILED", result: [] });
  });

  test("is streamed with its progress", async () => {
    const { url } = await openWorld();
    const client = await connect(url);
    const events: StreamResponse[] = [];

    for await (const event of client.sendMessageStream(callSkill("tool__greet", { text: "Bob" }))) events.push(event);

    const kinds = events.map(({ payload }) => payload?.$case);
    expect(kinds[0]).toBe("task");
    expect(kinds.slice(-2)).toEqual(["artifactUpdate", "statusUpdate"]);
    expect(JSON.stringify(events)).toContain("looking for words");
  });
});

/** Approves or denies the only open question, and runs the call. */
async function answerQuestion(world: Awaited<ReturnType<typeof openWorld>>, decision: "approved" | "denied") {
  const { approvals } = world.quartermaster;
  const [open] = await vi.waitFor(async () => {
    const found = await approvals.list({ state: "pending" });
    expect(found).toHaveLength(1);
    return found;
  });
  await approvals.answer(open?.id ?? "", { decision }, APPROVER);
  await approvals.run();
}

describe("a call that a person must approve", () => {
  test("is AUTH_REQUIRED, and completes when the person approves", async () => {
    const world = await openWorld();
    const client = await connect(world.url);

    const asked = (await client.sendMessage(callSkill("tool__pay", { text: "5" }))) as Task;
    expect(show(asked)).toEqual({
      state: "AUTH_REQUIRED",
      said: expect.stringContaining("must approve tool__pay"),
      result: [],
    });
    expect(await world.readEffects()).toBe("");
    await answerQuestion(world, "approved");

    await vi.waitFor(async () => {
      const done = await client.getTask({ tenant: "", id: asked.id });
      expect(show(done)).toMatchObject({ state: "COMPLETED", result: [{ paid: "5" }] });
    });
    expect(await world.readEffects()).toBe("pay 5\n");
  });

  test("stays in one stream until it has ended", async () => {
    const world = await openWorld();
    const client = await connect(world.url);
    const states: string[] = [];

    for await (const { payload } of client.sendMessageStream(callSkill("tool__pay", { text: "6" }))) {
      if (payload?.$case !== "statusUpdate") continue;
      states.push(taskStateToJSON(payload.value.status?.state ?? 0).slice("TASK_STATE_".length));
      if (states.at(-1) === "AUTH_REQUIRED") await answerQuestion(world, "approved");
    }

    expect(states).toEqual(["AUTH_REQUIRED", "WORKING", "COMPLETED"]);
  });

  test("is REJECTED when the person denies, with the reason", async () => {
    const world = await openWorld();
    const client = await connect(world.url);
    const { id } = (await client.sendMessage(callSkill("tool__pay", { text: "7" }))) as Task;

    await answerQuestion(world, "denied");

    await vi.waitFor(async () => {
      const ended = await client.getTask({ tenant: "", id });
      expect(show(ended)).toMatchObject({ state: "REJECTED", said: expect.stringContaining("ann denied") });
    });
    expect(await world.readEffects()).toBe("");
  });

  test("can be cancelled, and is then not asked any more", async () => {
    const world = await openWorld();
    const client = await connect(world.url);
    const { id } = (await client.sendMessage(callSkill("tool__pay", { text: "8" }))) as Task;

    const cancelled = await client.cancelTask({ tenant: "", id, metadata: undefined });

    expect(show(cancelled).state).toBe("CANCELED");
    expect(await world.quartermaster.approvals.list({ state: "pending" })).toEqual([]);
    await expect(client.sendMessage(callSkill("tool__pay", { text: "8" }, { taskId: id }))).rejects.toThrow();
  });
});

describe("an exposed actor", () => {
  const sayTo = (text: string, more: Partial<Message> = {}) =>
    toRequest([toPart({ $case: "text", value: text })], more);
  const openClerk = () => openWorld({ models: { clerk: createClerk() }, policy: { actors: [CLERK] } });

  test("answers a text, and is a skill of the card", async () => {
    const { url, quartermaster } = await openClerk();
    const client = await connect(url);

    const task = (await client.sendMessage(sayTo("hello"))) as Task;

    expect(show(task)).toEqual({ state: "COMPLETED", said: undefined, result: ["Good morning."] });
    expect((await client.getAgentCard()).skills.map(({ id }) => id)).toContain("agent.peer__clerk");
    const [turn] = await quartermaster.ledger.read({ type: "turn.started" });
    expect(turn).toMatchObject({ actor: "clerk", user: "peer:ann", data: { hops: 2 } });
    const calls = await quartermaster.ledger.read({ type: "call.received" });
    expect(calls).toMatchObject([{ actor: "partner", user: "peer:ann", data: { via: "a2a" } }]);
  });

  test("asks back, and goes on with the answer", async () => {
    const { url } = await openClerk();
    const client = await connect(url);

    const asked = (await client.sendMessage(sayTo("paint"))) as Task;
    expect(show(asked)).toMatchObject({ state: "INPUT_REQUIRED", said: "Which colour?" });
    const answered = (await client.sendMessage(sayTo("blue", { taskId: asked.id }))) as Task;

    expect(show(answered)).toMatchObject({ state: "COMPLETED", result: ["Painted it blue."] });
    expect(answered.id).toBe(asked.id);
    expect(answered.history.map(({ parts: [part] }) => part?.content?.value)).toEqual([
      "paint",
      "Which colour?",
      "blue",
    ]);
  });

  test("waits for a person, and goes on when the person approves", async () => {
    const world = await openClerk();
    const client = await connect(world.url);

    const asked = (await client.sendMessage(sayTo("pay it"))) as Task;
    expect(show(asked)).toMatchObject({
      state: "AUTH_REQUIRED",
      said: expect.stringContaining("must approve something that agent.peer__clerk does"),
    });
    const second = (await client.sendMessage(sayTo("hello", { contextId: asked.contextId }))) as Task;
    expect(show(second)).toMatchObject({ state: "FAILED", said: expect.stringContaining("waits for approval") });
    // The client need not be allowed to see what the actor calls.
    expect(JSON.stringify([show(asked), show(second)])).not.toContain("tool__pay");
    await answerQuestion(world, "approved");

    await vi.waitFor(async () => {
      const done = await client.getTask({ tenant: "", id: asked.id });
      expect(show(done)).toMatchObject({ state: "COMPLETED", result: ["Paid."] });
    });
    expect(await world.readEffects()).toBe("pay 9\n");
  });

  test("tells no value that other agents may not see, and fills in its tokens", async () => {
    const { url } = await openClerk();
    const client = await connect(url);

    const { result } = show((await client.sendMessage(sayTo("quote"))) as Task);

    expect(result.join()).toContain("shown");
    expect(result.join()).toContain("12.5");
    expect(result.join()).not.toContain("{{");
    expect(result.join()).not.toContain("s3cret");
  });

  test("that the client's actor may not call is unknown to it", async () => {
    const { url } = await openClerk();
    const bob = await connect(url, BOB_TOKEN);

    await expect(bob.sendMessage(sayTo("hello"))).rejects.toThrow("name a skill of the card");
    await expect(bob.sendMessage(callSkill("agent.peer__clerk", {}))).rejects.toThrow("unknown skill");
    expect((await bob.getAgentCard()).skills.map(({ id }) => id)).toEqual(["tool__greet"]);
  });
});

test("a denial by the policy is REJECTED with its reason", async () => {
  const { url } = await openWorld();
  const client = await connect(url);

  const task = (await client.sendMessage(callSkill("tool__greet", { text: "forbidden" }))) as Task;

  expect(show(task)).toEqual({ state: "REJECTED", said: "That is forbidden.", result: [] });
});

test("work that was handed on too often is REJECTED, whatever the client claims", async () => {
  const { url } = await openWorld();
  const client = await connect(url);
  const send = async (hops: unknown) => {
    const message = { metadata: { "quartermaster.hops": hops } };
    return show((await client.sendMessage(callSkill("tool__greet", { text: "x" }, message))) as Task);
  };

  expect(await send(5)).toMatchObject({ state: "REJECTED", said: expect.stringContaining("handed on 5 times") });
  for (const hops of [4, 0, -3, "many", null]) expect(await send(hops)).toMatchObject({ state: "COMPLETED" });
});

test("a running task can be cancelled", async () => {
  const { url, quartermaster, readEffects } = await openWorld();
  const client = await connect(url);
  const { id } = (await client.sendMessage(callSkill("tool__hold", { text: "it" }, {}, true))) as Task;
  await vi.waitFor(async () => expect(await readEffects()).toBe("hold it\n"));

  const cancelled = await client.cancelTask({ tenant: "", id, metadata: undefined });

  expect(show(cancelled).state).toBe("CANCELED");
  await vi.waitFor(async () => {
    const [ended] = await quartermaster.ledger.read({ type: "call.ended" });
    expect(ended?.data).toMatchObject({ status: "failed", code: "cancelled" });
  });
  expect(show(await client.getTask({ tenant: "", id })).state).toBe("CANCELED");
});

test("a message that is sent twice runs once", async () => {
  const { url, folder, readEffects } = await openWorld();
  const client = await connect(url);
  const message = callSkill("tool__hold", { text: "once" }, {}, true);
  await writeFile(join(folder, "release"), "");

  const [one, two] = (await Promise.all([client.sendMessage(message), client.sendMessage(message)])) as Task[];

  expect(one?.id).toBe(two?.id);
  const last = (await client.sendMessage({ ...message, configuration: undefined })) as Task;
  expect(show(last)).toMatchObject({ state: "COMPLETED", result: [{ held: "once" }] });
  expect(await readEffects()).toBe("hold once\n");
});

describe("a client", () => {
  test("learns nothing of skills that are hidden, not exposed or unknown", async () => {
    const { url } = await openWorld();
    const bob = await connect(url, BOB_TOKEN);
    const askBob = async (skill: string) => {
      const answer = await bob.sendMessage(callSkill(skill, {})).catch((thrown: Error) => thrown.message);
      return String(answer).replaceAll(skill, "SKILL");
    };

    const answers = await Promise.all(["tool__pay", "tool__internal", "tool__nothing", "file__read"].map(askBob));

    expect(new Set(answers)).toEqual(new Set(['unknown skill "SKILL"']));
  });

  test("cannot see, cancel or list the tasks of another", async () => {
    const { url } = await openWorld();
    const [ann, bob] = [await connect(url), await connect(url, BOB_TOKEN)];
    const { id } = (await ann.sendMessage(callSkill("tool__greet", { text: "x" }))) as Task;

    await expect(bob.getTask({ tenant: "", id })).rejects.toThrow("no such task");
    await expect(bob.cancelTask({ tenant: "", id, metadata: undefined })).rejects.toThrow("no such task");
    const list = { tenant: "", contextId: "", status: 0, pageToken: "", statusTimestampAfter: undefined };
    expect((await bob.listTasks(list)).tasks).toEqual([]);
    expect((await ann.listTasks(list)).tasks.map((task) => task.id)).toEqual([id]);
  });

  test("pages through its tasks", async () => {
    const { url } = await openWorld();
    const client = await connect(url);
    const ids: string[] = [];
    for (const text of ["a", "b", "c"]) {
      const message = callSkill("tool__greet", { text }, { contextId: "talk" });
      ids.push(((await client.sendMessage(message)) as Task).id);
    }
    const list = { tenant: "", contextId: "talk", status: 3, pageSize: 2, statusTimestampAfter: undefined };

    const first = await client.listTasks({ ...list, pageToken: "" });
    const second = await client.listTasks({ ...list, pageToken: first.nextPageToken });

    expect(first.totalSize).toBe(3);
    expect([...first.tasks, ...second.tasks].map(({ id }) => id)).toEqual(ids.reverse());
    expect(second.nextPageToken).toBe("");
  });

  test("gets long tasks in shorter pages, and cannot make one longer for ever", async () => {
    const { url } = await openWorld({ models: { clerk: createClerk() }, policy: { actors: [CLERK] } });
    const client = await connect(url);
    const say = async (text: string, more: Partial<Message> = {}) =>
      (await client.sendMessage(
        toRequest(
          [
            toPart({ $case: "text", value: text }),
            toPart({ $case: "data", value: { skill: "agent.peer__clerk" } }),
            toPart({ $case: "data", value: ["x".repeat(900_000)] }),
          ],
          more,
        ),
      )) as Task;
    const { id } = await say("paint");
    for (const _ of [1, 2, 3]) await say("paint", { taskId: id });
    await expect(say("paint", { taskId: id })).rejects.toThrow("too long");
    await say("paint");
    const list = { tenant: "", contextId: "", status: 0, pageSize: 100, statusTimestampAfter: undefined };

    const first = await client.listTasks({ ...list, pageToken: "" });
    const second = await client.listTasks({ ...list, pageToken: first.nextPageToken });

    expect([first.tasks.length, second.tasks.map((task) => task.id)]).toEqual([1, [id]]);
    expect([first.totalSize, second.nextPageToken]).toEqual([2, ""]);
  });

  test("gets a card with what it may call; the public card has what all may", async () => {
    const { url } = await openWorld();
    const response = await fetch(`${url}/.well-known/agent-card.json`);
    const card = (await response.json()) as { readonly skills: readonly { readonly id: string }[] };
    const etag = response.headers.get("etag") ?? "";
    const again = await fetch(`${url}/.well-known/agent-card.json`, { headers: { "if-none-match": etag } });

    expect(card).toMatchObject({
      name: "World",
      supportedInterfaces: [{ url: `${url}/a2a`, protocolBinding: "JSONRPC", protocolVersion: "1.0" }],
    });
    expect(card.skills.map(({ id }) => id)).toEqual(["tool__greet"]);
    expect([response.headers.get("cache-control"), again.status]).toEqual(["public, max-age=60", 304]);
    const extended = await (await connect(url)).getAgentCard();
    expect(extended.skills.map(({ id }) => id)).toEqual(["tool__greet", "tool__hold", "tool__pay", "tool__record"]);
  });
});

describe("the endpoint", () => {
  const headers = {
    authorization: `Bearer ${ANN_TOKEN}`,
    "content-type": "application/json",
    "a2a-version": "1.0",
  };
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "GetTask", params: { id: "x" } });

  async function post(url: string, given: RequestInit = {}) {
    const response = await fetch(`${url}/a2a`, { method: "POST", headers, body, ...given });
    const text = await response.text();
    return { status: response.status, code: text.startsWith("{") ? JSON.parse(text).error?.code : undefined };
  }

  test.each([
    ["without a token", { headers: { ...headers, authorization: "" } }, 401, -32000],
    ["with a wrong token", { headers: { ...headers, authorization: `Bearer ${ANN_TOKEN}x` } }, 401, -32000],
    ["without a version", { headers: { ...headers, "a2a-version": "" } }, 200, -32009],
    ["of version 0.3", { headers: { ...headers, "a2a-version": "0.3" } }, 200, -32009],
    ["of a foreign page", { headers: { ...headers, origin: "https://evil.example" } }, 403, -32000],
    ["that is no JSON", { body: "{" }, 400, -32700],
    ["of another type", { headers: { ...headers, "content-type": "text/plain" } }, 415, -32600],
    ["that is too long", { body: `"${"x".repeat(1024 * 1024)}"` }, 413, -32600],
    ["that is nested too deep", { body: "[".repeat(100) + "]".repeat(100) }, 200, -32602],
    ["with a malformed message", { body: body.replace('"x"', '"x","message":{"parts":[null]}') }, 200, -32602],
    ["of an unknown method", { body: body.replace("GetTask", "message/send") }, 200, -32601],
    ["about an unknown task", {}, 200, -32001],
    ["for push notifications", { body: body.replace("GetTask", "CreateTaskPushNotificationConfig") }, 200, -32003],
  ])("refuses a request %s", async (_what, given, status, code) => {
    const { url, problems } = await openWorld();

    expect(await post(url, given)).toEqual({ status, code });
    expect(problems).toEqual([]);
  });

  test("takes text and data, and no files", async () => {
    const { url } = await openWorld();
    const client = await connect(url);

    const raw = toPart({ $case: "raw", value: Buffer.from("x") });
    await expect(client.sendMessage(toRequest([raw]))).rejects.toThrow("only text and data");
    await expect(client.sendMessage(toRequest([]))).rejects.toThrow("parts is empty");
    const text = toPart({ $case: "text", value: "hello" });
    await expect(client.sendMessage(toRequest([text]))).rejects.toThrow("name a skill of the card");
    await expect(client.sendMessage(toRequest([text], { contextId: "a b" }))).rejects.toThrow("contextId must have");
  });
});
