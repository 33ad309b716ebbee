import { mkdtemp, rm } from "node:fs/promises";
import { request } from "node:http";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Hono } from "hono";
import { expect, onTestFinished, test } from "vitest";
import { openWorkspace } from "../../workspace/workspace.ts";
import { openGateway } from "./create-gateway.ts";
import { GATEWAY_LIMITS } from "./gateway.ts";
import { startHttpListener } from "./http-listener.ts";

async function opened(where: { readonly publicUrl?: URL; readonly withOther?: boolean } = {}) {
  const folder = await mkdtemp(join(tmpdir(), "qm-other-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const workspace = await openWorkspace({ cwd: folder, env: {} });
  onTestFinished(workspace.close);
  const gateway = openGateway(workspace, () => {});
  onTestFinished(gateway.close);
  const asked: string[] = [];
  const { url } = await gateway.listen({
    port: 0,
    publicUrl: where.publicUrl,
    ...(where.withOther === false
      ? {}
      : {
          other: new Hono().all("*", async ({ req, text }, next) => {
            asked.push(`${req.method} ${req.path} ${await req.text()}`);
            return req.url.endsWith("/page") ? text("a page") : next();
          }),
        }),
  });
  const { hostname, port } = new URL(url);
  const status = (path: string, headers: Record<string, string> = {}, method = "GET", body?: string) =>
    new Promise<number>((resolve, reject) => {
      const outgoing = request({ hostname, port, path, method, headers }, (incoming) => {
        incoming.resume();
        incoming.on("end", () => resolve(incoming.statusCode ?? 0));
      });
      outgoing.on("error", reject);
      outgoing.end(body);
    });
  return { status, asked };
}

test("passes other paths to the mounted routes, or answers 404", async () => {
  const { status, asked } = await opened();

  expect(await status("/page")).toBe(200);
  expect(await status("/page?x=1")).toBe(404);
  expect(await status("/nothing", {}, "POST", "said")).toBe(404);
  expect(await status("/health")).toBe(200);
  expect(await status("/mcp", {}, "POST", "{}")).toBe(401);
  expect(asked).toEqual(["GET /page ", "GET /page ", "POST /nothing said"]);
});

test("answers 404 without mounted routes", async () => {
  const { status } = await opened({ withOther: false });

  expect(await status("/page")).toBe(404);
  expect(await status("//")).toBe(404);
});

test("accepts the public host, and its pages may call the mounted routes", async () => {
  const { status } = await opened({ publicUrl: new URL("https://qm.example.com/box") });
  const headers = { host: "qm.example.com", origin: "https://qm.example.com" };

  expect(await status("/page", headers)).toBe(200);
  expect(await status("/page", { ...headers, host: "127.0.0.1" })).toBe(200);
  expect(await status("/page", { host: "example.com" })).toBe(421);
  expect(await status("/page", { ...headers, origin: "https://example.com" })).toBe(403);
  expect(await status("/mcp", headers)).toBe(403);
});

test("stops reading a stream that the client does not read, and cancels it when the client hangs up", async () => {
  let pulls = 0;
  let isCancelled = false;
  const pull = (controller: ReadableStreamDefaultController<Uint8Array>) => {
    pulls++;
    controller.enqueue(Buffer.alloc(65_536, "x"));
  };
  const cancel = () => {
    isCancelled = true;
  };
  const headers = { "content-type": "text/event-stream" };
  const other = new Hono().get("/stream", () => new Response(new ReadableStream({ pull, cancel }), { headers }));
  const { url, close } = await startHttpListener(
    { limits: GATEWAY_LIMITS, onProblem: () => {}, fetch: async () => new Response(), answer: () => false },
    { host: "127.0.0.1", port: 0, allowedHosts: [], allowedOrigins: [], authorize: () => undefined, other },
  );
  onTestFinished(close);
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname).pause();
  socket.write("GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n");

  await expect.poll(async () => pulls > 0 && (await isStable(() => pulls)), { timeout: 20_000 }).toBe(true);
  expect(pulls).toBeLessThan(2_000);
  socket.destroy();
  await expect.poll(() => isCancelled).toBe(true);
});

async function isStable(read: () => number): Promise<boolean> {
  const before = read();
  await new Promise((resolve) => setTimeout(resolve, 200));
  return read() === before;
}
