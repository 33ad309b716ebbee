import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { brotliCompressSync, gzipSync } from "node:zlib";
import { expect, onTestFinished, test, vi } from "vitest";
import { startServer } from "../../test/support/local-server.ts";
import { createGuardedFetch, type GuardedRequest, type GuardOptions } from "./guarded-fetch.ts";

function open(options: GuardOptions) {
  const guarded = createGuardedFetch(options);
  onTestFinished(() => guarded.close());
  return (url: string, more: Partial<GuardedRequest> = {}) =>
    guarded.fetch({
      url,
      maxBytes: 10_000,
      maxRedirects: 5,
      timeoutMs: 20_000,
      signal: new AbortController().signal,
      ...more,
    });
}

test("returns the response of an allowed host", async () => {
  const host = await startServer((request, response) => {
    response.setHeader("X-Seen", `${request.method} ${request.url}`).end("hello");
  });
  const get = open({ allowHosts: [host] });

  const { body, ...rest } = await get(`http://${host}/page?q=1#part`);

  expect(Buffer.from(body).toString()).toBe("hello");
  expect(rest).toMatchObject({
    url: `http://${host}/page?q=1`,
    status: 200,
    truncated: false,
    redirects: [],
    headers: { "x-seen": "GET /page?q=1" },
  });
});

test("sends a method, headers and a body", async () => {
  const host = await startServer(async (request, response) => {
    const chunks = await request.toArray();
    response.end(`${request.method} ${request.headers["x-token"]} ${Buffer.concat(chunks)}`);
  });
  const get = open({ allowHosts: [host] });

  const { body } = await get(`http://${host}/`, { method: "post", headers: { "X-Token": "t" }, body: "data" });

  expect(Buffer.from(body).toString()).toBe("POST t data");
});

test("allows one port of a host only", async () => {
  const [allowed, other] = [await startServer((_, response) => response.end("a")), await startServer(() => {})];
  const get = open({ allowHosts: [allowed] });

  await get(`http://${allowed}/`);

  await expect(get(`http://${other}/`)).rejects.toMatchObject({
    code: "address_refused",
    message: `"${other}" is not a public address`,
  });
});

test.each([
  ["gzip", gzipSync],
  ["br", brotliCompressSync],
] as const)("decodes %s, and stops a body that grows too large", async (encoding, compress) => {
  const text = Buffer.alloc(30_000_000, "a");
  const host = await startServer((request, response) => {
    response.setHeader("Content-Encoding", encoding);
    response.end(compress(request.url === "/small" ? text.subarray(0, 10_000) : text));
  });
  const get = open({ allowHosts: [host] });

  const small = await get(`http://${host}/small`);
  expect([small.body.length, small.truncated]).toEqual([10_000, false]);
  const large = await get(`http://${host}/large`, { maxBytes: 1_000_000 });
  expect([large.body.length, large.truncated]).toEqual([1_000_000, true]);
});

test("stops an encoded body that never decodes to anything", async () => {
  const empty = gzipSync("");
  const host = await startServer((_, response) => {
    response.setHeader("Content-Encoding", "gzip");
    const send = () => {
      while (!response.destroyed && response.write(empty));
    };
    response.on("drain", send);
    send();
  });
  const get = open({ allowHosts: [host] });

  expect((await get(`http://${host}/`)).truncated).toBe(true);
});

test("cuts a body without an end, and ends the connection", async () => {
  let ended = () => {};
  const end = new Promise<void>((resolve) => {
    ended = resolve;
  });
  const host = await startServer((_, response) => {
    response.on("close", ended);
    const send = () => {
      while (!response.destroyed && response.write("x".repeat(10_000)));
    };
    response.on("drain", send);
    send();
  });
  const get = open({ allowHosts: [host] });

  expect(await get(`http://${host}/`)).toMatchObject({ truncated: true, body: { length: 10_000 } });
  await end;
});

test.each(["before the headers", "in the body"])("ends at the timeout when a server stops %s", async (place) => {
  const host = await startServer((_, response) => {
    if (place === "in the body") response.write("some");
  });
  const get = open({ allowHosts: [host] });

  await expect(get(`http://${host}/`, { timeoutMs: 200 })).rejects.toMatchObject({ code: "timed_out" });
});

test("ends when the caller cancels", async () => {
  const cancelling = new AbortController();
  const host = await startServer(() => cancelling.abort(new Error("cancelled by the caller")));
  const get = open({ allowHosts: [host] });

  await expect(get(`http://${host}/`, { signal: cancelling.signal })).rejects.toThrow("cancelled by the caller");
});

test("refuses more redirects than allowed, and returns the redirect itself if none is", async () => {
  const host = await startServer((request, response) => {
    response.writeHead(302, { Location: `${request.url}x` }).end();
  });
  const get = open({ allowHosts: [host] });

  await expect(get(`http://${host}/`)).rejects.toThrow("redirects more than 5 times");
  expect(await get(`http://${host}/`, { maxRedirects: 0 })).toMatchObject({ status: 302, redirects: [] });
});

test("keeps secrets from another origin, and asks before each request", async () => {
  const seen: unknown[] = [];
  const other = await startServer((request, response) => {
    seen.push(request.headers);
    response.end("there");
  });
  const host = await startServer((request, response) => {
    const to = request.url === "/a" ? "/b" : `http://${other}/c`;
    if (request.url === "/b") seen.push(request.headers);
    response.writeHead(307, { Location: to }).end();
  });
  const asked: string[] = [];
  const get = open({ allowHosts: [host, other], beforeRequest: (url) => void asked.push(url.href) });
  const headers = { Authorization: "Bearer s", Cookie: "a=b", "X-Api-Key": "k", Accept: "text/html" };

  const { url, redirects } = await get(`http://${host}/a`, { headers });

  expect(asked).toEqual([`http://${host}/a`, `http://${host}/b`, `http://${other}/c`]);
  expect(redirects).toEqual(asked.slice(1));
  expect(url).toBe(`http://${other}/c`);
  expect(seen[0]).toMatchObject({ authorization: "Bearer s", cookie: "a=b", "x-api-key": "k" });
  expect(seen[1]).toMatchObject({ accept: "text/html" });
  for (const name of ["authorization", "cookie", "x-api-key"]) expect(seen[1]).not.toHaveProperty(name);
});

test("does not follow a redirect from https to http", async () => {
  let seen = 0;
  const plain = await startServer((_, response) => {
    seen++;
    response.end("plain");
  });
  const server = createServer(createCertificate(), (_, response) => {
    response.writeHead(302, { Location: `http://${plain}/` }).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const get = open({ allowHosts: [host, plain] });

  // A certificate that no authority has signed.
  await expect(get(`https://${host}/`)).rejects.toMatchObject({
    code: "action_failed",
    message: expect.stringContaining("no valid certificate"),
  });
  vi.stubEnv("NODE_TLS_REJECT_UNAUTHORIZED", "0");
  onTestFinished(() => void vi.unstubAllEnvs());
  await expect(get(`https://${host}/`)).rejects.toMatchObject({ code: "address_refused" });
  expect(seen).toBe(0);
});

function createCertificate(): { readonly key: Buffer; readonly cert: Buffer } {
  const folder = mkdtempSync(join(tmpdir(), "qm-tls-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const [key, cert] = [join(folder, "key.pem"), join(folder, "cert.pem")];
  const kind = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
  execFileSync("openssl", [...kind, "-keyout", key, "-out", cert, "-subj", "/CN=127.0.0.1"], { stdio: "ignore" });
  return { key: readFileSync(key), cert: readFileSync(cert) };
}

test("turns a POST into a GET after a 303", async () => {
  const seen: string[] = [];
  const host = await startServer((request, response) => {
    seen.push(`${request.method} ${request.headers["content-type"]}`);
    if (request.method === "POST") response.writeHead(303, { Location: "/done" });
    response.end();
  });
  const get = open({ allowHosts: [host] });

  await get(`http://${host}/`, { method: "POST", body: "{}", headers: { "Content-Type": "application/json" } });

  expect(seen).toEqual(["POST application/json", "GET undefined"]);
});

test("refuses headers that are too large", async () => {
  const host = await startServer((_, response) => response.setHeader("X-Large", "x".repeat(60_000)).end());
  const get = open({ allowHosts: [host] });

  await expect(get(`http://${host}/`)).rejects.toMatchObject({ code: "action_failed" });
});

test.each([
  ["ends the connection", async () => (await startServer((_, response) => response.destroy())).split(":")[1]],
  ["does not listen", () => 1],
])("does not tell the address of a server that %s", async (_what, findPort) => {
  const port = await findPort();
  const lookup = async () => [{ address: "127.0.0.1", family: 4 as const }];
  const get = open({ allowHosts: ["inner.example"], lookup });

  const failed = get(`http://inner.example:${port}/`);

  await expect(failed).rejects.toMatchObject({ code: "action_failed" });
  await expect(failed).rejects.not.toThrow("127.0.0.1");
});
