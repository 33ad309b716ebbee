import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";
import type { AskedQuestion, Dialogue, LogLine, ProgressUpdate } from "../../src/core/caller.ts";
import type { JsonObject } from "../../src/core/json.ts";
import type { Hub } from "../../src/mcp/hub/hub.ts";
import { createHub, type HubOptions } from "../../src/mcp/hub/hub.ts";
import type { ServerEvent } from "../../src/mcp/hub/supervisor.ts";
import type { ServerOffer } from "../../src/mcp/manifests/offer.ts";
import type { SecretStore } from "../../src/mcp/secret-store.ts";
import type { OAuthSettings, ServerSpec } from "../../src/mcp/server-spec.ts";
import { fixturePath } from "../fixtures/mcp-servers/stdio-fixtures.ts";

const spec = (name: string, launch: ServerSpec["launch"], given: Partial<ServerSpec>): ServerSpec => ({
  name,
  launch,
  protocol: "auto",
  startTimeoutMs: 30_000,
  idleTimeoutMs: 0,
  trustAnnotations: true,
  pin: true,
  tools: [],
  ...given,
});

/** A program of `testing/`, or any other by its path. */
export function localServer(program: string, given: Partial<ServerSpec> = {}, ...args: string[]): ServerSpec {
  const path = program.startsWith("/") ? program : fixturePath(program);
  return spec("subject", { kind: "stdio", command: process.execPath, args: [path, ...args], env: {} }, given);
}

export function remoteServer(url: string, given: Partial<ServerSpec> = {}, oauth?: OAuthSettings): ServerSpec {
  return spec("subject", { kind: "http", url, headers: {}, ...(oauth ? { oauth } : {}) }, given);
}

export interface TestHub {
  readonly hub: Hub;
  readonly events: ServerEvent[];
  /** All learned offers, in order. */
  readonly offers: ServerOffer[];
  call(tool: string, args?: JsonObject, given?: Partial<Parameters<Hub["request"]>[2]>): Promise<JsonObject>;
  request(method: string, params: JsonObject, given?: Partial<Parameters<Hub["request"]>[2]>): Promise<JsonObject>;
}

/** A hub with one server `subject`, or several. It is closed after the test. */
export async function createTestHub(
  specs: ServerSpec | readonly ServerSpec[],
  given: Partial<HubOptions> = {},
): Promise<TestHub> {
  const events: ServerEvent[] = [];
  const offers: ServerOffer[] = [];
  const hub = createHub({
    runtime: { now: () => new Date(), elapsed: () => performance.now(), newId: () => crypto.randomUUID() },
    fill: (text) => text,
    environment: process.env,
    secrets: createMemorySecrets(),
    processes: { add: async () => undefined, remove: async () => undefined, all: async () => [] },
    processFacts: { pid: process.pid, host: "here", isAlive: () => true, kill: process.kill },
    onOffer: async (_, offer) => void offers.push(offer),
    note: (event) => void events.push(event),
    startingAtOnce: 4,
    clientInfo: { name: "test", version: "1.0.0" },
    ...given,
  });
  onTestFinished(() => hub.close());
  await hub.configure([specs].flat() as ServerSpec[]);
  const request: TestHub["request"] = (method, params, options = {}) =>
    hub.request("subject", { method, params }, options);
  return {
    hub,
    events,
    offers,
    request,
    call: (name, args = {}, options = {}) => request("tools/call", { name, arguments: args }, options),
  };
}

export function createMemorySecrets(kept = new Map<string, string>()): SecretStore {
  return {
    get: async (name) => kept.get(name),
    set: async (name, value) => void kept.set(name, value),
    delete: async (name) => kept.delete(name),
    names: async () => [...kept.keys()],
  };
}

export interface TestCaller extends Dialogue {
  readonly heard: ProgressUpdate[];
  readonly lines: LogLine[];
  readonly asked: Readonly<Record<string, AskedQuestion>>[];
}

/** A caller that supports every question, with default answers that a test can override. */
export function createTestCaller(
  answer: (question: AskedQuestion, key: string) => JsonObject | Promise<JsonObject> = () => ({
    action: "accept",
    content: {},
  }),
  capabilities: JsonObject = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} },
  owner: string = crypto.randomUUID(),
): TestCaller {
  const asked: TestCaller["asked"] = [];
  const heard: ProgressUpdate[] = [];
  const lines: LogLine[] = [];
  return {
    owner,
    capabilities,
    heard,
    lines,
    asked,
    progress: (update) => void heard.push(update),
    log: (line) => void lines.push(line),
    async ask(questions) {
      asked.push(questions);
      const answers = Object.entries(questions).map(
        async ([key, question]) => [key, await answer(question, key)] as const,
      );
      return Object.fromEntries(await Promise.all(answers));
    },
  };
}

export interface Message {
  readonly id?: number | string;
  readonly method?: string;
  readonly params?: JsonObject;
  readonly result?: JsonObject;
}

export interface ScriptedServer {
  readonly url: string;
  /** All posted messages, in order. */
  readonly posted: (Message & { readonly headers: IncomingMessage["headers"] })[];
  close(): Promise<void>;
}

type Answer = JsonObject | { readonly error: JsonObject };

export const LEGACY_HELLO: JsonObject = {
  protocolVersion: "2025-06-18",
  capabilities: { tools: {} },
  serverInfo: { name: "written", version: "1" },
};

export const MODERN_HELLO: JsonObject = {
  resultType: "complete",
  supportedVersions: ["2026-07-28"],
  capabilities: { tools: {} },
  ttlMs: 0,
  cacheScope: "private",
};

/**
 * A scripted server over HTTP: a result or an error for each method. A handler that returns nothing writes the response
 * itself. Other methods are unknown.
 */
export async function startScriptedServer(
  answers: Readonly<
    Record<
      string,
      Answer | ((message: Message, response: ServerResponse, request: IncomingMessage) => Answer | undefined)
    >
  >,
): Promise<ScriptedServer> {
  const posted: ScriptedServer["posted"] = [];
  const server = createServer(async (request, response) => {
    if (request.method !== "POST") return void response.writeHead(405).end();
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const message = JSON.parse(Buffer.concat(chunks).toString("utf8")) as Message;
    posted.push({ ...message, headers: request.headers });
    if (message.id === undefined || message.method === undefined) return void response.writeHead(202).end();
    const known = answers[message.method] ?? { error: { code: -32601, message: "no such method" } };
    const answer = typeof known === "function" ? known(message, response, request) : known;
    if (answer === undefined) return;
    const body = "error" in answer ? answer : { result: answer };
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ jsonrpc: "2.0", id: message.id, ...body }));
  });
  return { ...(await startListening(server)), posted };
}

/** A server on a free port, closed after the test. */
export async function startListening(
  server: ReturnType<typeof createServer>,
): Promise<{ url: string; close(): Promise<void> }> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const close = async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  onTestFinished(close);
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`, close };
}

/** One event of a stream. */
export function event(message: JsonObject): string {
  return `data: ${JSON.stringify({ jsonrpc: "2.0", ...message })}\n\n`;
}
