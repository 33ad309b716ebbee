import { clip, isRecord } from "../core/json.ts";
import { type SpanFacts, silentTracer, type TraceCarrier, type Tracer } from "../core/tracing.ts";

export interface McpTelemetry {
  readonly tracer: Tracer;
  /** Milliseconds from some fixed point. */
  readonly elapsed: () => number;
}

export interface TracedRequest {
  readonly side: "client" | "server";
  readonly method: string;
  /** Untrusted. Only single fields are recorded. */
  readonly params: unknown;
  readonly id?: string | number | undefined;
  /** Facts of the connection: transport, protocol version, peer. */
  readonly connection: SpanFacts;
  readonly session?: string | undefined;
  readonly parent?: TraceCarrier | undefined;
}

/** Never throws. Ended by `answered` or `failed`. */
export interface McpSpan {
  carrier(): TraceCarrier;
  sent(id: string | number): void;
  answered(result: unknown): void;
  /** A JSON-RPC error code, or one of our error codes when no answer came. */
  failed(code: number | string): void;
}

export const silentSpan: McpSpan = { carrier: () => ({}), sent() {}, answered() {}, failed() {} };
const NAME_LIMIT = 128;
/** Errors of the caller, which do not fail a server's span. */
const CALLER_ERROR_CODES: ReadonlySet<number | string> = new Set([-32700, -32600, -32601, -32602, -32002]);
const NO_SUCH_TARGET = -32602;

/** Starts a span `{method} {target}` of the MCP conventions, and records its duration when it ends. */
export function startMcpSpan({ tracer, elapsed }: McpTelemetry, describe: () => TracedRequest): McpSpan {
  if (tracer === silentTracer) return silentSpan;
  const { side, method, params, id, connection, session, parent } = describe();
  const began = elapsed();
  const operation: SpanFacts = {
    "mcp.method.name": method,
    ...(method === "tools/call" ? { "gen_ai.operation.name": "execute_tool" } : {}),
    ...connection,
  };
  const target = readTarget(method, params);
  const [named] = Object.values(target);
  const facts: SpanFacts = {
    ...operation,
    ...target,
    "mcp.session.id": session,
    "mcp.resource.uri": readUri(params),
    "jsonrpc.request.id": id === undefined ? undefined : clip(String(id), NAME_LIMIT),
  };
  const span = tracer.start(named === undefined ? method : `${method} ${named}`, side, facts, parent);

  function end(facts: SpanFacts, isTarget = true): void {
    const all = { ...operation, ...(isTarget ? target : {}), ...facts };
    tracer.took(`mcp.${side}.operation.duration`, Math.max(0, elapsed() - began) / 1000, all);
    span.end();
  }

  return {
    carrier: span.carrier,
    sent: (given) => span.set({ "jsonrpc.request.id": String(given) }),
    answered(result) {
      const isError = method === "tools/call" && isRecord(result) && result.isError === true;
      if (!isError) return end({});
      span.fail("tool_error");
      end({ "error.type": "tool_error" });
    },
    failed(code) {
      const status = typeof code === "number" ? { "rpc.response.status_code": String(code) } : {};
      const isError = side === "client" || !CALLER_ERROR_CODES.has(code);
      span.set(status);
      if (isError) span.fail(String(code));
      // Unknown names would create a time series each, so the metric leaves them out.
      end({ ...status, ...(isError ? { "error.type": String(code) } : {}) }, code !== NO_SUCH_TARGET);
    },
  };
}

function readTarget(method: string, params: unknown): Readonly<Record<string, string>> {
  const name = isRecord(params) ? params.name : undefined;
  if (typeof name !== "string") return {};
  if (method === "tools/call") return { "gen_ai.tool.name": clip(name, NAME_LIMIT) };
  return method === "prompts/get" ? { "gen_ai.prompt.name": clip(name, NAME_LIMIT) } : {};
}

/** Without credentials, query and fragment, which may hold secrets. */
function readUri(params: unknown): string | undefined {
  const uri = isRecord(params) ? params.uri : undefined;
  if (typeof uri !== "string") return undefined;
  const anonymous = clip(uri, 1024).replace(/^([a-z][a-z0-9+.-]*:\/\/)[^/?#]*@/i, "$1");
  return anonymous.replace(/[?#].*$/s, "");
}
