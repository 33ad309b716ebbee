import { once } from "node:events";
import { request } from "node:http";
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { type Gate, openGate } from "./testing.ts";

const INITIALIZE = {
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "x", version: "1" } },
};

interface Sent {
  readonly method?: string;
  readonly path?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

interface Got {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: string;
}

/** `fetch` does not send another Host header. */
function send(gate: Gate, { method = "POST", path = "/mcp", headers = {}, body }: Sent): Promise<Got> {
  const { hostname, port } = new URL(gate.url);
  const given = { "content-type": "application/json", accept: "application/json, text/event-stream", ...headers };
  return new Promise((resolve, reject) => {
    const outgoing = request({ hostname, port, path, method, headers: given }, (incoming) => {
      let text = "";
      incoming.on("data", (chunk: Buffer) => {
        text += chunk.toString();
      });
      incoming.on("end", () => resolve({ status: incoming.statusCode ?? 0, headers: incoming.headers, body: text }));
    });
    outgoing.on("error", reject);
    outgoing.end(method === "POST" ? (body ?? JSON.stringify(INITIALIZE)) : undefined);
  });
}

const bearer = { authorization: "Bearer t" };

describe("the token", () => {
  test.each([
    ["none", {}, 'Bearer realm="quartermaster"'],
    ["a wrong one", { authorization: "Bearer wrong" }, 'Bearer realm="quartermaster", error="invalid_token"'],
    ["half of one", { authorization: "Bearer " }, 'Bearer realm="quartermaster"'],
    ["another scheme", { authorization: "Basic dDp0" }, 'Bearer realm="quartermaster"'],
  ])("is required: %s is answered 401 with a challenge", async (_which, headers, challenge) => {
    const gate = await openGate();

    const got = await send(gate, { headers });

    expect(got.status).toBe(401);
    expect(got.headers["www-authenticate"]).toBe(challenge);
    expect(got.body).not.toContain("wrong");
  });

  test("gives access, and /health needs none", async () => {
    const gate = await openGate();

    expect((await send(gate, { headers: bearer })).status).toBe(200);
    expect(await send(gate, { method: "GET", path: "/health" })).toMatchObject({
      status: 200,
      body: '{"status":"ok"}',
    });
  });

  test("is not read from the query string", async () => {
    const gate = await openGate();

    expect((await send(gate, { path: "/mcp?access_token=t" })).status).toBe(401);
  });
});

describe("the Host header", () => {
  test.each([
    "localhost",
    "localhost:1",
    "LOCALHOST:80",
    "127.0.0.1:7420",
    "[::1]",
    "[::1]:80",
    "box.test",
    "box.test:9",
    "only.test:99",
  ])("accepts %s", async (host) => {
    const gate = await openGate({ allowedHosts: ["box.test", "only.test:99"] });

    expect((await send(gate, { headers: { ...bearer, host } })).status).toBe(200);
  });

  test.each([
    "evil.test",
    "evil.test:80",
    "localhost.evil.test",
    "127.0.0.1.evil.test",
    "[::2]",
    "::1",
    "only.test",
    "only.test:98",
    "a b",
    "localhost:x",
  ])("refuses %s on every path", async (host) => {
    const gate = await openGate({ allowedHosts: ["box.test", "only.test:99"] });

    expect((await send(gate, { headers: { ...bearer, host } })).status).toBe(421);
    expect((await send(gate, { method: "GET", path: "/health", headers: { host } })).status).toBe(421);
  });
});

test.each([
  ["two Host headers", ["Host: localhost", "Host: evil.test"], "HTTP/1.1 400"],
  ["the same Host twice", ["Host: localhost", "hOST: localhost"], "HTTP/1.1 400"],
  ["no Host", [], "HTTP/1.1 400"],
  ["an odd Host", ["Host: local\thost"], "HTTP/1.1 421"],
  ["a Host with a user", ["Host: x@localhost"], "HTTP/1.1 421"],
  ["one Host", ["Host: localhost"], "HTTP/1.1 200"],
])("answers a request with %s on every path", async (_which, hosts, status) => {
  const gate = await openGate();

  for (const path of ["/health", "/v1/approvals", "/mcp"]) {
    const answer = await rawRequest(gate, [`GET ${path} HTTP/1.1`, ...hosts, "Connection: close"]);
    if (status !== "HTTP/1.1 200" || path === "/health") expect(answer.startsWith(status)).toBe(true);
  }
});

/** Node's own client does not send two `Host` headers. */
async function rawRequest(gate: Gate, lines: readonly string[]): Promise<string> {
  const { hostname, port } = new URL(gate.url);
  const socket = connect(Number(port), hostname);
  socket.end(`${lines.join("\r\n")}\r\n\r\n`);
  return text(socket);
}

describe("the Origin header", () => {
  const allowedOrigins = ["https://good.test"];

  test("may be absent or allowed, and an allowed one gets CORS headers", async () => {
    const gate = await openGate({ allowedOrigins });

    const got = await send(gate, { headers: { ...bearer, origin: "https://good.test" } });

    expect(got.status).toBe(200);
    expect(got.headers).toMatchObject({
      "access-control-allow-origin": "https://good.test",
      "access-control-expose-headers": "Mcp-Session-Id, WWW-Authenticate",
    });
    expect((await send(gate, { headers: bearer })).headers["access-control-allow-origin"]).toBeUndefined();
  });

  test.each(["https://evil.test", "null", "http://good.test", "https://good.test.evil.test", "http://localhost"])(
    "%s is refused",
    async (origin) => {
      const gate = await openGate({ allowedOrigins });

      const got = await send(gate, { headers: { ...bearer, origin } });

      expect(got.status).toBe(403);
      expect(got.headers["access-control-allow-origin"]).toBeUndefined();
    },
  );

  test("answers the preflight of an allowed page without a token", async () => {
    const gate = await openGate({ allowedOrigins });
    const asked = "authorization, mcp-protocol-version, mcp-param-region, x-other";
    const headers = { origin: "https://good.test", "access-control-request-headers": asked };

    const got = await send(gate, { method: "OPTIONS", headers });

    expect(got.status).toBe(204);
    expect(got.headers["access-control-allow-methods"]).toBe("GET, POST, DELETE");
    const allowed = String(got.headers["access-control-allow-headers"]).split(", ");
    expect(allowed).toContain("mcp-session-id");
    expect(allowed).toContain("mcp-param-region");
    expect(allowed).not.toContain("x-other");
  });
});

test("answers 404 for an unknown path and 405 for an unknown method", async () => {
  const gate = await openGate();

  expect((await send(gate, { path: "/", headers: bearer })).status).toBe(404);
  expect((await send(gate, { method: "PUT", headers: bearer })).status).toBe(405);
  expect((await send(gate, { method: "GET", headers: bearer })).status).toBe(400);
  expect((await send(gate, { method: "DELETE", headers: bearer })).status).toBe(400);
});

test("does not treat HEAD as GET", async () => {
  const gate = await openGate();

  expect(await send(gate, { method: "HEAD" })).toMatchObject({ status: 401, body: "" });
  expect(await send(gate, { method: "HEAD", headers: bearer })).toMatchObject({
    status: 405,
    headers: { allow: "GET, POST, DELETE" },
    body: "",
  });
  expect(await send(gate, { method: "HEAD", path: "/health" })).toMatchObject({ status: 200, body: "" });
});

test.each(["/%6dcp", "/x/../mcp", "/./mcp", "//mcp", "/mcp/", "/mcp;x", "/MCP", "/\\mcp"])(
  "the path %s is not /mcp",
  async (path) => {
    const gate = await openGate();

    expect((await send(gate, { path, headers: bearer })).status).toBe(404);
  },
);

test.each([
  ["/mcp", {}, 401],
  ["/mcp", { host: "evil.test" }, 421],
  ["/health", {}, 200],
  ["/nothing", {}, 404],
])("closes the connection after a POST to %s with %j whose body was not read", async (path, headers, status) => {
  const gate = await openGate();

  const got = await send(gate, { path, headers });

  expect(got).toMatchObject({ status, headers: { connection: "close" } });
});

test("keeps the connection after a body that was read", async () => {
  const gate = await openGate();

  expect((await send(gate, { headers: bearer })).headers.connection).not.toBe("close");
});

test("limits the body, with and without a Content-Length", async () => {
  const gate = await openGate({ limits: { bodyBytes: 10_000 } });
  const body = JSON.stringify({ ...INITIALIZE, padding: "x".repeat(20_000) });

  const told = await send(gate, { headers: bearer, body });
  const chunked = await send(gate, { headers: { ...bearer, "transfer-encoding": "chunked" }, body });

  expect([told.status, chunked.status]).toEqual([413, 413]);
  expect((await send(gate, { headers: bearer })).status).toBe(200);
});

test("explains that an address is taken", async () => {
  const gate = await openGate();
  const { port } = new URL(gate.url);

  const again = gate.gateway.listen({
    host: "127.0.0.1",
    port: Number(port),
    allowedHosts: [],
    allowedOrigins: [],
    authorize: () => undefined,
  });

  await expect(again).rejects.toMatchObject({ code: "invalid_config", hint: expect.stringContaining("port") });
});

test("closes at once while clients listen, and with connections that have sent nothing", async () => {
  const gate = await openGate();
  const { hostname, port } = new URL(gate.url);
  const headers = { ...bearer, accept: "text/event-stream", ...(await openSession(gate)) };
  const stream = await fetch(gate.url, { headers });
  const silent = connect(Number(port), hostname);
  await once(silent, "connect");
  // What closes connections that are still open after a while never runs.
  vi.useFakeTimers({ toFake: ["setTimeout"] });
  onTestFinished(() => void vi.useRealTimers());

  await gate.listener.close();

  expect(stream.status).toBe(200);
  expect(await stream.text()).not.toContain("data: {");
  await once(silent, "close");
});

async function openSession(gate: Gate) {
  const { headers } = await send(gate, { headers: bearer });
  return { "mcp-session-id": String(headers["mcp-session-id"]), "mcp-protocol-version": "2025-11-25" };
}
