import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { Readable } from "node:stream";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import type {
  GatewayLimits,
  GatewayListener,
  GatewayProfile,
  GatewayRequestContext,
  ListenOptions,
} from "./gateway.ts";
import {
  answerPreflight,
  checkHostAndOrigin,
  checkHostCount,
  createCorsHeaders,
  createRpcErrorResponse,
  hashToken,
  parseJsonBody,
  readBearerToken,
  rejectTooLarge,
  rejectUnauthorized,
} from "./http-endpoint.ts";

/** The body of a request, or undefined where it is longer than it may be; it is not read further then. */
async function readIncomingBody(incoming: IncomingMessage, limit: number): Promise<string | undefined> {
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

/** The request as web standards have it, without its body. Its signal is aborted when the client hangs up. */
function toWebRequest(incoming: IncomingMessage, outgoing: ServerResponse, base: string): Request {
  const gone = new AbortController();
  outgoing.once("close", () => gone.abort());
  const headers = new Headers();
  for (let at = 0; at + 1 < incoming.rawHeaders.length; at += 2) {
    headers.append(incoming.rawHeaders[at] ?? "", incoming.rawHeaders[at + 1] ?? "");
  }
  return new Request(new URL(incoming.url ?? "/", base), {
    method: incoming.method ?? "GET",
    headers,
    signal: gone.signal,
  });
}

/** Writes an answer, as fast as the client takes it, and lets go of it when the client hangs up. */
async function writeResponse(
  outgoing: ServerResponse,
  response: Response,
  more: Readonly<Record<string, string>>,
): Promise<void> {
  outgoing.writeHead(response.status, { ...Object.fromEntries(response.headers), ...more });
  if (response.body === null) {
    outgoing.end();
    return;
  }
  if (!response.headers.get("content-type")?.startsWith("text/event-stream")) {
    outgoing.end(Buffer.from(await response.arrayBuffer()));
    return;
  }
  outgoing.flushHeaders();
  const reader = response.body.getReader();
  outgoing.once("close", () => void reader.cancel().catch(() => {}));
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    if (outgoing.destroyed) break;
    if (!outgoing.write(next.value)) await waitForDrain(outgoing);
  }
  outgoing.end();
}

function waitForDrain(outgoing: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const finish = () => {
      outgoing.off("drain", finish).off("close", finish);
      resolve();
    };
    outgoing.once("drain", finish).once("close", finish);
  });
}

interface HttpListenerOptions {
  readonly limits: GatewayLimits;
  readonly onProblem: (problem: string) => void;
  fetch(request: Request, profile: GatewayProfile, remote: GatewayRequestContext): Promise<Response>;
}

const KEEP_ALIVE_MS = 65_000;
/** A client that does not finish its headers, or its request, in this time is cut off, so that it holds no socket. */
const HEADERS_MS = 10_000;
const REQUEST_MS = 60_000;
const CHECK_MS = 5_000;
const CLOSING_MS = 2_000;
const OWN_PATHS: ReadonlySet<string> = new Set(["/mcp", "/health"]);

/** The gateway on a socket: who may call is checked here, in this order, before anything of a request is read. */
export async function startHttpListener(parts: HttpListenerOptions, options: ListenOptions): Promise<GatewayListener> {
  const allowed = { hosts: options.allowedHosts, origins: options.allowedOrigins };
  let closing = false;
  const settings = {
    keepAliveTimeout: KEEP_ALIVE_MS,
    headersTimeout: HEADERS_MS,
    requestTimeout: REQUEST_MS,
    connectionsCheckingInterval: CHECK_MS,
  };
  const server = createServer(settings, (incoming, outgoing) => {
    if (incoming.socket.writableEnded) {
      // Its connection was refused.
      incoming.destroy();
      return;
    }
    handleExchange(incoming, outgoing).catch((thrown: unknown) => {
      if (outgoing.destroyed) return;
      parts.onProblem(`a request could not be answered: ${getErrorMessage(thrown)}`);
      if (outgoing.headersSent) outgoing.destroy();
      else outgoing.writeHead(500).end();
    });
  });

  const problems = throttle(parts.onProblem);
  const connections = new Set<Socket>();
  // Before the server's own listener, which would wait for a request.
  server.prependListener("connection", (socket) => {
    connections.add(socket);
    socket.once("close", () => connections.delete(socket));
    if (connections.size <= parts.limits.connections) return;
    problems(`more than ${parts.limits.connections} connections are open: new ones are refused`);
    server.closeIdleConnections();
    socket.end(TOO_MANY_CONNECTIONS);
    socket.destroySoon();
  });
  const activeRequests = new Map<string, number>();
  /** Whether a principal may make one more request; it counts until its response has ended. */
  function hasRoom(principal: string, outgoing: ServerResponse): boolean {
    const count = activeRequests.get(principal) ?? 0;
    if (count >= parts.limits.requestsEach) return false;
    activeRequests.set(principal, count + 1);
    outgoing.once("close", () => {
      const left = (activeRequests.get(principal) ?? 1) - 1;
      if (left === 0) activeRequests.delete(principal);
      else activeRequests.set(principal, left);
    });
    return true;
  }

  async function handleExchange(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const { host, origin } = incoming.headers;
    const isOther = options.other !== undefined && !OWN_PATHS.has(readPath(incoming));
    const isOwnPage = isOther && isOwnOrigin(origin, [`http://${host}`, `https://${host}`, options.publicOrigin]);
    const rejection =
      checkHostCount(incoming.rawHeaders) ?? checkHostAndOrigin(isOwnPage ? { host } : incoming.headers, allowed);
    const response = rejection ?? (await answer(incoming, outgoing));
    if (outgoing.destroyed) return;
    const cors = rejection === undefined && origin !== undefined && !isOther ? createCorsHeaders(origin) : {};
    // A body that nobody read would be taken for the next request.
    const unread = incoming.readableEnded || incoming.method !== "POST" ? {} : { connection: "close" };
    await writeResponse(outgoing, response, { ...cors, ...unread });
    // What was kept open for the next request would keep us open, too.
    if (closing) setImmediate(() => server.closeIdleConnections());
  }

  async function answer(incoming: IncomingMessage, outgoing: ServerResponse): Promise<Response> {
    const path = readPath(incoming);
    if (path === "/health") return Response.json({ status: "ok" });
    if (path !== "/mcp") {
      return (
        (await answerOther(incoming, outgoing)) ??
        createRpcErrorResponse(404, -32000, "Not Found: the endpoint is /mcp")
      );
    }
    if (incoming.method === "OPTIONS") return answerPreflight(incoming.headers["access-control-request-headers"]);
    const token = readBearerToken(incoming.headers.authorization);
    const profile = token === undefined ? undefined : options.authorize(token);
    if (token === undefined || profile === undefined) return rejectUnauthorized(token !== undefined);
    if (!["GET", "POST", "DELETE"].includes(incoming.method ?? "")) {
      return createRpcErrorResponse(405, -32000, "Method not allowed.", { Allow: "GET, POST, DELETE" });
    }
    const principal = hashToken(token);
    if (!hasRoom(principal, outgoing)) {
      return createRpcErrorResponse(429, -32000, "Too Many Requests: wait for some of yours, or close their streams");
    }
    const request = toWebRequest(incoming, outgoing, url);
    if (incoming.method !== "POST") return parts.fetch(request, profile, { principal });
    const text = await readIncomingBody(incoming, parts.limits.bodyBytes);
    if (text === undefined) return rejectTooLarge(parts.limits.bodyBytes);
    const read = parseJsonBody(text);
    return read instanceof Response ? read : parts.fetch(request, profile, { principal, body: read.body });
  }

  async function answerOther(incoming: IncomingMessage, outgoing: ServerResponse): Promise<Response | undefined> {
    const { method = "GET", url: target = "/" } = incoming;
    // Neither can be said in the words of web standards, and nothing is there for them.
    if (options.other === undefined || method === "TRACE" || !URL.canParse(target, url)) return undefined;
    const request = toWebRequest(incoming, outgoing, url);
    if (method === "GET" || method === "HEAD") return options.other(request);
    // How much of it is read is for whoever answers to say.
    const body = Readable.toWeb(incoming) as ReadableStream<Uint8Array>;
    return options.other(new Request(request, { body, duplex: "half" }));
  }

  await new Promise<void>((resolve, reject) => {
    server.once("error", (error) => reject(createListenError(options, error)));
    server.listen(options.port, options.host, resolve);
  });
  // With no descriptor left a connection cannot be accepted. The next ones are, once there is one.
  server.on("error", (error) => problems(`a connection could not be accepted: ${getErrorMessage(error)}`));
  const { port, address, family } = server.address() as AddressInfo;
  const url = `http://${family === "IPv6" ? `[${address}]` : address}:${port}/mcp`;

  return {
    url,
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

const TOO_MANY_CONNECTIONS =
  "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 5\r\nContent-Length: 0\r\n\r\n";

const THROTTLE_MS = 10_000;

/** Tells of problems at most once in a while: thousands a second would hide everything else. */
function throttle(tell: (problem: string) => void): (problem: string) => void {
  let next = 0;
  return (problem) => {
    if (performance.now() < next) return;
    next = performance.now() + THROTTLE_MS;
    tell(problem);
  };
}

function readPath({ url = "" }: IncomingMessage): string {
  return url.split("?", 1)[0] ?? "";
}

function isOwnOrigin(origin: string | undefined, origins: readonly (string | undefined)[]): boolean {
  return origin !== undefined && origins.includes(origin);
}

function createListenError({ host, port }: ListenOptions, error: Error): QmError {
  return new QmError("invalid_config", `cannot listen on ${host}:${port}: ${getErrorMessage(error)}`, {
    hint: "Choose another port, or 0 for any free one.",
    cause: error,
  });
}
