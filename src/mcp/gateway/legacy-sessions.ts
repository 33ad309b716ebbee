import {
  isInitializeRequest,
  isJSONRPCErrorResponse,
  isJSONRPCResultResponse,
  type JSONRPCMessage,
  WebStandardStreamableHTTPServerTransport,
} from "@modelcontextprotocol/server";
import { onAbort } from "../../core/async.ts";
import { isRecord } from "../../core/json.ts";
import type { Runtime } from "../../core/runtime.ts";
import { parseSessionName, SESSION_HEADER } from "./client-sessions.ts";
import type { GatewayLimits } from "./gateway.ts";
import { createRpcError } from "./http-endpoint.ts";
import type { ProfileEndpoint } from "./profile-endpoint.ts";

export type LegacySessions = ReturnType<typeof createLegacySessions>;

interface LegacySession {
  readonly id: string;
  readonly transport: SessionTransport;
  /** Only the principal that opened a session may use it. */
  readonly principal: string;
  readonly profile: string;
  lastSeen: number;
  /** Open streams for messages from the server. */
  streams: number;
}

const SWEEP_MS = 30_000;

/** The HTTP sessions of the legacy era. A session ends when its client says so, or is idle for too long. */
export function createLegacySessions(runtime: Runtime, limits: GatewayLimits) {
  const sessions = new Map<string, LegacySession>();
  const sweeper = setInterval(sweep, Math.min(SWEEP_MS, limits.sessionIdleMs));
  sweeper.unref();

  const isIdle = ({ streams, transport }: LegacySession) => streams === 0 && transport.open.size === 0;

  function sweep(): void {
    const before = runtime.elapsed() - limits.sessionIdleMs;
    for (const session of sessions.values()) if (isIdle(session) && session.lastSeen < before) end(session);
  }

  function end(session: LegacySession): void {
    sessions.delete(session.id);
    session.transport.close().catch(() => {});
  }

  /** Whether a principal may open a session. At the limit its own longest idle one ends, never another principal's. */
  function hasRoom(principal: string): boolean {
    const own = [...sessions.values()].filter((session) => session.principal === principal);
    if (own.length < limits.sessionsEach && sessions.size < limits.sessions) return true;
    const [idle] = own.filter(isIdle).sort((a, b) => a.lastSeen - b.lastSeen);
    if (idle !== undefined) end(idle);
    return idle !== undefined;
  }

  async function begin(endpoint: ProfileEndpoint, request: Request, body: unknown, principal: string) {
    const name = parseSessionName(request.headers.get(SESSION_HEADER));
    if (!hasRoom(principal))
      return createRpcError(503, -32000, "Too many sessions are open; close one, or try again later");
    const id = runtime.newId();
    const transport = new SessionTransport({ sessionIdGenerator: () => id, maxRequestBodySize: limits.bodyBytes });
    const { server, close } = endpoint.connect("legacy", "http", id, { principal, account: principal, name });
    await server.connect(transport);
    server.onclose = () => {
      sessions.delete(id);
      close();
    };
    const profile = endpoint.profile.name;
    const session = { id, transport, principal, profile, lastSeen: runtime.elapsed(), streams: 0 };
    sessions.set(id, session);
    const response = await transport.handleRequest(request, { parsedBody: body });
    if (!response.ok) end(session);
    return response;
  }

  return {
    async serve(endpoint: ProfileEndpoint, request: Request, body: unknown, principal: string): Promise<Response> {
      const id = request.headers.get("mcp-session-id");
      if (id === null) {
        if (isInitializeRequest(body)) return begin(endpoint, request, body, principal);
        return createRpcError(400, -32000, "Bad Request: no session; initialize first, then send Mcp-Session-Id");
      }
      const session = sessions.get(id);
      if (session === undefined || session.principal !== principal || session.profile !== endpoint.profile.name)
        return createRpcError(404, -32001, "Session not found");
      session.lastSeen = runtime.elapsed();
      if (hasRepeatedId(body, session.transport.open))
        return createRpcError(400, -32600, "Invalid Request: a request with this id is still being answered");
      const response = await session.transport.handleRequest(request, { parsedBody: body });
      if (request.method === "GET" && response.ok && !request.signal.aborted) {
        session.streams++;
        onAbort(request.signal, () => session.streams--);
      }
      return response;
    },
    async close(): Promise<void> {
      clearInterval(sweeper);
      await Promise.all([...sessions.values()].map(({ transport }) => transport.close()));
    },
  };
}

/** Two requests with one id would be answered on each other's streams. */
function hasRepeatedId(body: unknown, open: ReadonlySet<unknown>): boolean {
  const ids = [body].flat().flatMap((message) => (isRecord(message) && "method" in message ? (message.id ?? []) : []));
  return new Set(ids).size < ids.length || ids.some((id) => open.has(id));
}

/** Tracks the requests that are not answered yet, and ends the stream of a cancelled one, which gets no answer. */
class SessionTransport extends WebStandardStreamableHTTPServerTransport {
  readonly open = new Set<unknown>();

  override async handleRequest(
    ...[request, options]: Parameters<WebStandardStreamableHTTPServerTransport["handleRequest"]>
  ) {
    const messages = [options?.parsedBody].flat().filter(isRecord);
    for (const { id, method } of messages) if (typeof method === "string" && id !== undefined) this.open.add(id);
    const response = await super.handleRequest(request, options);
    if (!response.ok) for (const { id } of messages) this.open.delete(id);
    for (const { method, params } of messages) {
      if (method === "notifications/cancelled" && isRecord(params)) this.#cancel(params.requestId);
    }
    return response;
  }

  override async send(message: JSONRPCMessage, options?: { relatedRequestId?: string | number }): Promise<void> {
    if (isJSONRPCResultResponse(message) || isJSONRPCErrorResponse(message)) this.open.delete(message.id);
    await super.send(toLegacyMessage(message), options);
  }

  #cancel(id: unknown): void {
    if (typeof id !== "string" && typeof id !== "number") return;
    this.open.delete(id);
    this.closeSSEStream(id);
  }
}

/** An unknown resource is -32002 in the legacy era. The SDK sends the code of the modern era, -32602. */
export function toLegacyMessage(message: JSONRPCMessage): JSONRPCMessage {
  if (!isJSONRPCErrorResponse(message) || message.error.code !== -32602) return message;
  const { data } = message.error;
  const names = isRecord(data) ? Object.keys(data) : [];
  if (names.length !== 1 || names[0] !== "uri") return message;
  return { ...message, error: { ...message.error, code: -32002 } };
}
