import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { createQuartermaster } from "../../app/quartermaster.ts";
import { type WebProviderOptions, webProvider } from "./web-provider.ts";

async function startServer(answer: RequestListener): Promise<string> {
  const server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function open(options: Partial<WebProviderOptions> = {}) {
  const web = webProvider({ userAgent: "Quartermaster/1", elapsed: () => 0, ...options });
  const qm = await createQuartermaster({ providers: [web], infospace: {} });
  onTestFinished(() => qm.close());
  return qm;
}

/** Pages by path: a type and a body. */
const servePages = (pages: Readonly<Record<string, readonly [string, string | Buffer]>>) =>
  startServer((request, response) => {
    const page = pages[request.url ?? ""];
    if (page === undefined) return void response.writeHead(404).end();
    response.setHeader("Content-Type", page[0]).end(page[1]);
  });

async function fetchPage(type: string, body: string | Buffer, args: object = {}) {
  const host = await servePages({ "/page": [type, body] });
  const qm = await open({ allowHosts: [host] });
  return qm.invoke("web__fetch", { url: `http://${host}/page`, ...args }, { caller: { session: "s1" } });
}

test("turns a page into Markdown with absolute links", async () => {
  const paragraph = "Herons are long-legged birds that stand in shallow water and wait for fish. ".repeat(8);
  const html = `<html><head><title>Herons</title><script>x()</script></head><body><nav>menu</nav><article><h1>Herons</h1>
    <p>${paragraph}<a href="/fish">fish</a></p><p>${paragraph}</p><pre><code class="language-js">let a = 1;</code></pre></article></body></html>`;

  const outcome = await fetchPage("text/html", html);

  expect(outcome).toMatchObject({ data: { status: 200, title: "Herons", content_type: "text/html" } });
  const { content } = (outcome as unknown as { data: { content: string } }).data;
  expect(content).toMatch(/\[fish\]\(http:\/\/127\.0\.0\.1:\d+\/fish\)/);
  expect(content).toContain("let a = 1;");
  expect(content).not.toContain("x()");
});

test.each([
  "<html><title>T</title><body><p>Hello</p></body></html>",
  "<!doctype html><title>T</title><p>Hello",
  "<html lang=en><head><title>T</title></head><body class=a><p>Hello</p></body></html>",
])("reads a short page that may leave out tags: %s", async (html) => {
  expect(await fetchPage("text/html", html)).toMatchObject({ data: { title: "T", content: "Hello" } });
});

test("returns HTML as it was sent with raw", async () => {
  expect(await fetchPage("text/html", "<p>a</p>", { raw: true })).toMatchObject({ data: { content: "<p>a</p>" } });
});

test.each([
  ["text/plain; charset=iso-8859-1", Buffer.from("caf\xe9", "latin1"), "café"],
  ["text/plain", Buffer.from("\ufeffcafé", "utf16le"), "café"],
  ["text/html", Buffer.from('<meta charset="iso-8859-1"><p>caf\xe9</p>', "latin1"), "café"],
  ["application/json", Buffer.from('{"a":"café"}'), '{"a":"café"}'],
])("decodes %s", async (type, body, content) => {
  expect(await fetchPage(type, body)).toMatchObject({ data: { content } });
});

test("reads the text of a page with 20,000 nested elements", async () => {
  const outcome = await fetchPage("text/html", `${"<div>".repeat(20_000)}deep text`);

  expect(outcome).toMatchObject({ data: { content: expect.stringContaining("deep text") } });
});

test("cuts a huge page", async () => {
  const host = await servePages({ "/page": ["text/plain", "x".repeat(100_000)] });
  const qm = await open({ allowHosts: [host], maxBytes: 2_000 });

  const outcome = await qm.invoke("web__fetch", { url: `http://${host}/page` });

  expect(outcome).toMatchObject({ data: { truncated: true, content: "x".repeat(2_000) } });
});

const pdf = [
  "%PDF-1.4",
  "1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj",
  "2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj",
  "3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 300]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>endobj",
  "4 0 obj<</Length 42>>stream\nBT /F1 24 Tf 20 100 Td (Hello page) Tj ET \nendstream endobj",
  "5 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj",
  "trailer<</Root 1 0 R>>",
].join("\n");

test("reads a PDF by page, and refuses a broken one", async () => {
  expect(await fetchPage("application/pdf", pdf)).toMatchObject({
    data: { content: "## Page 1\n\nHello page", pages: 1 },
  });
  expect(await fetchPage("application/pdf", "no pdf")).toMatchObject({ error: { code: "unsupported_content" } });
});

test("refuses other types, and reports the status of an error", async () => {
  expect(await fetchPage("image/png", "x")).toMatchObject({ error: { code: "unsupported_content" } });
  const host = await servePages({});
  const qm = await open({ allowHosts: [host] });
  const outcome = await qm.invoke("web__fetch", { url: `http://${host}/none` });
  expect(outcome).toMatchObject({ error: { code: "action_failed", status: 404 } });
});

test("stores a long page as a note", async () => {
  const outcome = await fetchPage("text/plain", "a long line of text\n".repeat(10_000));

  expect(outcome).toMatchObject({ kept: { handle: expect.stringMatching(/^(?:note|collection)__/) } });
});

test("obeys robots.txt, also after a redirect, unless it is ignored", async () => {
  const seen: string[] = [];
  const host = await startServer((request, response) => {
    seen.push(`${request.url}`);
    if (request.url === "/robots.txt") return void response.end("User-agent: *\nDisallow: /secret");
    if (request.url === "/moved") return void response.writeHead(302, { Location: "/secret" }).end();
    response.setHeader("Content-Type", "text/plain").end("page");
  });
  const polite = await open({ allowHosts: [host] });
  for (const path of ["/secret", "/moved"])
    expect(await polite.invoke("web__fetch", { url: `http://${host}${path}` })).toMatchObject({
      error: { code: "address_refused" },
    });
  expect(await polite.invoke("web__fetch", { url: `http://${host}/open` })).toMatchObject({
    data: { content: "page" },
  });
  expect(seen).toEqual(["/robots.txt", "/moved", "/open"]);

  const ignoring = await open({ allowHosts: [host], respectRobots: false });
  const outcome = await ignoring.invoke("web__fetch", { url: `http://${host}/secret` });
  expect(outcome).toMatchObject({ data: { content: "page" } });
});

test("refuses a private address", async () => {
  const host = await servePages({ "/page": ["text/plain", "inner"] });
  const qm = await open();

  expect(await qm.invoke("web__fetch", { url: `http://${host}/page` })).toMatchObject({
    error: { code: "address_refused" },
  });
});

const hit = { title: "Herons", url: "https://birds.example/heron" };

test.each([
  ["searxng", { results: [{ ...hit, content: "A <b>bird</b>." }, { url: "javascript:1" }] }],
  ["brave", { type: "search", web: { results: [{ ...hit, description: "A <b>bird</b>." }] } }],
] as const)("searches an engine like %s", async (kind, answer) => {
  const seen: unknown[] = [];
  const host = await startServer((request, response) => {
    seen.push([request.url, request.headers["x-subscription-token"] ?? request.headers.authorization]);
    response.end(JSON.stringify(answer));
  });
  const qm = await open({ search: { kind, read: () => ({ url: `http://${host}/`, token: "t" }) } });

  const outcome = await qm.invoke("web__search", { query: "heron", limit: 3 });

  expect(outcome).toMatchObject({ data: { results: [{ ...hit, snippet: "A bird." }] } });
  expect(seen).toEqual([kind === "brave" ? ["/?count=3&q=heron", "t"] : ["/search?format=json&q=heron", "Bearer t"]]);
});

test("lists searching as unavailable without an engine", async () => {
  const action = (await webProvider({ userAgent: "q", elapsed: () => 0 }).list()).find(
    ({ entry }) => entry === "search",
  );

  expect(action?.readiness?.()).toBe("unavailable");
  expect(action?.readinessReason?.()).toContain("providers.web.search");
});
