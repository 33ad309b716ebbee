import { connect } from "node:net";
import { describe, expect, test, vi } from "vitest";
import { ANN, type Got, openTestApi } from "./testing.ts";

const VIC = { authorization: "Bearer vic-token" };
const asJson = { ...ANN, "content-type": "application/json" };

type TestApi = Awaited<ReturnType<typeof openTestApi>>;

function answer(api: TestApi, id: string, body: unknown, headers: Record<string, string> = asJson): Promise<Got> {
  return api.send(`/v1/approvals/${id}`, {
    method: "POST",
    headers,
    body: typeof body === "string" || Buffer.isBuffer(body) ? body : JSON.stringify(body),
  });
}

const parsed = ({ body }: Got) => JSON.parse(body) as Record<string, unknown>;

describe("the token", () => {
  test.each([
    ["none", {}, 'Bearer realm="quartermaster"'],
    ["a wrong one", { authorization: "Bearer wrong" }, 'Bearer realm="quartermaster", error="invalid_token"'],
    [
      "the beginning of one",
      { authorization: "Bearer ann-toke" },
      'Bearer realm="quartermaster", error="invalid_token"',
    ],
    ["another scheme", { authorization: "Basic ann-token" }, 'Bearer realm="quartermaster"'],
  ])("is required everywhere: %s", async (_which, headers, challenge) => {
    const api = await openTestApi();
    const { id } = api.approvals.ask();

    for (const path of ["", `/${id}`, `/${id}/outcome`, "/events", "/nothing/at/all"]) {
      const got = await api.send(`/v1/approvals${path}`, { headers });

      expect(got).toMatchObject({ status: 401, headers: { "www-authenticate": challenge } });
      expect(got.body).not.toContain(id);
    }
    expect((await answer(api, id, { decision: "approve" }, headers)).status).toBe(401);
    expect(await api.approvals.get(id)).toMatchObject({ state: "pending" });
  });

  test("is not read from the query string", async () => {
    const api = await openTestApi();

    expect((await api.send("/v1/approvals?access_token=ann-token")).status).toBe(401);
  });
});

describe("the list", () => {
  test("has all approvals, oldest first, in pages", async () => {
    const api = await openTestApi();
    const ids = [1, 2, 3].map(() => api.approvals.ask().id);

    const first = parsed(await api.send("/v1/approvals?limit=2", { headers: VIC }));
    const second = parsed(await api.send(`/v1/approvals?limit=2&after=${first.next}`, { headers: VIC }));

    expect(first).toMatchObject({ items: [{ id: ids[0] }, { id: ids[1] }], next: ids[1] });
    expect(second).toMatchObject({ items: [{ id: ids[2] }] });
    expect(second).not.toHaveProperty("next");
  });

  test("can be filtered by state, session, user and action", async () => {
    const api = await openTestApi();
    api.approvals.ask({ session: "one", user: "eve" });
    api.approvals.ask({ session: "two", action: "file__write" });
    api.approvals.ask({ session: "two", state: "denied" });
    const count = async (query: string) =>
      (parsed(await api.send(`/v1/approvals?${query}`, { headers: ANN })).items as unknown[]).length;

    expect(await count("session=two")).toBe(2);
    expect(await count("session=two&state=pending")).toBe(1);
    expect(await count("state=pending,denied")).toBe(3);
    expect(await count("state=pending&state=denied")).toBe(3);
    expect(await count("action=file__write")).toBe(1);
    expect(await count("user=eve")).toBe(1);
  });

  test.each(["state=open", "limit=0", "limit=501", "limit=-1", "limit=1e2", "sesion=x", "limit=1&limit=2", "state="])(
    "refuses %s",
    async (query) => {
      const api = await openTestApi();

      const got = await api.send(`/v1/approvals?${query}`, { headers: ANN });

      expect(got.status).toBe(422);
      expect(parsed(got)).toMatchObject({ code: "invalid_arguments" });
    },
  );
});

describe("an answer", () => {
  test("approves, and the call runs once", async () => {
    const api = await openTestApi();
    const { id } = api.approvals.ask();

    const got = await answer(api, id, { decision: "approve", reason: "fine" });

    expect(got.status).toBe(200);
    expect(parsed(got)).toMatchObject({
      state: "approved",
      answer: { decision: "approved", by: "ann", via: "http", reason: "fine" },
    });
    await vi.waitFor(() => expect(api.approvals.runs).toEqual([id]));
  });

  test("denies, and nothing runs", async () => {
    const api = await openTestApi();
    const { id } = api.approvals.ask();

    expect(parsed(await answer(api, id, { decision: "deny" }))).toMatchObject({ state: "denied" });
    expect(await api.approvals.run()).toBe(0);
  });

  test("counts once, and the second approver learns who was first", async () => {
    const api = await openTestApi({ roles: { ann: ["approver"], bob: ["admin"] } });
    const { id } = api.approvals.ask();
    const bob = { ...asJson, authorization: "Bearer bob-token" };

    const both = await Promise.all([
      answer(api, id, { decision: "approve" }),
      answer(api, id, { decision: "deny" }, bob),
    ]);

    expect(both.map(({ status }) => status).sort()).toEqual([200, 409]);
    const [first, second] = both[0]?.status === 200 ? ["ann", both[1]] : ["bob", both[0]];
    expect(parsed(second as Got)).toMatchObject({ code: "conflict", error: expect.stringContaining(first), by: first });
  });

  test("needs a role that may approve", async () => {
    const api = await openTestApi();
    const { id } = api.approvals.ask();

    const got = await answer(api, id, { decision: "approve" }, { ...asJson, ...VIC });

    expect(got.status).toBe(403);
    expect(await api.approvals.get(id)).toMatchObject({ state: "pending" });
    expect(api.approvals.runs).toEqual([]);
  });

  test("is refused after the approval has expired", async () => {
    const api = await openTestApi();
    const { id } = api.approvals.ask({ expiresAt: "2020-01-01T00:00:00.000Z" });

    const got = await answer(api, id, { decision: "approve" });

    expect(got.status).toBe(409);
    expect(parsed(got)).toMatchObject({ code: "approval_expired" });
  });

  test.each<[string, unknown]>([
    ["nothing", ""],
    ["garbage", "{"],
    ["a list", []],
    ["null", "null"],
    ["no decision", {}],
    ["another decision", { decision: "approved" }],
    ["a decision of the prototype", '{"__proto__":{"decision":"approve"}}'],
    ["a field that means nothing", { decision: "approve", id: "x" }],
    ["a field of the prototype beside it", '{"decision":"approve","__proto__":{}}'],
    ["a reason that is none", { decision: "approve", reason: {} }],
    ["an endless reason", { decision: "approve", reason: "x".repeat(501) }],
    ["depth", "[".repeat(60_000)],
  ])("of %s is refused", async (_which, body) => {
    const api = await openTestApi();
    const { id } = api.approvals.ask();

    const got = await answer(api, id, body);

    expect(got.status).toBe(422);
    expect(parsed(got)).toMatchObject({ code: "invalid_arguments", hint: expect.stringContaining("decision") });
    expect(await api.approvals.get(id)).toMatchObject({ state: "pending" });
  });

  test.each(["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonx", ""])(
    "as %j is refused",
    async (type) => {
      const api = await openTestApi();
      const { id } = api.approvals.ask();

      const got = await answer(api, id, { decision: "approve" }, { ...ANN, "content-type": type });

      expect(got.status).toBe(415);
    },
  );

  test("that is not UTF-8 is refused", async () => {
    const api = await openTestApi();
    const { id } = api.approvals.ask();
    const body = Buffer.concat([
      Buffer.from('{"decision":"approve","reason":"'),
      Buffer.from([0xff, 0xfe]),
      Buffer.from('"}'),
    ]);

    expect((await answer(api, id, body)).status).toBe(415);
  });

  test("has a limited body, with and without a Content-Length", async () => {
    const api = await openTestApi();
    const { id } = api.approvals.ask();
    const body = JSON.stringify({ decision: "approve", reason: "x".repeat(70_000) });

    const told = await answer(api, id, body);
    const chunked = await answer(api, id, body, { ...asJson, "transfer-encoding": "chunked" });

    expect([told.status, chunked.status]).toEqual([413, 413]);
    expect(told.headers.connection).toBe("close");
    expect((await answer(api, id, { decision: "deny" })).status).toBe(200);
  });
});

describe("an outcome", () => {
  test("is waited for as long as requested, and less than a minute", async () => {
    const api = await openTestApi();
    const { id } = api.approvals.ask();
    const outcome = (query: string) => api.send(`/v1/approvals/${id}/outcome${query}`, { headers: VIC });

    expect(parsed(await outcome(""))).toMatchObject({ status: "waiting" });
    expect(parsed(await outcome("?wait_ms=20"))).toMatchObject({ status: "waiting" });
    const waiting = outcome("?wait_ms=55000");
    await vi.waitFor(() => expect(api.approvals.listeners).toBe(1));
    await answer(api, id, { decision: "approve" });

    expect(parsed(await waiting)).toMatchObject({ status: "done", data: { sent: true } });
    expect(parsed(await waiting)).not.toHaveProperty("value");
    expect((await outcome("?wait_ms=55001")).status).toBe(422);
    expect((await outcome("?wait_ms=x")).status).toBe(422);
  });

  test("is no longer waited for when the client has hung up", async () => {
    const api = await openTestApi();
    const { id } = api.approvals.ask();
    const gone = new AbortController();
    const url = `${api.origin}/v1/approvals/${id}/outcome?wait_ms=55000`;
    const waiting = fetch(url, { headers: VIC, signal: gone.signal }).catch(() => "gone");
    await vi.waitFor(() => expect(api.approvals.listeners).toBe(1));

    gone.abort();

    expect(await waiting).toBe("gone");
    await vi.waitFor(() => expect(api.approvals.listeners).toBe(0));
    expect((await answer(api, id, { decision: "deny" })).status).toBe(200);
    expect(api.problems).toEqual([]);
  });
});

describe("the stream of changes", () => {
  async function stream(api: TestApi) {
    const gone = new AbortController();
    const response = await fetch(`${api.origin}/v1/approvals/events`, { headers: VIC, signal: gone.signal });
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    let text = "";
    return {
      response,
      gone,
      reader,
      async until(part: string) {
        while (!text.includes(part)) {
          const { done, value } = await reader.read();
          if (done) throw new Error(`ended before ${part}: ${text}`);
          text += Buffer.from(value).toString();
        }
        return text;
      },
    };
  }

  test("sends every change in one data line", async () => {
    const api = await openTestApi();
    const { response, until } = await stream(api);

    const { id } = api.approvals.ask({ preview: "a\n\ndata: forged\n\nevent: x" });
    await answer(api, id, { decision: "deny" });
    const text = await until("denied");

    expect(response.headers.get("content-type")).toBe("text/event-stream");
    const data = [...text.matchAll(/^data: (.*)$/gm)].map(([, line = ""]) => JSON.parse(line) as { state: string });
    expect(data.map(({ state }) => state)).toEqual(["pending", "denied"]);
    expect(text.match(/^event: .*$/gm)).toEqual(["event: approval", "event: approval"]);
  });

  test("ends with the client's connection, and with the server", async () => {
    const api = await openTestApi();
    const one = await stream(api);
    const other = await stream(api);
    expect(api.approvals.listeners).toBe(2);

    one.gone.abort();
    await vi.waitFor(() => expect(api.approvals.listeners).toBe(1));
    api.closing.abort();
    await other.until("retry");

    expect((await other.reader.read()).done).toBe(true);
    expect(api.approvals.listeners).toBe(0);
  });
});

test.each([
  ["DELETE", "", "GET"],
  ["POST", "", "GET"],
  ["POST", "/events", "GET"],
  ["POST", "/x/outcome", "GET"],
  ["PUT", "/x", "GET, POST"],
  ["OPTIONS", "/x", "GET, POST"],
  ["HEAD", "/x", "GET, POST"],
  ["HEAD", "/events", "GET"],
])("answers %s of %j with 405 and the allowed methods", async (method, path, allow) => {
  const api = await openTestApi();

  const got = await api.send(`/v1/approvals${path}`, { method, headers: ANN });

  expect(got).toMatchObject({ status: 405, headers: { allow } });
});

test.each(["/x/y", "/x/outcome/y", "/%ff", "/x/outcome/", "/unknown", "/__proto__", "//", "/events/outcome"])(
  "answers 404 for %s",
  async (path) => {
    const api = await openTestApi();

    const got = await api.send(`/v1/approvals${path}`, { headers: ANN });

    expect(got.status).toBe(404);
    expect(parsed(got)).toMatchObject({ code: "not_found" });
  },
);

test("responses are not cached, and foreign pages cannot read them", async () => {
  const api = await openTestApi();
  const headersOf = async (headers = {}) =>
    (await api.send("/v1/approvals", { headers: { ...ANN, ...headers } })).headers;

  expect(await headersOf()).toMatchObject({ "cache-control": "no-store", "x-content-type-options": "nosniff" });
  expect(await headersOf({ origin: api.origin })).not.toHaveProperty("access-control-allow-origin");
});

describe("the listener in front", () => {
  test.each(["/", "/v1", "/v1/approvalsx", "/approve/x", "//", "//evil.test/v1/approvals", "http://["])(
    "answers 404 for %s",
    async (path) => {
      const api = await openTestApi();

      const got = await api.send(path, { method: path === "/" ? "TRACE" : "GET", headers: {} });

      expect(got.status).toBe(404);
      expect(api.problems).toEqual([]);
    },
  );

  test.each([
    [{ host: "evil.test" }, 421],
    [{ origin: "https://evil.test" }, 403],
    [{ origin: "null" }, 403],
    [{ origin: "http://localhost:1" }, 403],
    [{ origin: "https://qm.example.com" }, 200],
    [{ origin: "http://localhost:7420", host: "localhost:7420" }, 200],
    [{ origin: "https://localhost:7420", host: "localhost:7420" }, 200],
    [{ origin: "http://evil.test", host: "evil.test" }, 421],
  ])("%j is answered %d", async (headers, status) => {
    const api = await openTestApi();

    expect((await api.send("/v1/approvals", { headers: { ...ANN, ...headers } })).status).toBe(status);
  });

  test("our own origin gives no access to /mcp and /health", async () => {
    const api = await openTestApi();

    for (const path of ["/mcp", "/health"])
      expect((await api.send(path, { headers: { origin: "https://qm.example.com" } })).status).toBe(403);
  });

  test("ignores a client that hangs up in the middle of a body", async () => {
    const api = await openTestApi();
    const { id } = api.approvals.ask();
    const { hostname, port } = new URL(api.origin);
    for (const [path, type] of [
      [`/v1/approvals/${id}`, "application/json"],
      ["/approve", "application/x-www-form-urlencoded"],
    ]) {
      const socket = connect(Number(port), hostname);
      const head = [
        `POST ${path} HTTP/1.1`,
        "Host: localhost",
        "Authorization: Bearer ann-token",
        `Content-Type: ${type}`,
      ];
      socket.write(`${[...head, "Content-Length: 1000"].join("\r\n")}\r\n\r\n{`);
      await vi.waitFor(() => expect(socket.bytesWritten).toBeGreaterThan(0));
      await new Promise((resolve) => setImmediate(resolve));
      socket.destroy();
    }

    expect((await answer(api, id, { decision: "deny" })).status).toBe(200);
    expect(api.problems).toEqual([]);
  });
});

test("reports an internal error, and does not show it to the client", async () => {
  const api = await openTestApi();
  api.approvals.list = async () => {
    throw new Error("SELECT * FROM secrets");
  };

  const got = await api.send("/v1/approvals", { headers: ANN });

  expect(got.status).toBe(500);
  expect(got.body).not.toContain("SELECT");
  expect(api.problems).toEqual([expect.stringContaining("SELECT")]);
});
