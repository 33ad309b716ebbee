import {
  type Implementation,
  type JSONRPCMessage,
  type JSONRPCRequest,
  type JSONRPCResponse,
  LOG_LEVEL_META_KEY,
  type Notification,
  PROTOCOL_VERSION_META_KEY,
  ProtocolError,
  ProtocolErrorCode,
  type Request,
  type RequestOptions,
  type Result,
  Server,
  type ServerContext,
  type ServerOptions,
} from "@modelcontextprotocol/server";
import { type Abortable, toAbortSignal } from "../../core/abortable.ts";
import { omitUndefined } from "../../core/json.ts";
import type { SpanFacts, TraceCarrier } from "../../core/tracing.ts";
import { type McpSpan, type McpTelemetry, silentSpan, startMcpSpan } from "../../telemetry/mcp-span.ts";
import type { RequestContext } from "./client-dialogue.ts";
import type { GatewayEra } from "./gateway.ts";
import { type PlainCall, toResponse } from "./plain-call.ts";
import type { ServiceClient } from "./profile-service.ts";

/** Span attributes, as OpenTelemetry names them. */
export const TRANSPORT_FACTS = {
  stdio: { "network.transport": "pipe" },
  http: { "network.transport": "tcp", "network.protocol.name": "http" },
} as const satisfies Record<string, SpanFacts>;

export type CallParams = { readonly name: string; readonly arguments?: Record<string, unknown> | undefined };
type RequestHandler = (request: JSONRPCRequest, ctx: ServerContext) => Promise<Result>;

interface GatewayServerParts {
  readonly era: GatewayEra;
  readonly info: Implementation;
  readonly tracing: { telemetry: McpTelemetry; transport: "stdio" | "http"; session: string | undefined };
  getInstructions(ctx: ServerContext): Promise<string | undefined>;
  callTool(params: CallParams, ctx: RequestContext, client?: ServiceClient): Promise<Result>;
}

/** A client that has no connection: it is answered where its request came in. */
interface UnconnectedClient {
  readonly client: ServiceClient;
  /** Sends a message before the response. */
  push(message: JSONRPCMessage): void;
}

/** The requests whose answers hold the instructions. */
const OPENING_METHODS: readonly string[] = ["initialize", "server/discover"];

/** Traces every request, also those that the SDK answers itself, and adds instructions that depend on the client. */
export class GatewayServer extends Server {
  readonly #parts: GatewayServerParts;
  readonly #spans = new WeakMap<RequestContext, McpSpan>();

  constructor(options: ServerOptions, parts: GatewayServerParts) {
    super(parts.info, options);
    this.#parts = parts;
  }

  /** The trace that a request's work belongs to. Undefined: tracing is off. */
  getTrace(ctx: RequestContext): TraceCarrier | undefined {
    const carrier = this.#spans.get(ctx)?.carrier();
    return carrier?.traceparent === undefined ? undefined : carrier;
  }

  /** Answers a call without the SDK. Never rejects. `from`: absent for the client at the other end of the connection. */
  answer(call: PlainCall, signal: Abortable, from?: UnconnectedClient): Promise<JSONRPCResponse> {
    const { era, info, callTool } = this.#parts;
    const ctx = from === undefined ? this.#createContext(call, signal) : createUnconnectedContext(call, signal, from);
    const work = this.#trace("tools/call", call.params, ctx, () => callTool(call.params, ctx, from?.client));
    return toResponse(call.id, work, era, info);
  }

  protected override _wrapHandler(method: string, handler: RequestHandler): RequestHandler {
    const handle = super._wrapHandler(method, handler);
    return (request, ctx) =>
      this.#trace(method, request.params, ctx, async () => {
        const answer = await handle(request, ctx);
        if (!OPENING_METHODS.includes(method)) return answer;
        return omitUndefined({ ...answer, instructions: await this.#parts.getInstructions(ctx) });
      });
  }

  async #trace(method: string, params: unknown, ctx: RequestContext, work: () => Promise<Result>): Promise<Result> {
    const { telemetry, transport, session } = this.#parts.tracing;
    const { id, _meta, envelope, signal } = ctx.mcpReq;
    const span = startMcpSpan(telemetry, () => {
      const declared = (envelope as Readonly<Record<string, unknown>> | undefined)?.[PROTOCOL_VERSION_META_KEY];
      const version = this.getNegotiatedProtocolVersion() ?? (typeof declared === "string" ? declared : undefined);
      const connection: SpanFacts = { "mcp.protocol.version": version, ...TRANSPORT_FACTS[transport] };
      return { side: "server", method, params, id, connection, session, parent: (_meta ?? {}) as TraceCarrier };
    });
    if (span !== silentSpan) this.#spans.set(ctx, span);
    try {
      const result = await work();
      // The client no longer waits for the result.
      if (signal.aborted) span.failed("cancelled");
      else span.answered(result);
      return result;
    } catch (thrown) {
      const code = thrown instanceof ProtocolError ? thrown.code : ProtocolErrorCode.InternalError;
      span.failed(signal.aborted ? "cancelled" : code);
      throw thrown;
    }
  }

  #createContext({ id, meta, envelope }: PlainCall, signal: Abortable): RequestContext {
    const related = { relatedRequestId: id };
    const mcpReq = {
      id,
      method: "tools/call",
      ...(meta && { _meta: meta }),
      ...(envelope && { envelope }),
      requestState: () => undefined as never,
      signal,
      send: ((request: Request, options?: RequestOptions) =>
        this.request(request as never, { ...options, ...related })) as never,
      notify: (notification: Notification) => this.notification(notification, related),
    };
    // The SDK knows the level that the client asked for. Most calls log nothing.
    const log: RequestContext["mcpReq"]["log"] = (...line) => {
      const sessionId = this.transport?.sessionId;
      return this.buildContext({
        mcpReq: { ...mcpReq, signal: toAbortSignal(signal) },
        ...(sessionId === undefined ? {} : { sessionId }),
      }).mcpReq.log(...line);
    };
    return { mcpReq: { log, ...mcpReq } };
  }
}

/** From the least to the most important. */
const LOG_LEVELS: readonly unknown[] = [
  "debug",
  "info",
  "notice",
  "warning",
  "error",
  "critical",
  "alert",
  "emergency",
];

function createUnconnectedContext(
  { id, meta, envelope }: PlainCall,
  signal: Abortable,
  { push }: UnconnectedClient,
): RequestContext {
  const notify = async (notification: Notification) => push({ jsonrpc: "2.0", ...notification });
  return {
    mcpReq: {
      id,
      ...omitUndefined({ _meta: meta, envelope }),
      requestState: () => undefined as never,
      signal,
      send: () => Promise.reject(new Error("a client without a connection cannot be asked")),
      notify,
      async log(level, data, logger) {
        const least = envelope?.[LOG_LEVEL_META_KEY];
        if (least === undefined || LOG_LEVELS.indexOf(level) < LOG_LEVELS.indexOf(least)) return;
        await notify({ method: "notifications/message", params: { level, data, logger } });
      },
    },
  };
}
