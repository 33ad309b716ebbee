import { hash } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { getRequestListener, type HttpBindings, RequestError } from "@hono/node-server";
import { Hono } from "hono";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import { authorizeBearer } from "../../core/token-authorizer.ts";
import type { Gateway, GatewayLimits, GatewayListener, ListenOptions } from "./gateway.ts";
import { createRpcError, parseJsonBody, rejectTooLarge } from "./http-endpoint.ts";
import { answerPreflight, checkSource, createCorsHeaders } from "./http-guards.ts";

/** A client that does not finish its headers, or its request, in time loses its connection. In milliseconds. */
const TIMEOUTS = {
  keepAliveTimeout: 65_000,
  headersTimeout: 10_000,
  requestTimeout: 60_000,
  connectionsCheckingInterval: 5_000,
};
const CLOSING_MS = 2_000;

type ListenerParts = { limits: GatewayLimits; onProblem: (problem: string) => void } & Pick<Gateway, "fetch">;

/** Serves the gateway over HTTP. Checks come in this order: host and origin, token, number of requests, body size. */
export async function startHttpListener(parts: ListenerParts, options: ListenOptions): Promise<GatewayListener> {
  const { limits, onProblem } = parts;
  let closing = false;
  const handle = getRequestListener(createApp(parts, options).fetch as Parameters<typeof getRequestListener>[0], {
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
  const server = createServer(TIMEOUTS, (incoming, outgoing) => {
    // The connection was refused below.
    if (incoming.socket.writableEnded) return void incoming.destroy();
    outgoing.once("close", () => {
      // A connection that is kept alive for the next request would delay closing.
      if (closing) setImmediate(() => server.closeIdleConnections());
    });
    if (admit(incoming, outgoing, options)) void handle(incoming, outgoing);
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
      server.closeIdleConnections();
      const late = setTimeout(() => server.closeAllConnections(), CLOSING_MS);
      await closed;
      clearTimeout(late);
    },
  };
}

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

function createApp({ limits, onProblem, fetch }: ListenerParts, { authorize, other }: ListenOptions) {
  // Paths are compared as they were sent, like in `admit`: never decoded, never without their dots.
  const app = new Hono<{ Bindings: HttpBindings }>({ getPath: (_, given) => readPath(given?.env?.incoming) });
  const hasRoom = createRequestCounter(limits.requestsEach);

  app.use(async (c, next) => {
    await next();
    // The rest of an unread body would be taken for the next request.
    const { method, readableEnded } = c.env.incoming;
    if (method === "POST" && !readableEnded) c.res.headers.set("connection", "close");
  });
  app.all("/health", (c) => c.json({ status: "ok" }));
  app.options("/mcp", (c) => answerPreflight(c.req.header("access-control-request-headers")));
  app.all("/mcp", async (c) => {
    const { incoming, outgoing } = c.env;
    const { token, owner: profile, challenge } = authorizeBearer(incoming.headers.authorization, authorize);
    if (token === undefined || profile === undefined) {
      const headers = { "WWW-Authenticate": challenge };
      return createRpcError(401, -32000, "Unauthorized: a bearer token of a profile is needed", headers);
    }
    if (!["GET", "POST", "DELETE"].includes(c.req.method))
      return createRpcError(405, -32000, "Method not allowed.", { Allow: "GET, POST, DELETE" });
    const principal = hash("sha256", token, "hex");
    if (!hasRoom(principal, outgoing))
      return createRpcError(429, -32000, "Too Many Requests: wait for some of yours, or close their streams");
    const request = withClosedSignal(c.req.raw, outgoing);
    if (c.req.method !== "POST") return fetch(request, profile, { principal });
    const text = await readBody(incoming, limits.bodyBytes);
    if (text === undefined) return rejectTooLarge(limits.bodyBytes);
    const read = parseJsonBody(text);
    return read instanceof Response ? read : fetch(request, profile, { principal, body: read.body });
  });
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
      const left = (counts.get(principal) ?? 1) - 1;
      if (left === 0) counts.delete(principal);
      else counts.set(principal, left);
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
async function readBody(incoming: IncomingMessage, limit: number): Promise<string | undefined> {
  if (Number(incoming.headers["content-length"] ?? 0) > limit) return undefined;
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of incoming as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > limit) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, size).toString("utf8");
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
