import type { ServerResponse } from "node:http";
import { describe, expect, test } from "vitest";
import { waitUntil } from "../../../test/fixtures/mcp-servers/stdio-fixtures.ts";
import {
  createTestCaller,
  createTestHub,
  event,
  LEGACY_HELLO,
  type Message,
  MODERN_HELLO,
  remoteServer,
  startScriptedServer,
} from "../../../test/support/mcp-hub.ts";
import type { QmError } from "../../core/errors.ts";
import type { JsonObject } from "../../core/json.ts";

const tool = (name: string): JsonObject => ({ name, inputSchema: { type: "object" } });
const TOOLS = { tools: [tool("t")] };
const ERAS = [
  ["legacy", { initialize: LEGACY_HELLO }],
  ["modern", { "server/discover": MODERN_HELLO }],
] as const;

const metaOf = (params: JsonObject | undefined) => (params?._meta ?? {}) as JsonObject;

function stream(response: ServerResponse): ServerResponse {
  return response.writeHead(200, { "content-type": "text/event-stream" });
}

describe.each(ERAS)("a server that is %s", (era, hello) => {
  test("returns results unchanged, even unknown or malformed ones", async () => {
    const result = {
      content: [
        { type: "hologram", depth: 3 },
        { type: "text", text: 5 },
      ],
      structuredContent: [1, null],
      isError: true,
      _meta: { "example.com/x": { y: 1 } },
      extra: "kept",
    };
    const { url } = await startScriptedServer({
      ...hello,
      "tools/list": TOOLS,
      "tools/call": { resultType: "complete", ...result },
    });
    const { call } = await createTestHub(remoteServer(url));

    expect(await call("t")).toEqual(result);
  });

  test("may omit cache hints and result types", async () => {
    const { url } = await startScriptedServer({
      ...hello,
      "tools/list": { tools: [{ ...tool("t"), annotations: { readOnlyHint: "yes" }, icons: 5 }, { name: "broken" }] },
      "tools/call": { content: [] },
    });
    const { hub, call } = await createTestHub(remoteServer(url));

    const offer = await hub.connect("subject");

    expect(offer).toMatchObject({ era, tools: [{ name: "t", annotations: { readOnlyHint: "yes" }, icons: 5 }] });
    expect(hub.status("subject").problem).toBe('tools: "broken" has no inputSchema');
    expect(await call("t")).toEqual({ content: [] });
  });

  test("has all pages of all lists read", async () => {
    const paged = (key: string, entry: (at: number) => JsonObject) => (message: Message) => {
      const at = Number(message.params?.cursor ?? 0);
      return { [key]: [entry(at)], ...(at < 2 ? { nextCursor: String(at + 1) } : {}) };
    };
    const capabilities = { tools: {}, resources: {}, prompts: {} };
    const { url } = await startScriptedServer({
      ...Object.fromEntries(Object.entries(hello).map(([method, said]) => [method, { ...said, capabilities }])),
      "tools/list": paged("tools", (at) => tool(`t${at}`)),
      "resources/list": paged("resources", (at) => ({ uri: `a:${at}`, name: "a" })),
      "resources/templates/list": paged("resourceTemplates", (at) => ({ uriTemplate: `a:{${at}}`, name: "a" })),
      "prompts/list": paged("prompts", (at) => ({ name: `p${at}` })),
    });
    const { hub } = await createTestHub(remoteServer(url));

    const offer = await hub.connect("subject");

    const counts = [offer.tools, offer.resources, offer.resourceTemplates, offer.prompts].map(({ length }) => length);
    expect(counts).toEqual([3, 3, 3, 3]);
  });

  test("sends progress and log lines to the caller", async () => {
    const { url } = await startScriptedServer({
      ...hello,
      "tools/list": TOOLS,
      "tools/call": ({ id, params }, response) => {
        const { progressToken } = metaOf(params) as { progressToken: string };
        const progress = (at: number) =>
          event({
            method: "notifications/progress",
            params: { progressToken, progress: at, total: 2, message: "on it" },
          });
        stream(response).write(progress(1));
        response.write(
          event({ method: "notifications/message", params: { level: "info", data: String(params?.name) } }),
        );
        // The last one comes together with the answer.
        const answer = event({ id: id as number, result: { resultType: "complete", content: [] } });
        setTimeout(() => response.end(progress(2) + answer), 100);
        return undefined;
      },
    });
    const { call } = await createTestHub(remoteServer(url));
    const [one, two] = [createTestCaller(), createTestCaller()];

    await Promise.all([call("t", {}, { dialogue: one }), call("u", {}, { dialogue: two })]);

    for (const { heard } of [one, two])
      expect(heard).toEqual([1, 2].map((progress) => ({ progress, total: 2, message: "on it" })));
    expect([one.lines, two.lines]).toEqual([[{ level: "info", data: "t" }], [{ level: "info", data: "u" }]]);
  });

  test("that breaks off during an answer fails the call with a warning about its effect", async () => {
    const { url } = await startScriptedServer({
      ...hello,
      "tools/list": TOOLS,
      "tools/call": (_, response) => {
        stream(response).write(": working\n\n");
        setTimeout(() => response.destroy(), 50);
        return undefined;
      },
    });
    const { call } = await createTestHub(remoteServer(url));

    await expect(call("t")).rejects.toMatchObject({
      code: "server_failed",
      hint: expect.stringContaining("may have had an effect"),
    });
  });

  test("is told when a call is cancelled", async () => {
    let closed = false;
    const { url, posted } = await startScriptedServer({
      ...hello,
      "tools/list": TOOLS,
      "tools/call": (_, response) => {
        stream(response).write(": working\n\n");
        response.on("close", () => {
          closed = true;
        });
        return undefined;
      },
    });
    const { call, hub } = await createTestHub(remoteServer(url));
    const giveUp = new AbortController();
    const called = call("t", {}, { signal: giveUp.signal });
    await waitUntil(() => posted.some(({ method }) => method === "tools/call"));

    giveUp.abort();

    await expect(called).rejects.toMatchObject({ code: "cancelled" });
    await waitUntil(() =>
      era === "modern" ? closed : posted.some(({ method }) => method === "notifications/cancelled"),
    );
    expect(hub.status("subject").state).toBe("ready");
  });

  test("returns an error with its code and data", async () => {
    const error = { code: -32042, message: "go\nthere", data: { url: "https://example.com" } };
    const { url } = await startScriptedServer({ ...hello, "tools/list": TOOLS, "tools/call": { error } });
    const { call } = await createTestHub(remoteServer(url));

    await expect(call("t")).rejects.toMatchObject({
      code: "action_failed",
      message: "subject: go there",
      details: { mcp_code: -32042, mcp_data: { url: "https://example.com" } },
    });
  });

  test("has an answer that is too long cut off", async () => {
    const { url } = await startScriptedServer({
      ...hello,
      "tools/list": TOOLS,
      "tools/call": { resultType: "complete", content: [{ type: "text", text: "x".repeat(100_000) }] },
    });
    const { call } = await createTestHub(remoteServer(url), { limits: { messageBytes: 50_000 } });

    await expect(call("t")).rejects.toMatchObject({ code: "too_large" });
  });

  test("is refused if its lists are endless", async () => {
    const { url } = await startScriptedServer({
      ...hello,
      "tools/list": ({ params }) => ({ tools: [], nextCursor: `${Number(params?.cursor ?? 0) + 1}` }),
    });
    const { hub } = await createTestHub(remoteServer(url), {
      limits: { listing: { pages: 5, entries: 100, characters: 1000 } },
    });

    await expect(hub.connect("subject")).rejects.toMatchObject({ code: "too_large" });
  });
});

test("a modern server gets the caller's capabilities and the annotated arguments as headers", async () => {
  const annotated = {
    name: "t",
    inputSchema: { type: "object", properties: { region: { type: "string", "x-mcp-header": "Region" } } },
  };
  const { url, posted } = await startScriptedServer({
    "server/discover": MODERN_HELLO,
    "tools/list": { tools: [annotated] },
    "tools/call": { resultType: "complete", content: [] },
  });
  const { call } = await createTestHub(remoteServer(url));
  const capabilities = { elicitation: { form: {} } };

  await call("t", { region: "eu west" }, { dialogue: createTestCaller(undefined, capabilities) });
  await call("t", {});

  const calls = posted.filter(({ method }) => method === "tools/call");
  const said = calls.map(({ params }) => metaOf(params)["io.modelcontextprotocol/clientCapabilities"]);
  expect(said).toEqual([capabilities, {}]);
  expect(calls.map(({ headers }) => headers["mcp-param-region"])).toEqual(["eu west", undefined]);
  expect(calls.map(({ headers }) => [headers["mcp-method"], headers["mcp-name"]])).toEqual([
    ["tools/call", "t"],
    ["tools/call", "t"],
  ]);
});

test("a legacy server asks only the caller on whose stream the question comes", async () => {
  const answers: Message[] = [];
  const { url, posted } = await startScriptedServer({
    initialize: LEGACY_HELLO,
    "tools/list": TOOLS,
    "tools/call": ({ id, params }, response) => {
      const ours = `ask-${id}`;
      stream(response).write(
        event({
          id: ours,
          method: "elicitation/create",
          params: { message: String(params?.name), requestedSchema: {} },
        }),
      );
      const waiting = setInterval(() => {
        const answer = posted.find((message) => message.id === ours);
        if (answer === undefined) return;
        clearInterval(waiting);
        answers.push(answer);
        response.end(event({ id: id as number, result: { content: [], ...answer.result } }));
      }, 10);
      return undefined;
    },
  });
  const { call } = await createTestHub(remoteServer(url));
  const [one, two] = ["one", "two"].map((who) => createTestCaller(() => ({ action: "accept", content: { who } })));

  const results = await Promise.all([call("t", {}, { dialogue: one }), call("u", {}, { dialogue: two }), call("v")]);

  expect(results).toMatchObject([
    { action: "accept", content: { who: "one" } },
    { action: "accept", content: { who: "two" } },
    { action: "decline" },
  ]);
  expect(answers).toHaveLength(3);
  expect([one, two].map((them) => them?.asked.map(({ question }) => question?.params.message))).toEqual([["t"], ["u"]]);
});

test("starts a new session and sends the call again when the server forgot the session", async () => {
  let session = 0;
  const calls: unknown[] = [];
  const { url } = await startScriptedServer({
    initialize: ({ id }, response) => {
      response.writeHead(200, { "content-type": "application/json", "mcp-session-id": `session-${++session}` });
      response.end(JSON.stringify({ jsonrpc: "2.0", id, result: LEGACY_HELLO }));
      return undefined;
    },
    "tools/list": TOOLS,
    "tools/call": (_, response, request) => {
      calls.push(request.headers["mcp-session-id"]);
      if (request.headers["mcp-session-id"] !== "session-1") return { content: [] };
      response.writeHead(404).end();
      return undefined;
    },
  });
  const { call } = await createTestHub(remoteServer(url));

  expect(await call("t")).toEqual({ content: [] });
  expect(calls).toEqual(["session-1", "session-2"]);
});

test("reports an unreachable server with the system's error code", async () => {
  const { url, close } = await startScriptedServer({
    initialize: LEGACY_HELLO,
    "tools/list": TOOLS,
    "tools/call": { content: [] },
  });
  const { hub, call } = await createTestHub(remoteServer(url));
  await call("t");
  await close();

  const failed = await call("t").catch((thrown: unknown) => thrown as QmError);
  const again = await call("t").catch((thrown: unknown) => thrown as QmError);

  for (const failure of [failed, again])
    expect(failure).toMatchObject({
      code: "server_failed",
      message: expect.stringMatching(
        /^server subject cannot be reached \((?:ECONNREFUSED|ECONNRESET|UND_ERR_SOCKET)\)$/,
      ),
    });
  expect(hub.status("subject")).toMatchObject({ state: "failed" });
});

test.each([
  [500, "answered HTTP 500: broken"],
  [403, "answered HTTP 403"],
])("reports HTTP %s", async (status, message) => {
  const { url } = await startScriptedServer({
    "server/discover": (_, response) => {
      response.writeHead(status).end("broken");
      return undefined;
    },
  });
  const { hub } = await createTestHub(remoteServer(url));

  await expect(hub.connect("subject")).rejects.toMatchObject({
    code: "server_failed",
    message: expect.stringContaining(message),
  });
});

test("sends configured headers and redacts them in errors", async () => {
  const secret = "s3cret-value-of-a-header";
  const { url, posted } = await startScriptedServer({
    initialize: LEGACY_HELLO,
    "tools/list": TOOLS,
    "tools/call": (_, response, request) => {
      response.writeHead(500).end(`you sent ${request.headers.authorization}`);
      return undefined;
    },
  });
  const spec = remoteServer(url);
  const { call } = await createTestHub({
    ...spec,
    launch: { ...spec.launch, headers: { Authorization: secret } } as never,
  });

  const failed = (await call("t").catch((thrown: unknown) => thrown)) as QmError;

  expect(posted.every(({ headers }) => headers.authorization === secret)).toBe(true);
  expect(failed.message).toContain("you sent [Authorization]");
});

test("reports updates of subscribed resources in both eras", async () => {
  const uri = "a:b";
  const update = { method: "notifications/resources/updated", params: { uri } };
  const old = await startScriptedServer({
    initialize: { ...LEGACY_HELLO, capabilities: { resources: { subscribe: true } } },
    "resources/list": { resources: [] },
    "resources/subscribe": ({ id }, response) => {
      stream(response).write(event(update));
      response.end(event({ id: id as number, result: {} }));
      return undefined;
    },
  });
  const modern = await startScriptedServer({
    "server/discover": { ...MODERN_HELLO, capabilities: { resources: { subscribe: true } } },
    "resources/list": { resources: [] },
    "subscriptions/listen": ({ id, params }, response) => {
      const _meta = { "io.modelcontextprotocol/subscriptionId": id as string };
      const notifications = params?.notifications as JsonObject;
      stream(response).write(
        event({ method: "notifications/subscriptions/acknowledged", params: { _meta, notifications } }),
      );
      response.write(event({ ...update, params: { uri, _meta } }));
      return undefined;
    },
  });

  for (const { url } of [old, modern]) {
    const { hub, request } = await createTestHub(remoteServer(url));
    const updates: string[][] = [];
    hub.onResourceUpdated((...told) => updates.push(told));

    await request("resources/subscribe", { uri });

    await waitUntil(() => updates.length > 0);
    expect(updates[0]).toEqual(["subject", uri]);
  }
  expect(modern.posted.at(-1)?.params?.notifications).toEqual({ resourceSubscriptions: [uri] });
});
