import type { IncomingHttpHeaders, ServerResponse } from "node:http";
import {
  isInitializeRequest,
  isJSONRPCErrorResponse,
  isJSONRPCResultResponse,
  type JSONRPCMessage,
  WebStandardStreamableHTTPServerTransport,
} from "@modelcontextprotocol/server";
import { LazyAbortController } from "../../core/abortable.ts";
import { onAbort } from "../../core/async.ts";
import { Bag } from "../../core/bag.ts";
import { isRecord } from "../../core/json.ts";
import type { Runtime } from "../../core/runtime.ts";
import { parseSessionName, SESSION_HEADER } from "./client-sessions.ts";
import type { GatewayLimits } from "./gateway.ts";
import type { GatewayServer } from "./gateway-server.ts";
import { createRpcError } from "./http-endpoint.ts";
import { HttpAnswer, type PlainCall, toLegacyMessage } from "./plain-call.ts";
import type { ProfileEndpoint } from "./profile-endpoint.ts";

export type LegacySessions = ReturnType<typeof createLegacySessions>;

interface LegacySession {
  readonly id: string;
  readonly transport: SessionTransport;
  readonly server: GatewayServer;
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
    const session = { id, transport, server, principal, profile, lastSeen: runtime.elapsed(), streams: 0 };
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
    /** Answers a plain call of a session. False: `serve` must answer the request. */
    answer(
      endpoint: ProfileEndpoint,
      call: PlainCall,
      headers: IncomingHttpHeaders,
      principal: string,
      outgoing: ServerResponse,
    ): boolean {
      const session = sessions.get(String(headers["mcp-session-id"]));
      if (session?.principal !== principal || session.profile !== endpoint.profile.name) return false;
      const { transport, server } = session;
      const negotiated = server.getNegotiatedProtocolVersion();
      const { "mcp-protocol-version": version = negotiated } = headers;
      if (version === undefined || version !== negotiated || transport.open.has(call.id)) return false;
      session.lastSeen = runtime.elapsed();
      const answer = new HttpAnswer(outgoing);
      // A response that cannot be written is not sent. The client must not wait for it.
      transport.answer(server, call, answer).catch(() => answer.drop());
      return true;
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

/** Tracks the requests that are not answered yet, and ends the answer to a cancelled one, which gets no response. */
class SessionTransport extends WebStandardStreamableHTTPServerTransport {
  readonly open = new Set<unknown>();
  /** The plain ones among them. */
  readonly #calls = new Bag<{
    readonly id: unknown;
    readonly answer: HttpAnswer;
    readonly stop: LazyAbortController;
  }>();

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

  async answer(server: GatewayServer, call: PlainCall, answer: HttpAnswer): Promise<void> {
    const stop = new LazyAbortController();
    this.open.add(call.id);
    const running = { id: call.id, answer, stop };
    this.#calls.add(running);
    const response = await server.answer(call, stop);
    if (stop.aborted) return;
    this.open.delete(call.id);
    this.#calls.delete(running);
    answer.end(response);
  }

  override async send(message: JSONRPCMessage, options?: { relatedRequestId?: string | number }): Promise<void> {
    const related = options?.relatedRequestId;
    const call = related === undefined ? undefined : this.#calls.find(({ id }) => id === related);
    if (call !== undefined) return call.answer.push(message);
    if (isJSONRPCResultResponse(message) || isJSONRPCErrorResponse(message)) this.open.delete(message.id);
    await super.send(toLegacyMessage(message), options);
  }

  override async close(): Promise<void> {
    for (const { id } of this.#calls) this.#cancel(id);
    await super.close();
  }

  #cancel(id: unknown): void {
    if (typeof id !== "string" && typeof id !== "number") return;
    this.open.delete(id);
    this.closeSSEStream(id);
    const call = this.#calls.find((each) => each.id === id);
    if (call === undefined) return;
    this.#calls.delete(call);
    call.stop.abort();
    call.answer.drop();
  }
}
