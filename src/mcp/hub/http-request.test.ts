import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { gzipSync } from "node:zlib";
import { expect, onTestFinished, test } from "vitest";
import { createBoundedFetch } from "./http-transport.ts";

const LIMIT = 1000;

async function serve(listener: RequestListener): Promise<URL> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`);
}

const post = (url: URL, body = "{}", signal?: AbortSignal): Promise<Response> => {
  const headers = new Headers({ "content-type": "application/json", "x-own": "1" });
  return createBoundedFetch(LIMIT)(url, {
    method: "POST",
    redirect: "manual",
    headers,
    body,
    ...(signal && { signal }),
  });
};

test("posts the text with its headers, and reads a document", async () => {
  const url = await serve(async (request, response) => {
    const body = Buffer.concat(await request.toArray()).toString();
    const { "x-own": own, "content-length": length } = request.headers;
    const text = JSON.stringify({ body, own, length });
    response.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(text) });
    response.end(text);
  });

  const response = await post(url, "häh");

  expect(response).toMatchObject({ ok: true, status: 200 });
  expect(response.headers.get("content-type")).toBe("application/json");
  expect(await response.json()).toEqual({ body: "häh", own: "1", length: "4" });
});

test.each<[string, RequestListener, number, string]>([
  ["no length", (_, response) => response.end("[1]"), 200, "[1]"],
  ["a byte order mark", (_, response) => response.end("\uFEFF[1]"), 200, "[1]"],
  [
    "a stream of events",
    (_, response) => void response.writeHead(200, { "content-type": "text/event-stream" }).end("data: 1\n\n"),
    200,
    "data: 1\n\n",
  ],
  [
    "a stream of events with a length",
    (_, response) =>
      void response.writeHead(200, { "content-type": "text/event-stream", "content-length": "9" }).end("data: 1\n\n"),
    200,
    "data: 1\n\n",
  ],
  ["no content", (_, response) => void response.writeHead(204).end(), 204, ""],
  ["an error", (_, response) => void response.writeHead(404, { "content-length": "4" }).end("gone"), 404, "gone"],
  ["a redirect", (_, response) => void response.writeHead(307, { location: "/other" }).end(), 307, ""],
])("answers like fetch: %s", async (_which, listener, status, text) => {
  const url = await serve(listener);

  const response = await post(url);

  expect(response.status).toBe(status);
  // The SDK reads events from the body.
  const isStream = response.headers.get("content-type") === "text/event-stream";
  expect(isStream ? response.body : null).toEqual(isStream ? expect.any(ReadableStream) : null);
  expect(await response.text()).toBe(text);
});

test("keeps a connection for the next request", async () => {
  const ports = new Set<number | undefined>();
  const url = await serve((request, response) => {
    ports.add(request.socket.remotePort);
    response.writeHead(200, { "content-length": "2" }).end("{}");
  });
  const fetch = createBoundedFetch(LIMIT);
  const send = () => fetch(url, { method: "POST", redirect: "manual", headers: new Headers(), body: "{}" });

  await (await send()).text();
  await (await send()).text();

  expect(ports.size).toBe(1);
});

test("rejects an answer that is longer than the limit", async () => {
  const url = await serve((_, response) => response.end("x".repeat(LIMIT + 1)));

  await expect(post(url).then((response) => response.text())).rejects.toThrow();
});

test("does not unpack more than the limit", async () => {
  const packed = gzipSync("x".repeat(100 * LIMIT));
  const url = await serve((_, response) => {
    response.writeHead(200, { "content-encoding": "gzip", "content-length": packed.length }).end(packed);
  });

  const text = await post(url).then((response) => response.text());

  expect(text.length).toBeLessThanOrEqual(LIMIT);
});

test("stops when the signal aborts, and when the server breaks off", async () => {
  const stop = new AbortController();
  const silent = await serve(() => stop.abort(new Error("enough")));
  const broken = await serve((_, response) => {
    response.writeHead(200, { "content-type": "application/json", "content-length": "100" });
    response.write("{", () => response.destroy());
  });

  await expect(post(silent, "{}", stop.signal)).rejects.toThrow(/abort/);
  await expect(post(broken)).rejects.toMatchObject({ code: "ECONNRESET" });
});
