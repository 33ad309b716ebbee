import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { getRequestListener } from "@hono/node-server";
import { Server as OldServer } from "@modelcontextprotocol/sdk/server/index.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { CallToolRequestSchema, ListToolsRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { createMcpHandler, inputRequired, Server } from "@modelcontextprotocol/server";
import { describe, expect, onTestFinished, test } from "vitest";
import {
  createTestCaller,
  createTestHub,
  LEGACY_HELLO,
  localServer,
  MODERN_HELLO,
  remoteServer,
  startListening,
  startScriptedServer,
} from "../../../test/support/mcp-hub.ts";

const textOf = (result: object) => (result as { content: { text: string }[] }).content[0]?.text;

describe("the reference servers", () => {
  const resolve = createRequire(import.meta.url).resolve;
  const entry = (name: string) =>
    join(dirname(resolve(`@modelcontextprotocol/server-${name}/package.json`)), "dist/index.js");

  test.each([
    ["everything", 16, []],
    ["filesystem", 14, [tmpdir()]],
    ["memory", 9, []],
    ["sequential-thinking", 1, []],
  ])("%s is started once and offers its tools", async (name, tools, args) => {
    const { hub, events } = await createTestHub(localServer(entry(name), {}, ...args));

    const offer = await hub.connect("subject");

    expect(offer).toMatchObject({ era: "legacy", protocolVersion: "2025-11-25" });
    expect(offer.tools.length).toBeGreaterThanOrEqual(tools);
    expect(events).toHaveLength(1);
  });

  test("the everything server can ask, report progress and return images", async () => {
    const { call } = await createTestHub(localServer(entry("everything")));
    const dialogue = createTestCaller(({ method }) =>
      method === "sampling/createMessage"
        ? { role: "assistant", model: "m", content: { type: "text", text: "sampled" } }
        : method === "roots/list"
          ? { roots: [] }
          : { action: "accept", content: { name: "Ada" } },
    );

    const slow = await call("trigger-long-running-operation", { duration: 0.2, steps: 2 }, { dialogue });
    const sampled = await call("trigger-sampling-request", { prompt: "p" }, { dialogue });
    const asked = await call("trigger-elicitation-request", {}, { dialogue });
    const picture = await call("get-tiny-image", {}, { dialogue });

    expect(textOf(slow)).toContain("completed");
    expect(dialogue.heard.map(({ progress }) => progress)).toEqual([1, 2]);
    expect(textOf(sampled)).toContain("sampled");
    expect(JSON.stringify(asked)).toContain("Ada");
    expect((picture.content as { type: string }[]).map(({ type }) => type)).toContain("image");
  });
});

describe("over stdio", () => {
  async function startsOf(
    spec: (journal: string) => Parameters<typeof createTestHub>[0],
    remembered?: "legacy" | "modern",
  ) {
    const folder = await mkdtemp(join(tmpdir(), "era-"));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    const journal = join(folder, "journal");
    const tested = await createTestHub(spec(journal), { getKnownEra: () => remembered });
    return { ...tested, starts: async () => (await readFile(journal, "utf8")).split("\n").length - 1 };
  }

  test.each([[undefined], ["legacy" as const], ["modern" as const]])(
    "a server of 2026-07-28 alone is started once, remembered as %s",
    async (remembered) => {
      const { hub, call, starts } = await startsOf(
        (journal) => localServer("modern-only.mjs", {}, journal),
        remembered,
      );

      const offer = await hub.connect("subject");

      expect(offer).toMatchObject({ era: "modern", protocolVersion: "2026-07-28" });
      expect(textOf(await call("echo", { a: 1 }))).toBe('{"a":1}');
      expect(await starts()).toBe(1);
    },
  );

  test("does not take a slow start for another era", async () => {
    const { hub } = await createTestHub(localServer("slow-start.mjs", {}, "1500"), { getKnownEra: () => "modern" });

    expect(await hub.connect("subject")).toMatchObject({ era: "legacy" });
  });

  test("reaches a server that was modern and is legacy now", async () => {
    const { hub } = await createTestHub(localServer("plain.mjs"), { getKnownEra: () => "modern" });

    expect(await hub.connect("subject")).toMatchObject({ era: "legacy" });
  });

  test("tries only the configured era", async () => {
    const { hub } = await createTestHub([
      localServer("plain.mjs", { name: "old", protocol: "modern" }),
      localServer("modern-only.mjs", { name: "new", protocol: "legacy" }),
    ]);

    await expect(hub.connect("old")).rejects.toMatchObject({ code: "server_failed" });
    await expect(hub.connect("new")).rejects.toThrow();
  });

  test("retries with the oldest initialize when a server refuses unknown members", async () => {
    const { url, posted } = await startScriptedServer({
      initialize: ({ params }) =>
        JSON.stringify(params).includes('"form"')
          ? { error: { code: -32602, message: "unknown member form" } }
          : LEGACY_HELLO,
      "tools/list": { tools: [] },
    });
    const { hub } = await createTestHub(remoteServer(url));

    expect(await hub.connect("subject")).toMatchObject({ protocolVersion: "2025-06-18" });
    const offered = posted.filter(({ method }) => method === "initialize").map(({ params }) => params?.protocolVersion);
    expect(offered).toEqual(["2025-11-25", "2025-06-18"]);
  });
});

describe("over HTTP", () => {
  function newServer() {
    const server = new Server({ name: "new", version: "1" }, { capabilities: { tools: { listChanged: true } } });
    server.setRequestHandler("tools/list", () => ({
      tools: [
        {
          name: "greet",
          inputSchema: { type: "object", properties: { region: { type: "string", "x-mcp-header": "Region" } } },
        },
      ],
    }));
    server.setRequestHandler("tools/call", (_, context) => {
      const answered = context.mcpReq.inputResponses?.name as { content?: { name?: string } } | undefined;
      if (answered === undefined)
        return inputRequired({
          inputRequests: {
            name: inputRequired.elicit({
              message: "Who?",
              requestedSchema: { type: "object", properties: { name: { type: "string" } } },
            }),
          },
        });
      return { content: [{ type: "text", text: `Hello ${answered.content?.name}` }] };
    });
    return server;
  }

  test("uses the modern era of a server with both, with questions and list changes", async () => {
    const handler = createMcpHandler(newServer);
    onTestFinished(() => handler.close?.());
    const { url } = await startListening(createServer(getRequestListener((request) => handler.fetch(request))));
    const { hub, call, offers } = await createTestHub(remoteServer(url));
    const dialogue = createTestCaller(() => ({ action: "accept", content: { name: "Ada" } }));

    expect(await hub.connect("subject")).toMatchObject({ era: "modern", protocolVersion: "2026-07-28" });
    expect(textOf(await call("greet", { region: "eu" }, { dialogue }))).toBe("Hello Ada");
    expect(dialogue.asked.map((batch) => Object.keys(batch))).toEqual([["name"]]);
    await expect
      .poll(
        () => {
          handler.notify.toolsChanged();
          return offers.length;
        },
        { timeout: 10_000 },
      )
      .toBeGreaterThan(1);
  });

  test("declares no capabilities for a caller that cannot be asked", async () => {
    const handler = createMcpHandler(newServer);
    const { url } = await startListening(createServer(getRequestListener((request) => handler.fetch(request))));
    const { call } = await createTestHub(remoteServer(url));

    await expect(call("greet")).rejects.toMatchObject({ code: "action_failed", details: { mcp_code: -32021 } });
  });

  test("speaks the legacy era with a server of the old SDK, with questions on the call's stream", async () => {
    const sessions = new Map<string, StreamableHTTPServerTransport>();
    const open = async () => {
      const server = new OldServer({ name: "old", version: "1" }, { capabilities: { tools: {} } });
      server.setRequestHandler(ListToolsRequestSchema, () => ({
        tools: [{ name: "ask", inputSchema: { type: "object" } }],
      }));
      server.setRequestHandler(CallToolRequestSchema, async (request, extra) => {
        const answer = await server.elicitInput(
          { message: String(request.params.arguments?.who), requestedSchema: { type: "object", properties: {} } },
          { relatedRequestId: extra.requestId },
        );
        return { content: [{ type: "text", text: JSON.stringify(answer) }] };
      });
      const transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: () => crypto.randomUUID(),
        onsessioninitialized: (id) => void sessions.set(id, transport),
      });
      await server.connect(transport as never);
      return transport;
    };
    const { url } = await startListening(
      createServer(async (request, response) => {
        const transport = sessions.get(String(request.headers["mcp-session-id"])) ?? (await open());
        await transport.handleRequest(request, response);
      }),
    );
    const { hub, call } = await createTestHub(remoteServer(url));
    const [one, two] = ["one", "two"].map((name) => createTestCaller(() => ({ action: "accept", content: { name } })));

    const answers = await Promise.all([
      call("ask", { who: "one" }, { dialogue: one }),
      call("ask", { who: "two" }, { dialogue: two }),
    ]);

    expect(hub.status("subject")).toMatchObject({ era: "legacy", protocolVersion: "2025-11-25" });
    expect(answers.map(textOf).map((text) => JSON.parse(text ?? "").content)).toEqual([
      { name: "one" },
      { name: "two" },
    ]);
    expect([one?.asked, two?.asked].map((asked) => asked?.map(({ question }) => question?.params.message))).toEqual([
      ["one"],
      ["two"],
    ]);
  });

  test("accepts a discovery without a result type and cache hints", async () => {
    const { resultType, ttlMs, cacheScope, ...bare } = MODERN_HELLO;
    const { url } = await startScriptedServer({ "server/discover": bare, "tools/list": { tools: [] } });
    const { hub } = await createTestHub(remoteServer(url));

    expect([resultType, ttlMs, cacheScope]).not.toContain(undefined);
    expect(await hub.connect("subject")).toMatchObject({ era: "modern" });
  });
});
