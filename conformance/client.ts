import { hostname } from "node:os";
import type { Dialogue } from "../src/core/caller.ts";
import { QmError } from "../src/core/errors.ts";
import { isRecord, type Json, type JsonObject } from "../src/core/json.ts";
import { createHub } from "../src/mcp/hub/hub.ts";
import type { OfferedTool, ServerOffer } from "../src/mcp/manifests/offer.ts";
import type { SecretStore } from "../src/mcp/secret-store.ts";
import type { OAuthSettings, ServerSpec } from "../src/mcp/server-spec.ts";

/**
 * The hub as the client under test: `node --import tsx conformance/client.ts <url>`. Like the hub's users, it connects to the
 * server and uses everything it offers. It follows redirects in place of a person who logs in.
 */
const url = process.argv.at(-1) ?? "";
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? "{}") as Record<string, unknown>;
/** Logins that one run may need: the first, and one for scopes that were not granted at first. */
const LOGINS = 3;

const hub = createHub({
  runtime: { now: () => new Date(), elapsed: () => performance.now(), newId: () => crypto.randomUUID() },
  fill: (text) => text,
  environment: process.env,
  secrets: inMemory(),
  processes: { add: async () => undefined, remove: async () => undefined, all: async () => [] },
  processFacts: {
    pid: process.pid,
    host: hostname(),
    isAlive: () => true,
    kill: (pid, signal) => process.kill(pid, signal),
  },
  onOffer: async () => undefined,
  note: () => undefined,
  startingAtOnce: 1,
  clientInfo: { name: "quartermaster", version: "0.0.0" },
});

const spec: ServerSpec = {
  name: "subject",
  launch: { kind: "http", url, headers: {}, oauth: settings() },
  protocol: "auto",
  // All scenarios run at once, so a slow machine needs a long timeout.
  startTimeoutMs: 300_000,
  idleTimeoutMs: 0,
  trustAnnotations: true,
  pin: false,
  tools: [],
};

const dialogue: Dialogue = {
  owner: "conformance",
  capabilities: { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} },
  progress: () => undefined,
  log: () => undefined,
  ask: async (questions) =>
    Object.fromEntries(Object.entries(questions).map(([key, { method }]) => [key, answerTo(method)])),
};

try {
  await hub.configure([spec]);
  const offer = await loggedIn(() => hub.connect("subject"));
  await useEverything(offer);
} catch (thrown) {
  console.error(thrown instanceof QmError ? JSON.stringify(thrown.toProblem()) : thrown);
  process.exitCode = 1;
} finally {
  await hub.close();
}

/** Logs in and repeats a request that ended with `needs_login`. */
async function loggedIn<T>(work: () => Promise<T>): Promise<T> {
  for (let logins = 0; ; logins++) {
    try {
      return await work();
    } catch (thrown) {
      if (!(thrown instanceof QmError) || thrown.code !== "needs_login" || logins === LOGINS) throw thrown;
      await hub.login("subject", async (page) => {
        const response = await fetch(page);
        await response.body?.cancel();
      });
    }
  }
}

async function useEverything({ tools, resources, prompts }: ServerOffer): Promise<void> {
  for (const { name, args } of toolCalls(tools)) await request("tools/call", { name, arguments: args });
  for (const { uri } of resources) await request("resources/read", { uri: String(uri) });
  for (const { name, arguments: wanted } of prompts)
    await request("prompts/get", { name: String(name), arguments: promptArguments(wanted) });
}

/** A refused request is a valid answer. Some scenarios offer features that they do not implement. */
async function request(method: string, params: JsonObject): Promise<void> {
  try {
    await loggedIn(() => hub.request("subject", { method, params }, { dialogue }));
  } catch (thrown) {
    if (!(thrown instanceof QmError) || thrown.code !== "action_failed") throw thrown;
  }
}

/** The calls that the scenario asks for, or one call of each tool. */
function toolCalls(tools: readonly OfferedTool[]): readonly { name: string; args: JsonObject }[] {
  const wanted = Array.isArray(context.toolCalls) ? context.toolCalls.filter(isRecord) : [];
  const named = wanted.map((call) => ({ name: String(call.name), args: (call.arguments ?? {}) as JsonObject }));
  if (named.length > 0) return named;
  // One scenario expects the schema of a tool back, unchanged.
  const schema = tools.find(({ name }) => name === "json_schema_2020_12_tool")?.inputSchema ?? {};
  return tools.map(({ name, inputSchema }) => ({
    name,
    args: name === "json_schema_echo" ? { schema } : exampleOf(inputSchema),
  }));
}

function exampleOf(schema: JsonObject): JsonObject {
  const properties = isRecord(schema.properties) ? schema.properties : {};
  return Object.fromEntries(Object.entries(properties).map(([name, property]) => [name, exampleValue(property)]));
}

function exampleValue(property: unknown): Json {
  const type = isRecord(property) ? property.type : undefined;
  if (type === "number" || type === "integer") return 5;
  if (type === "boolean") return true;
  if (type === "array") return [];
  if (type === "object") return {};
  return "example";
}

function promptArguments(wanted: unknown): JsonObject {
  const names = Array.isArray(wanted) ? wanted.filter(isRecord).map(({ name }) => String(name)) : [];
  return Object.fromEntries(names.map((name) => [name, "example"]));
}

function answerTo(method: string): JsonObject {
  if (method === "roots/list") return { roots: [] };
  if (method === "sampling/createMessage")
    return { role: "assistant", model: "none", content: { type: "text", text: "example" } };
  return { action: "accept", content: {} };
}

function settings(): OAuthSettings {
  const { client_id, client_secret } = context;
  return {
    clientMetadataUrl: "https://conformance-test.local/client-metadata.json",
    ...(typeof client_id === "string" ? { clientId: client_id } : {}),
    ...(typeof client_secret === "string" ? { clientSecret: client_secret } : {}),
  };
}

function inMemory(): SecretStore {
  const kept = new Map<string, string>();
  return {
    get: async (name) => kept.get(name),
    set: async (name, value) => void kept.set(name, value),
    delete: async (name) => kept.delete(name),
    names: async () => [...kept.keys()],
  };
}
