import { connect } from "node:net";
import { describe, expect, test, vi } from "vitest";
import { ANN, type Got, openDoor } from "./testing.ts";

const VIC = { authorization: "Bearer vic-token" };
const asJson = { ...ANN, "content-type": "application/json" };

type Door = Awaited<ReturnType<typeof openDoor>>;

function answer(door: Door, id: string, body: unknown, headers: Record<string, string> = asJson): Promise<Got> {
  return door.send(`/v1/approvals/${id}`, {
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
  ])("is wanted everywhere: %s", async (_which, headers, challenge) => {
    const door = await openDoor();
    const { id } = door.approvals.ask();

    for (const path of ["", `/${id}`, `/${id}/outcome`, "/events", "/nothing/at/all"]) {
      const got = await door.send(`/v1/approvals${path}`, { headers });

      expect(got).toMatchObject({ status: 401, headers: { "www-authenticate": challenge } });
      expect(got.body).not.toContain(id);
    }
    expect((await answer(door, id, { decision: "approve" }, headers)).status).toBe(401);
    expect(await door.approvals.get(id)).toMatchObject({ state: "pending" });
  });

  test("in the address is no token", async () => {
    const door = await openDoor();

    expect((await door.send("/v1/approvals?access_token=ann-token")).status).toBe(401);
  });
});

describe("the list", () => {
  test("has everything, oldest first, a page at a time", async () => {
    const door = await openDoor();
    const ids = [1, 2, 3].map(() => door.approvals.ask().id);

    const first = parsed(await door.send("/v1/approvals?limit=2", { headers: VIC }));
    const second = parsed(await door.send(`/v1/approvals?limit=2&after=${first.next}`, { headers: VIC }));

    expect(first).toMatchObject({ items: [{ id: ids[0] }, { id: ids[1] }], next: ids[1] });
    expect(second).toMatchObject({ items: [{ id: ids[2] }] });
    expect(second).not.toHaveProperty("next");
  });

  test("is chosen from by state, session, user and action", async () => {
    const door = await openDoor();
    door.approvals.ask({ session: "one", user: "eve" });
    door.approvals.ask({ session: "two", action: "file__write" });
    door.approvals.ask({ session: "two", state: "denied" });
    const count = async (query: string) =>
      (parsed(await door.send(`/v1/approvals?${query}`, { headers: ANN })).items as unknown[]).length;

    expect(await count("session=two")).toBe(2);
    expect(await count("session=two&state=pending")).toBe(1);
    expect(await count("state=pending,denied")).toBe(3);
    expect(await count("state=pending&state=denied")).toBe(3);
    expect(await count("action=file__write")).toBe(1);
    expect(await count("user=eve")).toBe(1);
  });

  test.each(["state=open", "limit=0", "limit=501", "limit=-1", "limit=1e2", "sesion=x", "limit=1&limit=2", "state="])(
    "%s is told to be wrong, not left out",
    async (query) => {
      const door = await openDoor();

      const got = await door.send(`/v1/approvals?${query}`, { headers: ANN });

      expect(got.status).toBe(422);
      expect(parsed(got)).toMatchObject({ code: "invalid_arguments" });
    },
  );
});

describe("an answer", () => {
  test("approves, and has the call run once", async () => {
    const door = await openDoor();
    const { id } = door.approvals.ask();

    const got = await answer(door, id, { decision: "approve", reason: "fine" });

    expect(got.status).toBe(200);
    expect(parsed(got)).toMatchObject({
      state: "approved",
      answer: { decision: "approved", by: "ann", via: "http", reason: "fine" },
    });
    await vi.waitFor(() => expect(door.approvals.runs).toEqual([id]));
  });

  test("denies, and nothing runs", async () => {
    const door = await openDoor();
    const { id } = door.approvals.ask();

    expect(parsed(await answer(door, id, { decision: "deny" }))).toMatchObject({ state: "denied" });
    expect(await door.approvals.run()).toBe(0);
  });

  test("counts once: whoever is second is told who was first", async () => {
    const door = await openDoor({ roles: { ann: ["approver"], bob: ["admin"] } });
    const { id } = door.approvals.ask();
    const bob = { ...asJson, authorization: "Bearer bob-token" };

    const both = await Promise.all([
      answer(door, id, { decision: "approve" }),
      answer(door, id, { decision: "deny" }, bob),
    ]);

    expect(both.map(({ status }) => status).sort()).toEqual([200, 409]);
    const [first, second] = both[0]?.status === 200 ? ["ann", both[1]] : ["bob", both[0]];
    expect(parsed(second as Got)).toMatchObject({ code: "conflict", error: expect.stringContaining(first), by: first });
  });

  test("needs a role that may, whoever the token knows", async () => {
    const door = await openDoor();
    const { id } = door.approvals.ask();

    const got = await answer(door, id, { decision: "approve" }, { ...asJson, ...VIC });

    expect(got.status).toBe(403);
    expect(await door.approvals.get(id)).toMatchObject({ state: "pending" });
    expect(door.approvals.runs).toEqual([]);
  });

  test("comes too late", async () => {
    const door = await openDoor();
    const { id } = door.approvals.ask({ expiresAt: "2020-01-01T00:00:00.000Z" });

    const got = await answer(door, id, { decision: "approve" });

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
  ])("of %s is none", async (_which, body) => {
    const door = await openDoor();
    const { id } = door.approvals.ask();

    const got = await answer(door, id, body);

    expect(got.status).toBe(422);
    expect(parsed(got)).toMatchObject({ code: "invalid_arguments", hint: expect.stringContaining("decision") });
    expect(await door.approvals.get(id)).toMatchObject({ state: "pending" });
  });

  test.each(["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonx", ""])(
    "as %j is refused",
    async (type) => {
      const door = await openDoor();
      const { id } = door.approvals.ask();

      const got = await answer(door, id, { decision: "approve" }, { ...ANN, "content-type": type });

      expect(got.status).toBe(415);
    },
  );

  test("that is no UTF-8 is refused", async () => {
    const door = await openDoor();
    const { id } = door.approvals.ask();
    const body = Buffer.concat([
      Buffer.from('{"decision":"approve","reason":"'),
      Buffer.from([0xff, 0xfe]),
      Buffer.from('"}'),
    ]);

    expect((await answer(door, id, body)).status).toBe(415);
  });

  test("is read up to a limit, whatever its length is said to be", async () => {
    const door = await openDoor();
    const { id } = door.approvals.ask();
    const body = JSON.stringify({ decision: "approve", reason: "x".repeat(70_000) });

    const told = await answer(door, id, body);
    const chunked = await answer(door, id, body, { ...asJson, "transfer-encoding": "chunked" });

    expect([told.status, chunked.status]).toEqual([413, 413]);
    expect(told.headers.connection).toBe("close");
    expect((await answer(door, id, { decision: "deny" })).status).toBe(200);
  });
});

describe("an outcome", () => {
  test("is waited for as long as is said, and no longer than a minute", async () => {
    const door = await openDoor();
    const { id } = door.approvals.ask();
    const outcome = (query: string) => door.send(`/v1/approvals/${id}/outcome${query}`, { headers: VIC });

    expect(parsed(await outcome(""))).toMatchObject({ status: "waiting" });
    expect(parsed(await outcome("?wait_ms=20"))).toMatchObject({ status: "waiting" });
    const waiting = outcome("?wait_ms=55000");
    await vi.waitFor(() => expect(door.approvals.listeners).toBe(1));
    await answer(door, id, { decision: "approve" });

    expect(parsed(await waiting)).toMatchObject({ status: "done", data: { sent: true } });
    expect(parsed(await waiting)).not.toHaveProperty("value");
    expect((await outcome("?wait_ms=55001")).status).toBe(422);
    expect((await outcome("?wait_ms=x")).status).toBe(422);
  });

  test("is not waited for any more when the client has hung up", async () => {
    const door = await openDoor();
    const { id } = door.approvals.ask();
    const gone = new AbortController();
    const url = `${door.origin}/v1/approvals/${id}/outcome?wait_ms=55000`;
    const waiting = fetch(url, { headers: VIC, signal: gone.signal }).catch(() => "gone");
    await vi.waitFor(() => expect(door.approvals.listeners).toBe(1));

    gone.abort();

    expect(await waiting).toBe("gone");
    await vi.waitFor(() => expect(door.approvals.listeners).toBe(0));
    expect((await answer(door, id, { decision: "deny" })).status).toBe(200);
    expect(door.problems).toEqual([]);
  });
});

describe("the stream of changes", () => {
  async function stream(door: Door) {
    const gone = new AbortController();
    const response = await fetch(`${door.origin}/v1/approvals/events`, { headers: VIC, signal: gone.signal });
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

  test("tells of every change, on a line of data each, whatever is in it", async () => {
    const door = await openDoor();
    const { response, until } = await stream(door);

    const { id } = door.approvals.ask({ preview: "a\n\ndata: forged\n\nevent: x" });
    await answer(door, id, { decision: "deny" });
    const text = await until("denied");

    expect(response.headers.get("content-type")).toBe("text/event-stream");
    const data = [...text.matchAll(/^data: (.*)$/gm)].map(([, line = ""]) => JSON.parse(line) as { state: string });
    expect(data.map(({ state }) => state)).toEqual(["pending", "denied"]);
    expect(text.match(/^event: .*$/gm)).toEqual(["event: approval", "event: approval"]);
  });

  test("is let go of when the client has hung up, and when the server ends", async () => {
    const door = await openDoor();
    const one = await stream(door);
    const other = await stream(door);
    expect(door.approvals.listeners).toBe(2);

    one.gone.abort();
    await vi.waitFor(() => expect(door.approvals.listeners).toBe(1));
    door.closing.abort();
    await other.until("retry");

    expect((await other.reader.read()).done).toBe(true);
    expect(door.approvals.listeners).toBe(0);
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
])("%s of %j is not allowed, and what is, is told", async (method, path, allow) => {
  const door = await openDoor();

  const got = await door.send(`/v1/approvals${path}`, { method, headers: ANN });

  expect(got).toMatchObject({ status: 405, headers: { allow } });
});

test.each(["/x/y", "/x/outcome/y", "/%ff", "/x/outcome/", "/unknown", "/__proto__", "//", "/events/outcome"])(
  "nothing is at %s",
  async (path) => {
    const door = await openDoor();

    const got = await door.send(`/v1/approvals${path}`, { headers: ANN });

    expect(got.status).toBe(404);
    expect(parsed(got)).toMatchObject({ code: "not_found" });
  },
);

test("answers are kept nowhere, and pages of others cannot read them", async () => {
  const door = await openDoor();
  const headersOf = async (headers = {}) =>
    (await door.send("/v1/approvals", { headers: { ...ANN, ...headers } })).headers;

  expect(await headersOf()).toMatchObject({ "cache-control": "no-store", "x-content-type-options": "nosniff" });
  expect(await headersOf({ origin: door.origin })).not.toHaveProperty("access-control-allow-origin");
});

describe("the listener in front", () => {
  test.each(["/", "/v1", "/v1/approvalsx", "/approve/x", "//", "//evil.test/v1/approvals", "http://["])(
    "nothing is at %s",
    async (path) => {
      const door = await openDoor();

      const got = await door.send(path, { method: path === "/" ? "TRACE" : "GET", headers: {} });

      expect(got.status).toBe(404);
      expect(door.problems).toEqual([]);
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
    const door = await openDoor();

    expect((await door.send("/v1/approvals", { headers: { ...ANN, ...headers } })).status).toBe(status);
  });

  test("an origin of our own opens nothing but pages: not /mcp, not /health", async () => {
    const door = await openDoor();

    for (const path of ["/mcp", "/health"])
      expect((await door.send(path, { headers: { origin: "https://qm.example.com" } })).status).toBe(403);
  });

  test("a client that hangs up in the middle of a body is nobody's problem", async () => {
    const door = await openDoor();
    const { id } = door.approvals.ask();
    const { hostname, port } = new URL(door.origin);
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

    expect((await answer(door, id, { decision: "deny" })).status).toBe(200);
    expect(door.problems).toEqual([]);
  });
});

test("what goes wrong inside is told inside, and to nobody else", async () => {
  const door = await openDoor();
  door.approvals.list = async () => {
    throw new Error("SELECT * FROM secrets");
  };

  const got = await door.send("/v1/approvals", { headers: ANN });

  expect(got.status).toBe(500);
  expect(got.body).not.toContain("SELECT");
  expect(door.problems).toEqual([expect.stringContaining("SELECT")]);
});
