import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { Readable } from "node:stream";
import { messageOf, QmError } from "../../core/errors.ts";
import { corsHeaders, preflight } from "./cors.ts";
import type { GatewayLimits, GatewayProfile, Listening, ListenOptions, Remote } from "./gateway.ts";
import { bearerToken, principalOf, refusedHostCount, refusedPlace, unauthorized } from "./guards.ts";
import { parsedBody, tooLarge } from "./http.ts";
import { bodyText, webRequest, writeResponse } from "./node-exchange.ts";
import { rpcError } from "./rpc-error.ts";

export interface ListenParts {
  readonly limits: GatewayLimits;
  readonly onProblem: (problem: string) => void;
  fetch(request: Request, profile: GatewayProfile, remote: Remote): Promise<Response>;
}

const KEEP_ALIVE_MS = 65_000;
/** A client that does not finish its headers, or its request, in this time is cut off, so that it holds no socket. */
const HEADERS_MS = 10_000;
const REQUEST_MS = 60_000;
const CHECK_MS = 5_000;
const CLOSING_MS = 2_000;
const OWN_PATHS: ReadonlySet<string> = new Set(["/mcp", "/health"]);

/** The gateway on a socket: who may call is checked here, in this order, before anything of a request is read. */
export async function listen(parts: ListenParts, options: ListenOptions): Promise<Listening> {
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
    exchange(incoming, outgoing).catch((thrown: unknown) => {
      if (outgoing.destroyed) return;
      parts.onProblem(`a request could not be answered: ${messageOf(thrown)}`);
      if (outgoing.headersSent) outgoing.destroy();
      else outgoing.writeHead(500).end();
    });
  });

  const problems = occasionally(parts.onProblem);
  const connections = new Set<Socket>();
  // Before the server's own listener, which would wait for a request.
  server.prependListener("connection", (socket) => {
    connections.add(socket);
    socket.once("close", () => connections.delete(socket));
    if (connections.size <= parts.limits.connections) return;
    problems(`more than ${parts.limits.connections} connections are open: new ones are refused`);
    server.closeIdleConnections();
    socket.end(REFUSED);
    socket.destroySoon();
  });
  const underWay = new Map<string, number>();
  /** Whether a principal may make one more request; it counts until its response has ended. */
  function hasRoom(principal: string, outgoing: ServerResponse): boolean {
    const count = underWay.get(principal) ?? 0;
    if (count >= parts.limits.requestsEach) return false;
    underWay.set(principal, count + 1);
    outgoing.once("close", () => {
      const left = (underWay.get(principal) ?? 1) - 1;
      if (left === 0) underWay.delete(principal);
      else underWay.set(principal, left);
    });
    return true;
  }

  async function exchange(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const { host, origin } = incoming.headers;
    const isOther = options.other !== undefined && !OWN_PATHS.has(pathOf(incoming));
    const isOwnPage = isOther && isPageOf(origin, [`http://${host}`, `https://${host}`, options.publicOrigin]);
    const refused =
      refusedHostCount(incoming.rawHeaders) ?? refusedPlace(isOwnPage ? { host } : incoming.headers, allowed);
    const response = refused ?? (await answer(incoming, outgoing));
    if (outgoing.destroyed) return;
    const cors = refused === undefined && origin !== undefined && !isOther ? corsHeaders(origin) : {};
    // A body that nobody read would be taken for the next request.
    const unread = incoming.readableEnded || incoming.method !== "POST" ? {} : { connection: "close" };
    await writeResponse(outgoing, response, { ...cors, ...unread });
    // What was kept open for the next request would keep us open, too.
    if (closing) setImmediate(() => server.closeIdleConnections());
  }

  async function answer(incoming: IncomingMessage, outgoing: ServerResponse): Promise<Response> {
    const path = pathOf(incoming);
    if (path === "/health") return Response.json({ status: "ok" });
    if (path !== "/mcp") {
      return (await answerOther(incoming, outgoing)) ?? rpcError(404, -32000, "Not Found: the endpoint is /mcp");
    }
    if (incoming.method === "OPTIONS") return preflight(incoming.headers["access-control-request-headers"]);
    const token = bearerToken(incoming.headers.authorization);
    const profile = token === undefined ? undefined : options.authorize(token);
    if (token === undefined || profile === undefined) return unauthorized(token !== undefined);
    if (!["GET", "POST", "DELETE"].includes(incoming.method ?? "")) {
      return rpcError(405, -32000, "Method not allowed.", { Allow: "GET, POST, DELETE" });
    }
    const principal = principalOf(token);
    if (!hasRoom(principal, outgoing)) {
      return rpcError(429, -32000, "Too Many Requests: wait for some of yours, or close their streams");
    }
    const request = webRequest(incoming, outgoing, url);
    if (incoming.method !== "POST") return parts.fetch(request, profile, { principal });
    const text = await bodyText(incoming, parts.limits.bodyBytes);
    if (text === undefined) return tooLarge(parts.limits.bodyBytes);
    const read = parsedBody(text);
    return read instanceof Response ? read : parts.fetch(request, profile, { principal, body: read.body });
  }

  async function answerOther(incoming: IncomingMessage, outgoing: ServerResponse): Promise<Response | undefined> {
    const { method = "GET", url: target = "/" } = incoming;
    // Neither can be said in the words of web standards, and nothing is there for them.
    if (options.other === undefined || method === "TRACE" || !URL.canParse(target, url)) return undefined;
    const request = webRequest(incoming, outgoing, url);
    if (method === "GET" || method === "HEAD") return options.other(request);
    // How much of it is read is for whoever answers to say.
    const body = Readable.toWeb(incoming) as ReadableStream<Uint8Array>;
    return options.other(new Request(request, { body, duplex: "half" }));
  }

  await new Promise<void>((resolve, reject) => {
    server.once("error", (error) => reject(cannotListen(options, error)));
    server.listen(options.port, options.host, resolve);
  });
  // With no descriptor left a connection cannot be accepted. The next ones are, once there is one.
  server.on("error", (error) => problems(`a connection could not be accepted: ${messageOf(error)}`));
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

const REFUSED = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 5\r\nContent-Length: 0\r\n\r\n";

const AGAIN_MS = 10_000;

/** Tells of problems at most once in a while: thousands a second would hide everything else. */
function occasionally(tell: (problem: string) => void): (problem: string) => void {
  let next = 0;
  return (problem) => {
    if (performance.now() < next) return;
    next = performance.now() + AGAIN_MS;
    tell(problem);
  };
}

function pathOf({ url = "" }: IncomingMessage): string {
  return url.split("?", 1)[0] ?? "";
}

function isPageOf(origin: string | undefined, origins: readonly (string | undefined)[]): boolean {
  return origin !== undefined && origins.includes(origin);
}

function cannotListen({ host, port }: ListenOptions, error: Error): QmError {
  return new QmError("invalid_config", `cannot listen on ${host}:${port}: ${messageOf(error)}`, {
    hint: "Choose another port, or 0 for any free one.",
    cause: error,
  });
}
