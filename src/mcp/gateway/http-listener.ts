import { hash } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { getRequestListener, type HttpBindings, RequestError } from "@hono/node-server";
import { Hono } from "hono";
import { yieldToEventLoop } from "../../core/async.ts";
import { Bag } from "../../core/bag.ts";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import { getOrCreate } from "../../core/json.ts";
import { authorizeBearer } from "../../core/token-authorizer.ts";
import type {
  Gateway,
  GatewayLimits,
  GatewayListener,
  GatewayProfile,
  GatewayRequestContext,
  ListenOptions,
} from "./gateway.ts";
import {
  createRpcError,
  formatTooLarge,
  type HttpCall,
  LONG_BODY_BYTES,
  PARSE_PROBLEM,
  parseJsonBody,
} from "./http-endpoint.ts";
import { answerPreflight, checkSource, createCorsHeaders } from "./http-guards.ts";

/** A client that does not finish its headers, or its request, in time loses its connection. In milliseconds. */
const TIMEOUTS = {
  keepAliveTimeout: 65_000,
  headersTimeout: 10_000,
  requestTimeout: 60_000,
  connectionsCheckingInterval: 5_000,
};
const CLOSING_MS = 2_000;

interface ListenerParts extends Pick<Gateway, "fetch"> {
  readonly limits: GatewayLimits;
  readonly onProblem: (problem: string) => void;
  /** Answers a plain call in place. False: `fetch` must answer it. */
  answer(call: HttpCall, profile: GatewayProfile): boolean;
}

/** Serves the gateway over HTTP. Checks come in this order: host and origin, token, number of requests, body size. */
export async function startHttpListener(parts: ListenerParts, options: ListenOptions): Promise<GatewayListener> {
  const { limits, onProblem } = parts;
  let closing = false;
  const open = new Bag<ServerResponse>();
  const handle = createRequestListener(onProblem, createApp(parts, options).fetch);
  const serveMcp = createMcpListener(parts, options);
  const server = createServer(TIMEOUTS, (incoming, outgoing) => {
    // The connection was refused below.
    if (incoming.socket.writableEnded) return void incoming.destroy();
    open.add(outgoing);
    outgoing.once("close", () => {
      open.delete(outgoing);
      // A connection that is kept alive for the next request would delay closing.
      if (closing) setImmediate(() => server.closeIdleConnections());
    });
    if (!admit(incoming, outgoing, options)) return;
    if (readPath(incoming) === "/mcp" && incoming.method !== "OPTIONS") serveMcp(incoming, outgoing);
    else void handle(incoming, outgoing);
  });

  const reportOften = throttle(onProblem);
  const connections = new Set<Socket>();
  // Runs before the server's own listener, which would wait for a request.
  server.prependListener("connection", (socket) => {
    connections.add(socket);
    socket.once("close", () => connections.delete(socket));
    if (connections.size <= limits.connections) return;
    reportOften(`more than ${limits.connections} connections are open: new ones are refused`);
    server.closeIdleConnections();
    socket.end(TOO_MANY_CONNECTIONS);
    socket.destroySoon();
  });

  await new Promise<void>((resolve, reject) => {
    server.once("error", (error) => reject(createListenError(options, error)));
    server.listen(options.port, options.host, resolve);
  });
  // Without a free file descriptor no connection can be accepted. The server goes on when there is one again.
  server.on("error", (error) => reportOften(`a connection could not be accepted: ${getErrorMessage(error)}`));
  const { port, address, family } = server.address() as AddressInfo;

  return {
    url: `http://${family === "IPv6" ? `[${address}]` : address}:${port}/mcp`,
    async close() {
      closing = true;
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      const busy = new Set([...open].map(({ socket }) => socket));
      // Node does not count a connection without a first request as idle.
      for (const socket of connections) if (!busy.has(socket)) socket.destroy();
      // A stream that a client listens on does not end by itself.
      for (const outgoing of open) if (isListeningStream(outgoing)) outgoing.end();
      const late = setTimeout(() => server.closeAllConnections(), CLOSING_MS);
      await closed;
      clearTimeout(late);
    },
  };
}

const isListeningStream = ({ req, headersSent }: ServerResponse): boolean =>
  headersSent && req.method === "GET" && readPath(req) === "/mcp";

const OWN_PATHS: ReadonlySet<string> = new Set(["/mcp", "/health"]);

/** Refuses a foreign host or origin, and sets the CORS headers of an allowed one. True: the request may be answered. */
function admit(incoming: IncomingMessage, outgoing: ServerResponse, options: ListenOptions): boolean {
  const { host, origin } = incoming.headers;
  const isOther = options.other !== undefined && !OWN_PATHS.has(readPath(incoming));
  const isOwnPage = isOther && [`http://${host}`, `https://${host}`, options.publicOrigin].includes(origin);
  const refusal = checkSource(incoming, isOwnPage, options);
  if (refusal !== undefined) {
    if (incoming.method === "POST") outgoing.setHeader("connection", "close");
    outgoing.writeHead(refusal.status, { "content-type": "application/json" });
    outgoing.end(JSON.stringify({ jsonrpc: "2.0", error: { code: -32000, message: refusal.message }, id: null }));
  } else if (origin !== undefined && !isOther) {
    for (const [name, value] of Object.entries(createCorsHeaders(origin))) outgoing.setHeader(name, value);
  }
  return refusal === undefined;
}

type RequestHandler = (request: Request, env: HttpBindings) => Response | Promise<Response>;

/** A listener of `node:http` for a handler of web requests. */
function createRequestListener(onProblem: ListenerParts["onProblem"], handler: RequestHandler) {
  return getRequestListener(handler as Parameters<typeof getRequestListener>[0], {
    // A host program keeps its own Request and Response classes.
    overrideGlobalObjects: false,
    // An unread body is not drained: its connection is closed.
    autoCleanupIncoming: false,
    errorHandler(thrown) {
      const headers = { connection: "close" };
      if (thrown instanceof RequestError) return createNotFound(headers);
      onProblem(`a request could not be answered: ${getErrorMessage(thrown)}`);
      return new Response(null, { status: 500, headers });
    },
  });
}

/** Serves the MCP endpoint. Plain calls are answered as they come, all else as web requests. */
function createMcpListener({ limits, onProblem, fetch, answer }: ListenerParts, { authorize }: ListenOptions) {
  const hasRoom = createRequestCounter(limits.requestsEach);
  /** By token. Only valid tokens get here. */
  const principals = new Map<string, string>();
  const admitted = new WeakMap<object, { readonly profile: GatewayProfile; readonly context: GatewayRequestContext }>();
  const handle = createRequestListener(onProblem, async (request, { incoming, outgoing }) => {
    const known = admitted.get(incoming);
    if (known === undefined) throw new QmError("internal", "a request was not admitted before it was served");
    return fetch(withClosedSignal(request, outgoing as ServerResponse), known.profile, known.context);
  });

  async function serve(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const { method, headers } = incoming;
    const { token, owner: profile, challenge } = authorizeBearer(headers.authorization, authorize);
    if (token === undefined || profile === undefined) {
      const message = "Unauthorized: a bearer token of a profile is needed";
      return refuse(incoming, outgoing, 401, -32000, message, { "www-authenticate": challenge });
    }
    if (method !== "GET" && method !== "POST" && method !== "DELETE")
      return refuse(incoming, outgoing, 405, -32000, "Method not allowed.", { allow: "GET, POST, DELETE" });
    const principal = getOrCreate(principals, token, () => hash("sha256", token, "hex"));
    if (!hasRoom(principal, outgoing)) {
      const message = "Too Many Requests: wait for some of yours, or close their streams";
      return refuse(incoming, outgoing, 429, -32000, message);
    }
    const text = method === "POST" ? await readBody(incoming, limits.bodyBytes) : undefined;
    if (method !== "POST") admitted.set(incoming, { profile, context: { principal } });
    else if (text === undefined) return refuse(incoming, outgoing, 413, -32000, formatTooLarge(limits.bodyBytes));
    else {
      const read = parseJsonBody(text);
      if (read === undefined) return refuse(incoming, outgoing, 400, -32700, PARSE_PROBLEM);
      const { body } = read;
      // Parsing a long message and handling it are two turns, so that other requests run in between.
      if (text.length >= LONG_BODY_BYTES) await yieldToEventLoop();
      if (answer({ headers, body, principal, outgoing }, profile)) return;
      admitted.set(incoming, { profile, context: { principal, body } });
    }
    await handle(incoming, outgoing);
  }

  return (incoming: IncomingMessage, outgoing: ServerResponse): void => {
    serve(incoming, outgoing).catch((error) => {
      if (outgoing.destroyed) return;
      onProblem(`a request could not be answered: ${getErrorMessage(error)}`);
      if (outgoing.headersSent) outgoing.destroy();
      else outgoing.writeHead(500, { connection: "close" }).end();
    });
  };
}

/** Answers with a JSON-RPC error without an id. */
function refuse(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  status: number,
  code: number,
  message: string,
  headers: Readonly<Record<string, string>> = {},
): void {
  const body = JSON.stringify({ jsonrpc: "2.0", error: { code, message }, id: null });
  const length = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
  // The rest of an unread body would be taken for the next request.
  const isUnread = incoming.method === "POST" && !incoming.readableEnded;
  outgoing.writeHead(status, { ...headers, ...length, ...(isUnread ? { connection: "close" } : {}) });
  outgoing.end(incoming.method === "HEAD" ? undefined : body);
}

function createApp({ onProblem }: ListenerParts, { other }: ListenOptions) {
  // Paths are compared as they were sent, like in `admit`: never decoded, never without their dots.
  const app = new Hono<{ Bindings: HttpBindings }>({ getPath: (_, given) => readPath(given?.env?.incoming) });
  app.use(async (c, next) => {
    await next();
    // The rest of an unread body would be taken for the next request.
    const { method, readableEnded } = c.env.incoming;
    if (method === "POST" && !readableEnded) c.res.headers.set("connection", "close");
  });
  app.all("/health", (c) => c.json({ status: "ok" }));
  app.options("/mcp", (c) => answerPreflight(c.req.header("access-control-request-headers")));
  if (other !== undefined) app.route("/", other);
  app.notFound(() => createNotFound());
  app.onError((error, c) => {
    if (!c.env.outgoing.destroyed) onProblem(`a request could not be answered: ${getErrorMessage(error)}`);
    return c.body(null, 500);
  });
  return app;
}

function createNotFound(headers: Record<string, string> = {}): Response {
  return createRpcError(404, -32000, "Not Found: the endpoint is /mcp", headers);
}

/** Counts the open requests of each principal. A request counts until its response has ended. */
function createRequestCounter(limit: number): (principal: string, outgoing: ServerResponse) => boolean {
  const counts = new Map<string, number>();
  return (principal, outgoing) => {
    const count = counts.get(principal) ?? 0;
    if (count >= limit) return false;
    counts.set(principal, count + 1);
    outgoing.once("close", () => {
      counts.set(principal, (counts.get(principal) ?? 1) - 1);
    });
    return true;
  };
}

/** Hono's own signal is aborted only by a client that hangs up. Sessions and subscriptions end with the response, too. */
function withClosedSignal(request: Request, outgoing: ServerResponse): Request {
  const closed = new AbortController();
  outgoing.once("close", () => closed.abort());
  return Object.defineProperty(request, "signal", { value: closed.signal });
}

/** The body as text, or undefined where it is longer than the limit. Then the rest is not read. */
function readBody(incoming: IncomingMessage, limit: number): Promise<string | undefined> {
  if (Number(incoming.headers["content-length"] ?? 0) > limit) return Promise.resolve(undefined);
  const chunks: Buffer[] = [];
  let size = 0;
  return new Promise((resolve, reject) => {
    incoming.on("data", (chunk: Buffer) => {
      size += chunk.length;
      chunks.push(chunk);
      if (size <= limit) return;
      incoming.removeAllListeners("data").pause();
      resolve(undefined);
    });
    incoming.once("end", () => {
      const [only = Buffer.alloc(0)] = chunks;
      resolve((chunks.length > 1 ? Buffer.concat(chunks, size) : only).toString("utf8"));
    });
    incoming.once("error", reject);
  });
}

const TOO_MANY_CONNECTIONS =
  "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 5\r\nContent-Length: 0\r\n\r\n";

const THROTTLE_MS = 10_000;

/** Reports at most one problem in ten seconds: thousands a second would hide everything else. */
function throttle(report: (problem: string) => void): (problem: string) => void {
  let next = 0;
  return (problem) => {
    if (performance.now() < next) return;
    next = performance.now() + THROTTLE_MS;
    report(problem);
  };
}

const readPath = (incoming: IncomingMessage | undefined): string => incoming?.url?.split("?", 1)[0] ?? "";

function createListenError({ host, port }: ListenOptions, error: Error): QmError {
  const message = `cannot listen on ${host}:${port}: ${getErrorMessage(error)}`;
  return new QmError("invalid_config", message, { hint: "Choose another port, or 0 for any free one.", cause: error });
}
