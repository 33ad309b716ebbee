import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { gzipSync } from "node:zlib";
import { describe, expect, onTestFinished, test } from "vitest";
import { appendUrlPath, fetchDocument, type HttpLimits, requireSafeUrl } from "./fetch-document.ts";
import { refusalOf } from "./testing.ts";

const limits: HttpLimits = { fetch, what: "it", timeoutMs: 60_000, bytes: 1000, redirects: "same-origin" };

async function serving(listener: RequestListener): Promise<URL> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(
    () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  );
  return new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
}

describe("a document", () => {
  test("is read up to its limit, counted as it unpacks", async () => {
    const url = await serving((request, response) => {
      if (request.url === "/small") return response.end("x".repeat(1000));
      response.writeHead(200, { "content-encoding": "gzip" });
      return response.end(gzipSync("x".repeat(1001)));
    });

    expect((await fetchDocument(new URL("small", url), limits)).bytes).toHaveLength(1000);
    expect((await refusalOf(fetchDocument(new URL("bomb", url), limits))).message).toContain("more than 1000 bytes");
  });

  test("follows redirects on the same server, up to a limit", async () => {
    const url = await serving((request, response) => {
      if (request.url === "/there") return response.end("here");
      return response.writeHead(301, { location: request.url === "/from" ? "there" : "/round" }).end();
    });

    expect((await fetchDocument(new URL("from", url), limits)).bytes.toString()).toBe("here");
    expect((await refusalOf(fetchDocument(new URL("round", url), limits))).message).toContain("redirects too often");
  });

  test("follows redirects to another server only over https, and only where that is allowed", async () => {
    const other = await serving((_, response) => response.end("stolen"));
    const url = await serving((request, response) =>
      response.writeHead(302, { location: request.url === "/plain" ? other.href : "https://127.0.0.1:1/" }).end(),
    );

    const anywhere = { ...limits, redirects: "https" } as const;
    expect((await refusalOf(fetchDocument(new URL("plain", url), limits))).message).toContain("which is not followed");
    expect((await refusalOf(fetchDocument(new URL("plain", url), anywhere))).message).toContain(
      "which is not followed",
    );
    expect((await refusalOf(fetchDocument(new URL("tls", url), limits))).message).toContain("which is not followed");
    expect((await refusalOf(fetchDocument(new URL("tls", url), anywhere))).message).toContain("cannot be reached");
  });

  test("that cannot be fetched is an error with the reason, without the query", async () => {
    const url = await serving(() => undefined);
    const closed = createServer();
    await new Promise<void>((resolve) => closed.listen(0, "127.0.0.1", resolve));
    const gone = new URL(`http://127.0.0.1:${(closed.address() as AddressInfo).port}/path?secret=query`);
    await new Promise((resolve) => closed.close(resolve));

    expect((await refusalOf(fetchDocument(gone, limits))).message).toBe(
      `it at ${gone.origin}/path cannot be reached (ECONNREFUSED)`,
    );
    expect((await refusalOf(fetchDocument(url, { ...limits, timeoutMs: 50 }))).message).toContain("within 0.05 s");
  });
});

test("accepts https addresses, or http on this machine, and shows no password", async () => {
  for (const url of ["https://a.example", "http://localhost:1", "http://127.0.0.1", "http://[::1]:8080/x"])
    expect(requireSafeUrl(url, "key").href).toBe(new URL(url).href);
  for (const url of ["http://a.example", "http://127.0.0.1.example", "https://u@a.example", "file:///x", ""])
    expect((await refusalOf(() => requireSafeUrl(url, "key"))).message).toContain("key: ");
  const { message } = await refusalOf(() => requireSafeUrl("https://me:hunter2@a.example/x", "key"));
  expect(message).toBe('key: "https://a.example/x" is not allowed');
});

test("appends a path to the path of the address", () => {
  expect(appendUrlPath(new URL("https://a.example/b/?q"), "c%2Fd").href).toBe("https://a.example/b/c%2Fd?q");
  expect(appendUrlPath(new URL("https://a.example"), "c").href).toBe("https://a.example/c");
});
