import { describe, expect, test } from "vitest";
import { isRunning, waitUntil } from "../../../test/fixtures/mcp-servers/stdio-fixtures.ts";
import {
  createTestHub,
  event,
  LEGACY_HELLO,
  localServer,
  type Message,
  remoteServer,
  startScriptedServer,
} from "../../../test/support/mcp-hub.ts";
import type { JsonObject } from "../../core/json.ts";

const TOOLS = { tools: [{ name: "t", inputSchema: { type: "object" } }] };
/** Long enough for another process to come up while one is going. */
const SLOW_TO_GO = { limits: { stdio: { closeMs: 1000, termMs: 500 } } };

describe("a server that ends slowly", () => {
  test("has ended before a caller that comes meanwhile starts it again", async () => {
    const { hub, events } = await createTestHub(localServer("stubborn.mjs"), SLOW_TO_GO);
    await hub.connect("subject");
    const old = hub.status("subject").pid as number;

    const states: string[] = [];
    hub.onChange(() => states.push(hub.status("subject").state));
    const stopping = hub.stop("subject");
    await hub.connect("subject");
    const wasRunning = await isRunning(old);
    await stopping;

    expect(wasRunning).toBe(false);
    expect(states).toEqual(["starting", "ready"]);
    expect(hub.status("subject")).toMatchObject({ state: "ready", pid: expect.any(Number) });
    expect(events.map(({ type }) => type)).toEqual(["server.started", "server.stopped", "server.started"]);
  });

  test("has ended before it starts with other settings", async () => {
    const spec = localServer("stubborn.mjs");
    const { hub } = await createTestHub(spec, SLOW_TO_GO);
    await hub.connect("subject");
    const old = hub.status("subject").pid as number;

    const configuring = hub.configure([{ ...spec, description: "new" }]);
    await waitUntil(() => hub.status("subject").state === "idle");
    await hub.connect("subject");

    expect(await isRunning(old)).toBe(false);
    await configuring;
  });

  test("has ended before it starts again after an idle stop", async () => {
    const { hub } = await createTestHub(localServer("stubborn.mjs", { idleTimeoutMs: 100 }), SLOW_TO_GO);
    await hub.connect("subject");
    const old = hub.status("subject").pid as number;
    await waitUntil(() => hub.status("subject").pid === undefined);

    await hub.connect("subject");

    expect(await isRunning(old)).toBe(false);
  });
});

test("gives a caller that comes while a start is being stopped a new start", async () => {
  const { hub } = await createTestHub(localServer("slow-start.mjs", {}, "300"));
  const first = hub.connect("subject").catch((thrown: unknown) => thrown);
  await waitUntil(() => hub.status("subject").state === "starting");

  const stopping = hub.stop("subject");
  const second = hub.connect("subject");

  expect(await first).toMatchObject({ message: "server subject was stopped" });
  expect((await second).tools).toHaveLength(1);
  await stopping;
  expect(hub.status("subject").state).toBe("ready");
});

describe("learning that is given up during the start", () => {
  test("stops the server", async () => {
    const { hub, events } = await createTestHub(localServer("slow-start.mjs", {}, "300"));
    const impatient = new AbortController();

    const learning = hub.learn("subject", impatient.signal);
    await waitUntil(() => hub.status("subject").state === "starting");
    impatient.abort();

    await expect(learning).rejects.toMatchObject({ code: "cancelled" });
    await waitUntil(() => hub.status("subject").state === "idle");
    expect(events).toEqual([]);
    expect((await hub.connect("subject")).tools).toHaveLength(1);
  });

  test("leaves the server to another caller", async () => {
    const { hub } = await createTestHub(localServer("slow-start.mjs", {}, "300"));
    const impatient = new AbortController();

    const learning = hub.learn("subject", impatient.signal);
    const connecting = hub.connect("subject");
    impatient.abort();

    await expect(learning).rejects.toMatchObject({ code: "cancelled" });
    expect((await connecting).tools).toHaveLength(1);
    expect(hub.status("subject").state).toBe("ready");
  });

  test("keeps the problem of a server that has failed", async () => {
    const { hub } = await createTestHub(localServer("crasher.mjs"));

    await expect(hub.learn("subject", new AbortController().signal)).rejects.toMatchObject({ code: "server_failed" });
    expect(hub.status("subject")).toMatchObject({ state: "failed", retryAt: expect.any(Date) });
  });
});

test("a server with a subscribed resource is not idle", async () => {
  const { url } = await startScriptedServer({
    initialize: { ...LEGACY_HELLO, capabilities: { resources: { subscribe: true } } },
    "resources/list": { resources: [] },
    "resources/subscribe": {},
    "resources/unsubscribe": {},
  });
  const { hub, events } = await createTestHub(
    ["watched", "other"].map((name) => remoteServer(url, { name, idleTimeoutMs: 100, protocol: "legacy" })),
  );
  const ask = (method: string) => hub.request("watched", { method, params: { uri: "a:b" } }, {});
  const stopped = () => events.filter(({ type }) => type === "server.stopped").map(({ data }) => data.server);

  await ask("resources/subscribe");
  await hub.connect("other");
  await waitUntil(() => hub.status("other").state === "idle");

  expect(hub.status("watched").state).toBe("ready");
  await ask("resources/unsubscribe");
  await waitUntil(() => hub.status("watched").state === "idle");
  expect(stopped()).toEqual(["other", "watched"]);
});

describe("a session that the server has forgotten", () => {
  /** Sessions by number; every call waits until it is told what becomes of it. */
  async function forgetful() {
    let sessions = 0;
    const waiting = new Map<string, (status?: number) => void>();
    const { url } = await startScriptedServer({
      initialize: ({ id }, response) => {
        response.writeHead(200, { "content-type": "application/json", "mcp-session-id": `s${++sessions}` });
        response.end(JSON.stringify({ jsonrpc: "2.0", id, result: LEGACY_HELLO }));
        return undefined;
      },
      "tools/list": TOOLS,
      "tools/call": ({ id, params }: Message, response, request) => {
        const { who } = (params as { arguments: JsonObject }).arguments;
        const on = `${who} on ${request.headers["mcp-session-id"]}`;
        waiting.set(on, (status = 200) => {
          response.writeHead(status, { "content-type": "application/json" });
          response.end(JSON.stringify({ jsonrpc: "2.0", id, result: { content: [], on } }));
        });
        return undefined;
      },
    });
    return {
      ...(await createTestHub(remoteServer(url, { protocol: "legacy" }))),
      async reply(on: string, status?: number) {
        await waitUntil(() => waiting.has(on));
        waiting.get(on)?.(status);
      },
      arrived: (on: string) => waitUntil(() => waiting.has(on)),
    };
  }

  test("is left by each refused call, while other calls on both sessions go on", async () => {
    const { call, reply, arrived } = await forgetful();
    const [a, b, c] = ["a", "b", "c"].map((who) => call("t", { who }));
    for (const who of ["a", "b", "c"]) await arrived(`${who} on s1`);

    await reply("a on s1", 404);
    await arrived("a on s2");
    await reply("b on s1", 404);
    await reply("b on s2");
    expect(await b).toMatchObject({ on: "b on s2" });
    await reply("c on s1");
    expect(await c).toMatchObject({ on: "c on s1" });
    await reply("a on s2");

    expect(await a).toMatchObject({ on: "a on s2" });
  });

  test("ends when the server is stopped", async () => {
    const { hub, call, reply, arrived } = await forgetful();
    const [a, b] = ["a", "b"].map((who) => call("t", { who }).catch((thrown: unknown) => thrown));
    for (const who of ["a", "b"]) await arrived(`${who} on s1`);
    await reply("a on s1", 404);
    await arrived("a on s2");

    await hub.stop("subject");

    expect(await Promise.all([a, b])).toMatchObject([{ code: "server_failed" }, { code: "server_failed" }]);
    expect(hub.status("subject")).toMatchObject({ state: "idle", calls: 0 });
  });
});

describe("a server whose tools", () => {
  const ENDLESS = { tools: [], nextCursor: "again" };
  const FAILING = { error: { code: -32603, message: "the database is away" } };

  /** Says with every call that its tools have changed. */
  async function changing(...lists: readonly (JsonObject | typeof FAILING)[]) {
    let listed = 0;
    const written = await startScriptedServer({
      initialize: LEGACY_HELLO,
      "tools/list": () => lists[Math.min(listed++, lists.length - 1)] as JsonObject,
      "tools/call": ({ id }, response) => {
        response.writeHead(200, { "content-type": "text/event-stream" });
        response.write(event({ method: "notifications/tools/list_changed" }));
        response.end(event({ id: id as number, result: { content: [] } }));
        return undefined;
      },
    });
    return { ...written, ...(await createTestHub(remoteServer(written.url, { protocol: "legacy" }))) };
  }

  test("cannot be listed at the start fails, and nothing is stored", async () => {
    const { hub, offers } = await changing(FAILING, TOOLS);

    await expect(hub.connect("subject")).rejects.toMatchObject({
      code: "server_failed",
      message: expect.stringContaining("the database is away"),
    });
    expect(hub.status("subject")).toMatchObject({ state: "failed" });
    expect(offers).toEqual([]);
    expect((await hub.connect("subject", undefined, true)).tools).toHaveLength(1);
  });

  test("cannot be listed later keeps the old ones and reports a problem", async () => {
    const { hub, call, offers } = await changing(TOOLS, FAILING);

    await call("t");
    await hub.connect("subject");
    await waitUntil(() => hub.status("subject").problem !== undefined);

    expect(hub.status("subject")).toMatchObject({
      state: "ready",
      problem: "tools/list failed: subject: the database is away",
    });
    expect(offers.at(-1)?.tools).toHaveLength(1);
  });

  test("are endless at a later listing is closed, and restarted by the next call", async () => {
    const { hub, call, posted } = await changing(TOOLS, ENDLESS, ENDLESS, TOOLS);
    const starts = () => posted.filter(({ method }) => method === "initialize").length;
    await call("t");
    await waitUntil(() => hub.status("subject").state === "idle");

    expect(hub.status("subject").problem).toContain("its lists could not be read again");
    expect(starts()).toBe(1);
    await hub.connect("subject");
    expect(starts()).toBe(2);
  });
});
