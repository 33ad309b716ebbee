import {
  Client,
  type ClientOptions,
  InMemoryTransport,
  isInputRequiredResult,
  ProtocolError,
  type RequestOptions,
  StreamableHTTPClientTransport,
} from "@modelcontextprotocol/client";
import {
  CLIENT_CAPABILITIES_META_KEY,
  LOG_LEVEL_META_KEY,
  type McpServerFactory,
  type Result,
} from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { onTestFinished } from "vitest";
import { createQuartermaster, type Quartermaster } from "../../app/quartermaster.ts";
import { systemRuntime } from "../../app/system-runtime.ts";
import type { Provider } from "../../catalog/define-action.ts";
import type { Action, CallContext } from "../../core/action.ts";
import type { AskedQuestion, Caller } from "../../core/caller.ts";
import { QmError, toErrorDetails } from "../../core/errors.ts";
import type { UnstampedEvent } from "../../core/events.ts";
import { type ContentBlock, formatContent, WithContent } from "../../core/handler-result.ts";
import { type Json, type JsonObject, omitUndefined } from "../../core/json.ts";
import { actionName } from "../../core/names.ts";
import type { SurfaceChoice } from "../../core/surface-choice.ts";
import { createTokenAuthorizer } from "../../core/token-authorizer.ts";
import type { Tracer } from "../../core/tracing.ts";
import type { PolicyOptions } from "../../policy/policy.ts";
import { createGateway } from "./create-gateway.ts";
import type { Gateway, GatewayEra, GatewayListener, GatewayOptions, GatewayProfile, Upstream } from "./gateway.ts";

/** One real server behind the gateway. It replaces the hub in tests. */
export interface TestUpstream {
  readonly provider: Provider;
  readonly upstream: Upstream;
  close(): Promise<void>;
}

type Listed = "tools" | "resources" | "resourceTemplates" | "prompts";
const LISTS = {
  tools: "tools/list",
  resources: "resources/list",
  resourceTemplates: "resources/templates/list",
  prompts: "prompts/list",
} as const;

export async function connectUpstream(
  server: string,
  factory: McpServerFactory,
  era: GatewayEra,
): Promise<TestUpstream> {
  const [ours, theirs] = InMemoryTransport.createLinkedPair();
  const served = serveStdio(factory, { transport: theirs });
  const listeners = new Set<(what: "tools" | "resources" | "prompts") => void>();
  const followers = new Set<(server: string, uri: string) => void>();
  const running = new Set<CallContext>();
  const lists: Record<Listed, readonly JsonObject[]> = { tools: [], resources: [], resourceTemplates: [], prompts: [] };
  let changed = () => {};

  const client = new Client(
    { name: "test-upstream", version: "1" },
    {
      capabilities: { elicitation: { form: {} }, sampling: {}, roots: {} },
      versionNegotiation: { mode: era === "legacy" ? "legacy" : { pin: "2026-07-28" } },
      inputRequired: { autoFulfill: false },
      listChanged: {
        tools: { onChanged: () => void refresh("tools"), autoRefresh: false, debounceMs: 0 },
        prompts: { onChanged: () => void refresh("prompts"), autoRefresh: false, debounceMs: 0 },
      },
    },
  );
  const dialogue = () => [...running].at(-1)?.dialogue;
  for (const method of ["elicitation/create", "sampling/createMessage", "roots/list"] as const) {
    client.setRequestHandler(method, async ({ params }) => {
      const answers = await dialogue()?.ask({ it: { method, params: (params ?? {}) as JsonObject } });
      return answers?.it as never;
    });
  }
  client.setNotificationHandler("notifications/message", ({ params: { level, data } }) =>
    dialogue()?.log({ level, data }),
  );
  client.setNotificationHandler("notifications/resources/updated", ({ params: { uri } }) => {
    for (const follower of followers) follower(server, uri);
  });
  await client.connect(ours);
  if (era === "legacy") await client.setLoggingLevel("debug");

  async function refresh(what: Listed): Promise<void> {
    const listed = (await client.request({ method: LISTS[what] })) as unknown as Record<Listed, JsonObject[]>;
    lists[what] = listed[what];
    changed();
    for (const listener of listeners) listener(what === "resourceTemplates" ? "resources" : what);
  }

  async function forward(method: string, params: JsonObject, context: CallContext): Promise<JsonObject> {
    running.add(context);
    try {
      return await rounds(method, params, context);
    } catch (thrown) {
      if (!(thrown instanceof ProtocolError)) throw thrown;
      throw new QmError("action_failed", thrown.message, {
        details: toErrorDetails({ mcp_code: thrown.code, mcp_data: thrown.data as Json | undefined }),
      });
    } finally {
      running.delete(context);
    }
  }

  async function rounds(method: string, params: JsonObject, context: CallContext): Promise<JsonObject> {
    const { signal, dialogue: told } = context;
    const _meta =
      era === "legacy"
        ? {}
        : { [CLIENT_CAPABILITIES_META_KEY]: told?.capabilities ?? {}, [LOG_LEVEL_META_KEY]: "debug" };
    let more: JsonObject = {};
    for (;;) {
      const request = { method: method as "tools/call", params: { ...params, ...more, _meta } as never };
      const options = { signal, allowInputRequired: true, onprogress: told?.progress.bind(told) } as never;
      const result = (await client.request(request, options)) as Result;
      if (!isInputRequiredResult(result)) return result as JsonObject;
      const { inputRequests, requestState } = result as unknown as JsonObject;
      if (told === undefined) throw new QmError("action_failed", "the client cannot be asked");
      const inputResponses = await told.ask((inputRequests ?? {}) as never);
      more = { inputResponses, ...(requestState === undefined ? {} : { requestState }) };
    }
  }

  function action(entry: string, inputSchema: JsonObject, run: Action["run"]): Action {
    return {
      name: actionName("mcp", `${server}__${entry}`),
      category: "mcp",
      entry: `${server}__${entry}`,
      description: `${entry} of ${server}.`,
      effect: "external",
      inputSchema,
      aliases: [],
      examples: [],
      tags: [],
      idempotent: false,
      requiresApproval: false,
      scope: "generalist",
      routing: "routed",
      peerExposed: false,
      run,
    };
  }

  async function callTool(name: string, args: JsonObject, context: CallContext): Promise<WithContent> {
    const { content, structuredContent, isError, _meta } = await forward(
      "tools/call",
      { name, arguments: args },
      context,
    );
    const blocks = (content ?? []) as unknown as readonly ContentBlock[];
    const own = Object.entries((_meta ?? {}) as JsonObject).filter(
      ([key]) => !key.startsWith("io.modelcontextprotocol/"),
    );
    const shown = { blocks, ...(own.length === 0 ? {} : { meta: Object.fromEntries(own) }) };
    const text = formatContent(blocks, Number.MAX_SAFE_INTEGER);
    if (isError === true) throw new QmError("action_failed", text, { content: shown });
    return new WithContent(structuredContent ?? text, { ...shown, structured: structuredContent !== undefined });
  }

  const any = { type: "object" } as const;
  const reaching = ["resources/read", "prompts/get", "completion/complete"];
  await Promise.all((Object.keys(LISTS) as Listed[]).map(refresh));

  return {
    provider: {
      category: "mcp",
      capability: "Use one test server.",
      list: () => [
        ...lists.tools.map(({ name, inputSchema }) =>
          action(String(name), inputSchema as JsonObject, (args, context) => callTool(String(name), args, context)),
        ),
        ...reaching.map((method) => action(method, any, (args, context) => forward(method, args, context))),
        ...["resources/subscribe", "resources/unsubscribe"].map((method) =>
          action(method, any, (args, context) => (era === "legacy" ? forward(method, args, context) : {})),
        ),
      ],
      watch(onChange) {
        changed = onChange;
        return () => {
          changed = () => {};
        };
      },
    },
    upstream: {
      tools: () =>
        lists.tools.map((definition) => ({
          server,
          action: actionName("mcp", `${server}__${definition.name}`),
          name: String(definition.name),
          definition,
        })),
      resources: () => lists.resources.map((resource) => ({ server, resource })),
      templates: () => lists.resourceTemplates.map((template) => ({ server, template })),
      prompts: () => lists.prompts.map((prompt) => ({ server, prompt })),
      onChange(listener) {
        listeners.add(listener);
        return () => listeners.delete(listener);
      },
      onResourceUpdated(listener) {
        followers.add(listener);
        return () => followers.delete(listener);
      },
    },
    async close() {
      await client.close();
      await served.close();
    },
  };
}

export const MODERN = "2026-07-28";

/** A gateway on a real socket, in front of a real quartermaster with a few tools. */
export interface Gate {
  readonly qm: Quartermaster;
  readonly gateway: Gateway;
  readonly listener: GatewayListener;
  readonly url: string;
  readonly problems: readonly string[];
  readonly noted: readonly { readonly caller: Caller; readonly event: UnstampedEvent }[];
  /** The `name` arguments of calls of `hang` that were stopped. */
  readonly stopped: readonly string[];
  /** The `name` arguments of calls of `hang` that have started. */
  readonly hanging: readonly string[];
  client(era: GatewayEra, token?: string, options?: ClientOptions): Promise<Client>;
  post(body: unknown, headers?: Readonly<Record<string, string>>): Promise<Response>;
}

export interface GateOptions extends Partial<Pick<GatewayOptions, "limits">> {
  readonly behind?: TestUpstream;
  /** A folder of skills. */
  readonly skills?: string;
  /** The world of these skills. */
  readonly world?: string;
  readonly policy?: PolicyOptions;
  readonly surface?: SurfaceChoice;
  readonly tracer?: Tracer;
  /** Profiles by token. Default: `t` is the token of a plain profile. */
  readonly profiles?: Readonly<Record<string, Partial<GatewayProfile>>>;
  readonly allowedHosts?: readonly string[];
  readonly allowedOrigins?: readonly string[];
}

export async function openGate(options: GateOptions = {}): Promise<Gate> {
  const {
    behind,
    skills,
    world,
    policy,
    surface,
    profiles = { t: {} },
    allowedHosts = [],
    allowedOrigins = [],
  } = options;
  const traced = options.tracer === undefined ? {} : { tracer: options.tracer };
  const problems: string[] = [];
  const noted: { caller: Caller; event: UnstampedEvent }[] = [];
  const stopped: string[] = [];
  const hanging: string[] = [];
  const closing: (() => Promise<unknown>)[] = [];
  const qm = await createQuartermaster({
    providers: behind === undefined ? [] : [behind.provider],
    ...(skills === undefined
      ? {}
      : { skills: { roots: [{ folder: skills, source: "test", trusted: true, ...omitUndefined({ world }) }] } }),
    ...(policy === undefined ? {} : { policy }),
    ...(surface === undefined ? {} : { surface }),
    ...traced,
  });
  registerTools(qm, stopped, hanging);
  const gateway = createGateway({
    quartermaster: qm,
    ...(behind === undefined ? {} : { upstream: behind.upstream }),
    runtime: systemRuntime,
    info: { name: "gate", version: "1" },
    onProblem: (problem) => problems.push(problem),
    note: (caller, event) => noted.push({ caller, event }),
    ...(options.limits === undefined ? {} : { limits: options.limits }),
    ...traced,
  });
  const tokens = Object.entries(profiles).map(([token, profile]) => [token, profileWith(profile)] as const);
  const authorize = createTokenAuthorizer(tokens);
  const listener = await gateway.listen({ host: "127.0.0.1", port: 0, allowedHosts, allowedOrigins, authorize });
  const { url } = listener;
  onTestFinished(async () => {
    for (const close of closing) await close().catch(() => {});
    await gateway.close();
    await qm.close();
    await behind?.close();
  });
  const headersOf = (token: string) => ({ authorization: `Bearer ${token}` });

  return {
    qm,
    gateway,
    listener,
    url,
    problems,
    noted,
    stopped,
    hanging,
    async client(era, token = "t", clientOptions = {}) {
      const client = clientOf(era, clientOptions);
      closing.push(() => client.close());
      const requestInit = { headers: headersOf(token) };
      await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));
      return client;
    },
    post: (body, headers = {}) =>
      fetch(url, {
        method: "POST",
        headers: {
          ...headersOf("t"),
          "content-type": "application/json",
          accept: "application/json, text/event-stream",
          ...headers,
        },
        body: typeof body === "string" ? body : JSON.stringify(body),
      }),
  };
}

export function profileWith(profile: Partial<GatewayProfile> = {}): GatewayProfile {
  return { name: "plain", actor: "default", passThrough: [], resources: true, prompts: true, ...profile };
}

export function clientOf(era: GatewayEra, options: ClientOptions = {}): Client {
  const mode = era === "legacy" ? "legacy" : { pin: MODERN };
  return new Client({ name: "tester", version: "1" }, { versionNegotiation: { mode }, ...options });
}

/** The text blocks of a result. */
export function saidBy(result: unknown): string {
  const { content } = result as { readonly content: readonly { readonly text?: string }[] };
  return content.map(({ text }) => text ?? "").join("");
}

/** Calls an action through the universal surface. */
export function invoke(client: Client, action: string, args: object = {}, options: RequestOptions = {}) {
  return client.callTool({ name: "invoke_action", arguments: { action_name: action, args } }, options);
}

function registerTools(qm: Quartermaster, stopped: string[], hanging: string[]): void {
  const given = { type: "object", properties: { name: { type: "string" } } } as const;
  const common = { scope: "generalist", effect: "read" } as const;
  qm.register({
    ...common,
    name: "echo",
    description: "Says what it is told.",
    inputSchema: { type: "object", properties: { text: { type: "string" } } },
    handler: ({ text }) => ({ said: text ?? "nothing" }),
  });
  qm.register({
    ...common,
    name: "fill",
    description: "Says so many letters.",
    inputSchema: { type: "object", properties: { size: { type: "integer" } } },
    handler: ({ size }) => ({ letters: "x".repeat(Number(size)) }),
  });
  qm.register({
    ...common,
    name: "draw",
    description: "Draws a picture of so many characters.",
    inputSchema: { type: "object", properties: { size: { type: "integer" } } },
    handler: ({ size }) => {
      const picture = { type: "image", mimeType: "image/png", data: "A".repeat(Number(size)) };
      return new WithContent("a picture", { blocks: [{ type: "text", text: "Here:" }, picture] });
    },
  });
  qm.register({
    ...common,
    name: "hang",
    description: "Tells how far it is, and waits until it is stopped.",
    inputSchema: given,
    handler: ({ name = "" }, { signal, dialogue }) => {
      dialogue?.progress({ progress: 1, total: 2, message: "waiting" });
      dialogue?.log({ level: "warning", data: "it may take a while" });
      hanging.push(String(name));
      return new Promise((_resolve, reject) => {
        signal.addEventListener("abort", () => {
          stopped.push(String(name));
          reject(new Error("stopped"));
        });
      });
    },
  });
  qm.register({
    ...common,
    name: "greet",
    description: "Asks for a name, then for a colour, and greets.",
    inputSchema: given,
    effect: "read",
    handler: async (_args, { dialogue }) => {
      if (dialogue === undefined) throw new Error("nobody is there");
      const { who } = await dialogue.ask({ who: form("Your name?", "name") });
      const { how } = await dialogue.ask({ how: form("Your colour?", "colour") });
      return { who: who ?? null, how: how ?? null };
    },
  });
}

function form(message: string, field: string): AskedQuestion {
  const requestedSchema = { type: "object", properties: { [field]: { type: "string" } }, required: [field] };
  return { method: "elicitation/create", params: { mode: "form", message, requestedSchema } };
}
