import {
  CLIENT_CAPABILITIES_META_KEY,
  type Implementation,
  type JSONRPCRequest,
  type jsonSchemaValidator,
  PROTOCOL_VERSION_META_KEY,
  ProtocolError,
  ProtocolErrorCode,
  type Result,
  Server,
  type ServerCapabilities,
  type ServerContext,
  type ServerOptions,
} from "@modelcontextprotocol/server";
import type { JsonObject } from "../../core/json.ts";
import type { Runtime } from "../../core/runtime.ts";
import type { SpanFacts, TraceCarrier } from "../../core/tracing.ts";
import { type McpSpan, type McpTelemetry, startMcpSpan } from "../../telemetry/mcp-span.ts";
import type { ListWatcher, ResourceSubscriber } from "./change-notifications.ts";
import { createPushDialogue } from "./client-dialogue.ts";
import type { GatewayEra, GatewayLimits, GatewayOptions, GatewayProfile } from "./gateway.ts";
import type { HeldCalls } from "./held-calls.ts";
import type { ProfileSession, SessionCallOptions } from "./profile-session.ts";

interface ServerTracingOptions {
  readonly telemetry: McpTelemetry;
  readonly transport: "stdio" | "http";
  /** The session's id as the client knows it. Absent: the protocol has none. */
  readonly session?: string | undefined;
}

/** A server that tells those who trace of every request it handles, also of those that the library answers. */
class TracedServer extends Server {
  readonly #tracing: ServerTracingOptions;
  readonly #spans = new WeakMap<ServerContext, McpSpan>();

  constructor(info: Implementation, options: ServerOptions, tracing: ServerTracingOptions) {
    super(info, options);
    this.#tracing = tracing;
  }

  /** What work for a request is part of. Undefined where nobody traces. */
  getTrace(ctx: ServerContext): TraceCarrier | undefined {
    const carrier = this.#spans.get(ctx)?.carrier();
    return carrier?.traceparent === undefined ? undefined : carrier;
  }

  protected override _wrapHandler(
    method: string,
    handler: (request: JSONRPCRequest, ctx: ServerContext) => Promise<Result>,
  ): (request: JSONRPCRequest, ctx: ServerContext) => Promise<Result> {
    const handled = super._wrapHandler(method, handler);
    return async (request, ctx) => {
      const span = this.#start(method, request, ctx);
      this.#spans.set(ctx, span);
      try {
        const result = await handled(request, ctx);
        // Nobody is there to be answered any more.
        if (ctx.mcpReq.signal.aborted) span.failed("cancelled");
        else span.answered(result);
        return result;
      } catch (thrown) {
        span.failed(ctx.mcpReq.signal.aborted ? "cancelled" : toErrorCode(thrown));
        throw thrown;
      }
    };
  }

  #start(method: string, { params }: JSONRPCRequest, { mcpReq: { id, _meta, envelope } }: ServerContext): McpSpan {
    const { telemetry, transport, session } = this.#tracing;
    const said = (envelope as Readonly<Record<string, unknown>> | undefined)?.[PROTOCOL_VERSION_META_KEY];
    const version = this.getNegotiatedProtocolVersion() ?? (typeof said === "string" ? said : undefined);
    const connection: SpanFacts = { "mcp.protocol.version": version, ...TRANSPORT_FACTS[transport] };
    const parent = (_meta ?? {}) as TraceCarrier;
    return startMcpSpan(telemetry, { side: "server", method, params, id, connection, session, parent });
  }
}

/** As those who trace call them. */
export const TRANSPORT_FACTS = {
  stdio: { "network.transport": "pipe" },
  http: { "network.transport": "tcp", "network.protocol.name": "http" },
} as const satisfies Record<string, SpanFacts>;

function toErrorCode(thrown: unknown): number {
  return thrown instanceof ProtocolError ? thrown.code : ProtocolErrorCode.InternalError;
}

interface McpServerOptions {
  readonly options: Pick<GatewayOptions, "info" | "instructions" | "onProblem" | "upstream">;
  readonly runtime: Runtime;
  readonly limits: GatewayLimits;
  readonly telemetry: McpTelemetry;
  readonly held: HeldCalls;
  readonly profile: GatewayProfile;
  readonly era: GatewayEra;
  readonly transport: "stdio" | "http";
  /** Who asks; nobody else goes on with what they began. */
  readonly principal: string;
  /** The session of a client with a connection of its own. Absent: every request stands alone. */
  readonly session?: string;
  resolveSession(ctx: ServerContext): ProfileSession;
  /** Told what lists the client was given. */
  readonly watch: Pick<ListWatcher, "listed">;
  /** Told that a call was answered, which may have changed what the client is shown. */
  called?(): void;
  /** Who is told when a resource that the client subscribed to has changed. Absent: it cannot subscribe this way. */
  readonly follower?: (server: Server) => ResourceSubscriber;
}

type InteractiveMethod = "tools/call" | "prompts/get" | "resources/read";

/** Lists change when servers come and go, and clients are told; this bounds how long one that does not listen is wrong. */
const LIST_HINT = { ttlMs: 60_000, cacheScope: "private" } as const;
const FRESH_HINT = { ttlMs: 0, cacheScope: "private" } as const;

/** What a client's answers are is for whoever asked to check: schemas of strangers are not compiled here. */
const acceptAnySchema: jsonSchemaValidator = {
  getValidator: () => (input) => ({ valid: true, data: input as never, errorMessage: undefined }),
};

/** One MCP server over a desk: every method that clients use, and nothing decided here. */
export function createMcpServer(parts: McpServerOptions): Server {
  const { options, profile, era, resolveSession: deskOf } = parts;
  const { resources, prompts } = getOfferedLists(parts);
  const instructions = options.instructions?.(profile);
  const settings = {
    capabilities: createCapabilities(parts),
    ...(instructions === undefined ? {} : { instructions }),
    jsonSchemaValidator: acceptAnySchema,
    cacheHints: {
      "tools/list": LIST_HINT,
      "resources/list": LIST_HINT,
      "resources/templates/list": LIST_HINT,
      "prompts/list": LIST_HINT,
      "server/discover": LIST_HINT,
      "resources/read": FRESH_HINT,
    },
  };
  const { telemetry, transport } = parts;
  // On a pipe a session is ours alone, and without sessions there is none to tell.
  const session = era === "legacy" && transport === "http" ? parts.session : undefined;
  const server = new TracedServer(options.info, settings, { telemetry, transport, session });
  server.onerror = (error) => options.onProblem(`${profile.name}: ${error.message}`);

  server.setRequestHandler("tools/list", async ({ params }, ctx) => {
    requireFirstPage(params);
    const tools = await deskOf(ctx).tools();
    parts.watch.listed("tools", tools);
    return { tools } as never;
  });
  server.setRequestHandler("tools/call", async ({ params }, ctx) => {
    const { name, arguments: args } = params;
    const profileSession = deskOf(ctx);
    const result = await runInteractive("tools/call", { name, arguments: args ?? {} }, ctx, async (talk) => {
      const answered = await profileSession.callTool(name, args ?? {}, talk);
      return server.projectCallToolResult(answered, await profileSession.getOutputSchema(name)) as Result;
    });
    parts.called?.();
    return result as never;
  });

  if (resources) {
    server.setRequestHandler("resources/list", ({ params }, ctx) => {
      requireFirstPage(params);
      const items = deskOf(ctx).resources();
      parts.watch.listed("resources", items);
      return { resources: items } as never;
    });
    server.setRequestHandler("resources/templates/list", ({ params }, ctx) => {
      requireFirstPage(params);
      const items = deskOf(ctx).templates();
      parts.watch.listed("templates", items);
      return { resourceTemplates: items } as never;
    });
    server.setRequestHandler("resources/read", async ({ params: { uri } }, ctx) => {
      return (await runInteractive("resources/read", { uri }, ctx, (talk) =>
        deskOf(ctx).readResource(uri, talk),
      )) as never;
    });
    const follower = parts.follower?.(server);
    if (follower !== undefined && era === "legacy") {
      server.setRequestHandler("resources/subscribe", async ({ params: { uri } }, ctx) => {
        await deskOf(ctx).subscribe(uri, follower, createCallOptions(ctx));
        return {};
      });
      server.setRequestHandler("resources/unsubscribe", async ({ params: { uri } }, ctx) => {
        await deskOf(ctx).unsubscribe(uri, follower, createCallOptions(ctx));
        return {};
      });
    }
  }
  if (prompts) {
    server.setRequestHandler("prompts/list", ({ params }, ctx) => {
      requireFirstPage(params);
      const items = deskOf(ctx).prompts();
      parts.watch.listed("prompts", items);
      return { prompts: items } as never;
    });
    server.setRequestHandler("prompts/get", async ({ params: { name, arguments: args } }, ctx) => {
      const asked = { name, arguments: args ?? {} };
      return (await runInteractive("prompts/get", asked, ctx, (talk) =>
        deskOf(ctx).getPrompt(name, args, talk),
      )) as never;
    });
  }
  if (resources || prompts) {
    server.setRequestHandler("completion/complete", async ({ params }, ctx) => {
      const { ref, argument, context } = params as unknown as JsonObject;
      const asked = { ...(ref && { ref }), ...(argument && { argument }), ...(context && { context }) };
      return (await deskOf(ctx).complete(asked, createCallOptions(ctx))) as never;
    });
  }
  return server;

  /** Runs what may ask the client something meanwhile, in the way of its era. */
  function runInteractive(
    method: InteractiveMethod,
    params: JsonObject | { readonly [key: string]: unknown },
    ctx: ServerContext,
    run: (talk: SessionCallOptions) => Promise<Result | JsonObject>,
  ): Promise<Result> {
    const talk = createCallOptions(ctx);
    if (era === "legacy") {
      const dialogue = createPushDialogue(ctx, {
        owner: parts.session ?? parts.runtime.newId(),
        capabilities: server.getClientCapabilities(),
        protocolVersion: server.getNegotiatedProtocolVersion() ?? "",
        questionMs: parts.limits.questionMs,
        newId: parts.runtime.newId,
      });
      return run({ ...talk, dialogue }) as Promise<Result>;
    }
    return parts.held.serve({
      ctx,
      principal: parts.principal,
      client: deskOf(ctx).caller.client,
      profile: profile.name,
      method,
      params,
      owner: parts.session,
      capabilities: (ctx.mcpReq.envelope as JsonObject | undefined)?.[CLIENT_CAPABILITIES_META_KEY],
      start: (dialogue, signal) => run({ ...talk, signal, dialogue }) as Promise<Result>,
    });
  }

  function createCallOptions(ctx: ServerContext): SessionCallOptions {
    const trace = server.getTrace(ctx);
    return { signal: ctx.mcpReq.signal, ...(trace === undefined ? {} : { trace }) };
  }
}

function getOfferedLists({ options: { upstream }, profile }: McpServerOptions) {
  return { resources: upstream !== undefined && profile.resources, prompts: upstream !== undefined && profile.prompts };
}

function createCapabilities(parts: McpServerOptions): ServerCapabilities {
  const { resources, prompts } = getOfferedLists(parts);
  return {
    tools: { listChanged: true },
    logging: {},
    ...(resources ? { resources: { listChanged: true, subscribe: true } } : {}),
    ...(prompts ? { prompts: { listChanged: true } } : {}),
    ...(resources || prompts ? { completions: {} } : {}),
  };
}

/** Every list is one page, so no cursor was ever given out. */
function requireFirstPage(params: { readonly cursor?: string | undefined } | undefined): void {
  if (params?.cursor === undefined) return;
  throw new ProtocolError(ProtocolErrorCode.InvalidParams, "Invalid cursor: every list is one page");
}
