import {
  type Implementation,
  type JSONRPCRequest,
  PROTOCOL_VERSION_META_KEY,
  ProtocolError,
  ProtocolErrorCode,
  type Result,
  Server,
  type ServerContext,
  type ServerOptions,
} from "@modelcontextprotocol/server";
import type { SpanFacts, TraceCarrier } from "../../core/tracing.ts";
import { type McpSpan, type McpTelemetry, startMcpSpan } from "../../telemetry/mcp-span.ts";

export interface ServerTracing {
  readonly telemetry: McpTelemetry;
  readonly transport: "stdio" | "http";
  /** The session's id as the client knows it. Absent: the protocol has none. */
  readonly session?: string | undefined;
}

/** A server that tells those who trace of every request it handles, also of those that the library answers. */
export class TracedServer extends Server {
  readonly #tracing: ServerTracing;
  readonly #spans = new WeakMap<ServerContext, McpSpan>();

  constructor(info: Implementation, options: ServerOptions, tracing: ServerTracing) {
    super(info, options);
    this.#tracing = tracing;
  }

  /** What work for a request is part of. Undefined where nobody traces. */
  traceOf(ctx: ServerContext): TraceCarrier | undefined {
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
        span.failed(ctx.mcpReq.signal.aborted ? "cancelled" : codeOf(thrown));
        throw thrown;
      }
    };
  }

  #start(method: string, { params }: JSONRPCRequest, { mcpReq: { id, _meta, envelope } }: ServerContext): McpSpan {
    const { telemetry, transport, session } = this.#tracing;
    const said = (envelope as Readonly<Record<string, unknown>> | undefined)?.[PROTOCOL_VERSION_META_KEY];
    const version = this.getNegotiatedProtocolVersion() ?? (typeof said === "string" ? said : undefined);
    const connection: SpanFacts = { "mcp.protocol.version": version, ...TRANSPORTS[transport] };
    const parent = (_meta ?? {}) as TraceCarrier;
    return startMcpSpan(telemetry, { side: "server", method, params, id, connection, session, parent });
  }
}

/** As those who trace call them. */
export const TRANSPORTS = {
  stdio: { "network.transport": "pipe" },
  http: { "network.transport": "tcp", "network.protocol.name": "http" },
} as const satisfies Record<string, SpanFacts>;

function codeOf(thrown: unknown): number {
  return thrown instanceof ProtocolError ? thrown.code : ProtocolErrorCode.InternalError;
}
