import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { Agent, request } from "node:http";
import { connect, type Socket } from "node:net";
import { afterEach, expect, onTestFinished, test, vi } from "vitest";
import { cleanUp, createTestFolder, plainEnvironment, qm, qmCommand } from "../../src/cli/testing.ts";
import { openGate } from "../../src/mcp/gateway/testing.ts";
import { fixturePath } from "../fixtures/mcp-servers/stdio-fixtures.ts";

// A client that opens endless connections crashes no process, and others are served once it closes them.

const DESCRIPTORS = 128;

afterEach(cleanUp);

interface Answer {
  readonly status: number;
  readonly body: string;
}

test.skipIf(process.platform === "win32")("survives running out of file descriptors", async () => {
  const server = { command: process.execPath, args: [fixturePath("plain.mjs")] };
  const cwd = await createTestFolder({
    "quartermaster.yaml": JSON.stringify({ providers: { file: { read_only: false } }, servers: { plain: server } }),
  });
  expect(await qm(cwd, ["servers", "start"], { env: plainEnvironment() })).toMatchObject({ code: 0 });
  const child = spawn(
    "bash",
    ["-c", `ulimit -n ${DESCRIPTORS}; exec "$0" "$@"`, ...qmCommand, "serve", "--port", "0", "--json"],
    {
      cwd,
      env: plainEnvironment(),
    },
  );
  onTestFinished(() => void child.kill("SIGKILL"));
  const [line] = (await Promise.race([once(child.stdout, "data"), once(child, "close")])) as [Buffer | number];
  const { url, tokenPath } = JSON.parse(String(line)) as { url: string; tokenPath: string };
  const token = (await readFile(tokenPath, "utf8")).trim();
  const { hostname, port } = new URL(url);
  // An existing connection keeps working while no others can be accepted.
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  onTestFinished(() => agent.destroy());
  const call = (action: string, args: object) => post({ url, token, agent }, action, args);
  expect(await call("file__list", { path: "." })).toMatchObject({ status: 200 });

  const sockets: Socket[] = [];
  for (let n = 0; n < DESCRIPTORS * 3; n++) {
    const socket = connect(Number(port), hostname).on("error", () => {});
    await new Promise((resolve) => socket.once("connect", resolve).once("error", resolve));
    sockets.push(socket);
  }
  // The server closes the connections it cannot accept.
  await vi.waitFor(() => expect(sockets.some(({ destroyed }) => destroyed)).toBe(true), { timeout: 20_000 });
  const during = [
    await call("file__list", { path: "." }),
    await call("file__write", { path: "a.txt", content: "x" }),
    await call("mcp__plain__echo", { a: 1 }),
    await call("file__list", { path: "." }),
  ];
  for (const socket of sockets) socket.destroy();

  expect(during.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
  for (const { body } of during) expect(body).toContain("overloaded");
  await vi.waitFor(async () => expect((await fetch(new URL("/health", url))).status).toBe(200), { timeout: 20_000 });
  expect(child.exitCode).toBeNull();
  expect(child.signalCode).toBeNull();
  await vi.waitFor(async () => expect((await call("mcp__plain__echo", { a: 1 })).body).toContain('{\\"a\\":1}'), {
    timeout: 20_000,
  });
});

test("refuses connections beyond the limit with 503 and accepts new ones after others close", async () => {
  const gate = await openGate({ limits: { connections: 5 } });
  const { hostname, port } = new URL(gate.url);
  const open = () => connect(Number(port), hostname).on("error", () => {});
  const sockets = Array.from({ length: 5 }, open);
  await Promise.all(sockets.map((socket) => once(socket, "connect")));

  const refused = open();
  const [answer] = (await once(refused, "data")) as [Buffer];
  for (const socket of sockets) socket.destroy();

  expect(String(answer)).toMatch(/^HTTP\/1\.1 503 /);
  await vi.waitFor(async () => expect((await fetch(new URL("/health", gate.url))).status).toBe(200));
});

test("limits the requests of one principal, so that others are served", async () => {
  const gate = await openGate({ limits: { requestsEach: 2 }, profiles: { t: {}, u: { name: "other" } } });
  const client = await gate.client("modern");
  const calls = ["one", "two"].map((name) =>
    client.callTool({ name: "invoke_action", arguments: { action_name: "tool__hang", args: { name } } }),
  );
  for (const call of calls) call.catch(() => {});
  await vi.waitFor(() => expect(gate.hanging).toHaveLength(2));

  const third = await gate.post({ jsonrpc: "2.0", id: 1, method: "ping" });

  expect(third.status).toBe(429);
  expect((await (await gate.client("modern", "u")).listTools()).tools.length).toBeGreaterThan(0);
});

function post(
  { url, token, agent }: { readonly url: string; readonly token: string; readonly agent: Agent },
  action: string,
  args: object,
): Promise<Answer> {
  const params = {
    name: "invoke_action",
    arguments: { action_name: action, args },
    _meta: {
      "io.modelcontextprotocol/protocolVersion": "2026-07-28",
      "io.modelcontextprotocol/clientCapabilities": {},
    },
  };
  const headers = {
    authorization: `Bearer ${token}`,
    "content-type": "application/json",
    accept: "application/json, text/event-stream",
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": "tools/call",
    "mcp-name": "invoke_action",
  };
  return new Promise((resolve, reject) => {
    const outgoing = request(url, { method: "POST", agent, headers }, (incoming) => {
      let body = "";
      incoming.on("data", (chunk) => {
        body += chunk;
      });
      incoming.on("end", () => resolve({ status: incoming.statusCode ?? 0, body }));
    });
    outgoing.on("error", reject);
    outgoing.end(JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params }));
  });
}
