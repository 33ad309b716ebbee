import { constants, deflateRawSync } from "node:zlib";
import { expect, onTestFinished, test, vi } from "vitest";
import { startServer } from "../../../test/support/local-server.ts";
import { fetchPage, openWeb, servePages } from "./testing.ts";

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
  const qm = await openWeb({ allowHosts: [host], maxBytes: 2_000 });

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

/** A PDF whose page decompresses to 200 MB of spaces. */
function createPdfBomb(): Buffer {
  const piece = deflateRawSync(Buffer.alloc(1_000_000, " "), { finishFlush: constants.Z_FULL_FLUSH });
  const data = Buffer.concat([Buffer.from([0x78, 0x9c]), ...Array<Buffer>(200).fill(piece), deflateRawSync("")]);
  const [start = "", end = ""] = pdf.split(/4 0 obj.*\n.*\nendstream endobj/);
  const head = `${start}4 0 obj<</Length ${data.length}/Filter/FlateDecode>>stream\n`;
  return Buffer.concat([Buffer.from(head), data, Buffer.from(`\nendstream endobj${end}`)]);
}

test("ends the conversion of a PDF that decompresses without end", async () => {
  expect(await fetchPage("application/pdf", createPdfBomb())).toMatchObject({ error: { code: "too_large" } });
});

test("refuses other types, and reports the status of an error", async () => {
  expect(await fetchPage("image/png", "x")).toMatchObject({ error: { code: "unsupported_content" } });
  const host = await servePages({});
  const qm = await openWeb({ allowHosts: [host] });
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
  const polite = await openWeb({ allowHosts: [host] });
  for (const path of ["/secret", "/moved"])
    expect(await polite.invoke("web__fetch", { url: `http://${host}${path}` })).toMatchObject({
      error: { code: "address_refused" },
    });
  expect(await polite.invoke("web__fetch", { url: `http://${host}/open` })).toMatchObject({
    data: { content: "page" },
  });
  expect(seen).toEqual(["/robots.txt", "/moved", "/open"]);

  const ignoring = await openWeb({ allowHosts: [host], respectRobots: false });
  const outcome = await ignoring.invoke("web__fetch", { url: `http://${host}/secret` });
  expect(outcome).toMatchObject({ data: { content: "page" } });
});

test("refuses a page if the robots.txt cannot be read", async () => {
  const host = await startServer((request, response) => {
    if (request.url === "/robots.txt") return void response.writeHead(503).end();
    response.setHeader("Content-Type", "text/plain").end("page");
  });
  const qm = await openWeb({ allowHosts: [host] });

  expect(await qm.invoke("web__fetch", { url: `http://${host}/` })).toMatchObject({
    error: { code: "address_refused" },
  });
});

test("sends its name, and never a cookie", async () => {
  const seen: unknown[] = [];
  const host = await startServer((request, response) => {
    seen.push([request.url, request.headers["user-agent"], request.headers.cookie, request.headers.referer]);
    response.setHeader("Set-Cookie", "a=b; Path=/").setHeader("Content-Type", "text/plain");
    if (request.url === "/moved") response.writeHead(302, { Location: "/page" });
    response.end();
  });
  const qm = await openWeb({ allowHosts: [host] });

  await qm.invoke("web__fetch", { url: `http://${host}/moved` });

  expect(seen).toEqual(
    ["/robots.txt", "/moved", "/page"].map((path) => [path, "Quartermaster/1", undefined, undefined]),
  );
});

test("uses no proxy of the environment", async () => {
  let asked = 0;
  const proxy = await startServer((_, response) => {
    asked++;
    response.end();
  });
  for (const name of ["http_proxy", "HTTP_PROXY", "all_proxy"]) vi.stubEnv(name, `http://${proxy}`);
  onTestFinished(() => void vi.unstubAllEnvs());

  expect(await fetchPage("text/plain", "direct")).toMatchObject({ data: { content: "direct" } });
  expect(asked).toBe(0);
});

test("ends a fetch and a conversion when the caller cancels", async () => {
  const cancelling = new AbortController();
  const host = await startServer((request, response) => {
    if (request.url === "/robots.txt") return void response.writeHead(404).end();
    response.setHeader("Content-Type", "application/pdf");
    // The conversion takes seconds, so it has begun and not ended when the call is cancelled.
    response.end(createPdfBomb(), () => setImmediate(() => cancelling.abort()));
  });
  const qm = await openWeb({ allowHosts: [host] });

  const outcome = await qm.invoke("web__fetch", { url: `http://${host}/` }, { signal: cancelling.signal });

  expect(outcome).toMatchObject({ error: { code: "cancelled" } });
});

test("refuses a private address", async () => {
  const host = await servePages({ "/page": ["text/plain", "inner"] });
  const qm = await openWeb();

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
  const qm = await openWeb({ search: { kind, read: () => ({ url: `http://${host}/`, token: "t" }) } });

  const outcome = await qm.invoke("web__search", { query: "heron", limit: 3 });

  expect(outcome).toMatchObject({ data: { results: [{ ...hit, snippet: "A bird." }] } });
  expect(seen).toEqual([kind === "brave" ? ["/?count=3&q=heron", "t"] : ["/search?format=json&q=heron", "Bearer t"]]);
});

test("shows that searching is unavailable, and why", async () => {
  const qm = await openWeb();
  const reason = expect.stringContaining("providers.web.search");

  const unavailable = { state: "unavailable", state_reason: reason };

  expect(qm.list({ filter: "web__search" }).items).toMatchObject([unavailable]);
  expect(qm.describe("web__search")).toMatchObject({ metadata: unavailable });
  expect(await qm.invoke("web__search", { query: "heron" })).toMatchObject({ error: { error: reason } });
});
