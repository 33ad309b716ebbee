import { expect, test } from "vitest";
import { startServer } from "../../../test/support/local-server.ts";
import { createPdf, fetchPage, openWeb, servePages } from "./testing.ts";

/** The Markdown of a page, with HOST for the server. */
async function readMarkdown(html: string, options: Parameters<typeof fetchPage>[2] = {}): Promise<string> {
  const outcome = await fetchPage("text/html", html, options);
  expect(outcome).toMatchObject({ status: "done" });
  const { content } = (outcome as unknown as { data: { content: string } }).data;
  return content.replaceAll(/127\.0\.0\.1:\d+/g, "HOST");
}

const article = (html: string): string =>
  `<!doctype html><title>T</title><article><p>${"Herons stand in shallow water, and wait for fish. ".repeat(6)}</p>${html}</article>`;

/** Only what follows the paragraph that makes it an article. */
const readPart = async (html: string): Promise<string> =>
  (await readMarkdown(article(html))).split("\n\n").slice(1).join("\n\n");

test.each([
  [
    "Sphinx",
    `<div class="highlight-python3 notranslate"><div class="highlight"><pre><span></span><span class="kn">import</span> birds
<span class="gp">&gt;&gt;&gt; </span>birds.watch()
</pre></div></div>`,
    "```python3\nimport birds\n>>> birds.watch()\n```",
  ],
  [
    "GitHub",
    `<div class="highlight highlight-source-ts"><pre><span class="pl-k">let</span> a;</pre></div>`,
    "```ts\nlet a;\n```",
  ],
  [
    "Docusaurus",
    `<pre class="prism-code language-bash"><code><span class="line">npm install<br></span><span class="line">npm test<br></span></code></pre>`,
    "```bash\nnpm install\nnpm test\n```",
  ],
  [
    "a site with an element for each line",
    `<pre data-language="js"><code class="lang-js"><div class="l"><div>a();</div></div><div class="l"><div>b();</div></div></code></pre>`,
    "```js\na();\nb();\n```",
  ],
  [
    "a table with line numbers",
    `<table><tr><td class="linenos"><pre>1\n2</pre></td><td class="code"><div class="highlight-default"><pre>a\nb</pre></div></td></tr></table>`,
    "```\na\nb\n```",
  ],
])("keeps the lines and the language of code as in %s", async (_site, html, markdown) => {
  expect(await readPart(html)).toBe(markdown);
});

test("keeps tables readable", async () => {
  const data = `<table><caption>Birds</caption><thead><tr><th>Name</th><th>Legs | feet</th></tr></thead>
    <tr><td><p>Heron</p></td><td><ul><li>left</li><li>right</li></ul></td></tr>
    <tr><td>Duck</td><td><table><tr><td>inner</td><td>part</td></tr><tr><td>and</td><td>more</td></tr></table></td></tr></table>`;
  const plain = "<table><tr><td>a</td><td>b</td></tr><tr><td>c</td><td>d</td></tr></table>";
  const row = "<tr><td><h3>One</h3><p>first</p></td><td><p>second</p></td></tr>";

  expect(await readPart(data)).toBe(
    "Birds\n\n| Name | Legs \\| feet |\n| --- | --- |\n| Heron | - left - right |\n| Duck | inner part and more |",
  );
  expect(await readPart(plain)).toBe("| a | b |\n| --- | --- |\n| c | d |");
  expect(await readPart(`<table>${row}</table><table></table>`)).toBe("### One\n\nfirst\n\nsecond");
  expect(await readPart(`<table role="presentation">${row}<tr><td>a</td><td>b</td></tr></table>`)).toBe(
    "### One\n\nfirst\n\nsecond\n\na\n\nb",
  );
});

test("makes addresses absolute and leaves out links that lead nowhere", async () => {
  const html = `<h2><a class="header" href="#use">Use</a><a class="headerlink" href="#use">¶</a></h2>
    <p><a href="./near">near</a> <a href="../up?q=1#x">up</a> <a href="//cdn.example/x">cdn</a> <a href="#part">part</a>
    <a href="javascript:alert(1)">bad</a></p><a href="/card"><div>A</div><div>card</div></a><p><a href="/none"> </a></p>
    <p><img src="a.png" alt="A"> <img src="data:image/gif;base64,R0lGOD" data-src="/lazy.png" alt="Lazy"></p>`;

  expect(await readPart(html)).toBe(
    [
      "## Use",
      "[near](http://HOST/guide/near) [up](http://HOST/up?q=1#x) [cdn](http://cdn.example/x) [part](http://HOST/guide/page#part) bad",
      "[A card](http://HOST/card)",
      "![A](http://HOST/guide/a.png) ![Lazy](http://HOST/lazy.png)",
    ].join("\n\n"),
  );
});

test("keeps terms, powers and nested lists apart", async () => {
  const html = `<dl><dt id="w"><code>watch(place)</code><a href="#w">¶</a></dt><dd><p>Watch a <i>place</i>.</p></dd></dl>
    <p>10<sup>6</sup> birds, H<sub>2</sub>O, <del>old</del></p><ol start="3"><li>third<ul><li>inner</li></ul></li></ol>`;

  expect(await readPart(html)).toBe(
    "**`watch(place)`**\n\nWatch a _place_.\n\n10<sup>6</sup> birds, H<sub>2</sub>O, ~~old~~\n\n3.  third\n    -   inner",
  );
});

test("drops what is not shown, also when a script holds tags", async () => {
  const html = `<!-- <script> --><script>const a = "<svg> <!-- <p>no</p>";</script><svg><title>no</title></svg><style>p{}</style>
    <p>shown</p><noscript>no</noscript><svg>no</svg>`;

  expect(await readPart(html)).toBe("shown");
});

test("converts a page with 2,000 shapes and 30,000 elements, and returns the text of one with far more", async () => {
  const shapes = `<svg>${"<path d='M0'/>".repeat(2_000)}</svg>`;
  const items = (count: number) => `<ul>${"<li>an item</li>".repeat(count)}</ul>`;

  expect(await fetchPage("text/html", article(`${shapes}${items(30_000)}`))).toMatchObject({
    data: { content: expect.stringContaining("-   an item\n-   an item") },
  });
  expect(await fetchPage("text/html", article(items(100_000)))).toMatchObject({
    data: { simplified: true, title: "T", content: expect.stringContaining("an item\nan item") },
  });
});

test("cuts a page that is longer as Markdown than it was sent", async () => {
  const outcome = await fetchPage("text/html", `<p>${"_*".repeat(1_000)}</p>`, { maxBytes: 2_500 });

  expect(outcome).toMatchObject({ data: { truncated: true, content: "\\_\\*".repeat(625) } });
});

test.each([
  ["text/html", '<div id="root"></div><script>start()</script>', "Scripts may draw it"],
  ["application/pdf", createPdf(["", ""]), "may be images"],
])("says that a page of the type %s has no text", async (type, body, note) => {
  expect(await fetchPage(type, body)).toMatchObject({ data: { content: "", note: expect.stringContaining(note) } });
});

test.each([
  ["text/html; charset=windows-1252", Buffer.from("<p>\x93caf\xe9\x94 \x80</p>", "latin1"), "“café” €"],
  ["text/html; charset=none", Buffer.from('<meta charset="gb2312"><p>\xd6\xd0\xce\xc4</p>', "latin1"), "中文"],
  ["application/octet-stream", Buffer.from("<!doctype html><p>sniffed"), "sniffed"],
  ["application/octet-stream", createPdf(["sniffed"]), "## Page 1\n\nsniffed"],
])("reads %s", async (type, body, content) => {
  expect(await fetchPage(type, body)).toMatchObject({ data: { content } });
});

test("separates the pages of a PDF", async () => {
  expect(await fetchPage("application/pdf", createPdf(["First page", "Second page"]))).toMatchObject({
    data: { pages: 2, content: "## Page 1\n\nFirst page\n\n## Page 2\n\nSecond page" },
  });
});

test.each([
  [403, "Use another page"],
  [404, "check the address"],
  [429, "Try again later"],
])("says what to do after the status %i", async (status, hint) => {
  const host = await startServer((_, response) => {
    response.writeHead(status, { "Retry-After": "x".repeat(5_000), "Content-Type": "application/json" }).end('{"a":1}');
  });
  const qm = await openWeb({ allowHosts: [host] });

  const { error } = (await qm.invoke("web__fetch", { url: `http://${host}/` })) as unknown as {
    error: Record<string, unknown>;
  };

  expect(error).toMatchObject({
    code: "action_failed",
    status,
    hint: expect.stringContaining(hint),
    excerpt: '{"a":1}',
  });
  expect(error.retry_after).toHaveLength(100);
});

test("reports the status of a redirect without an address", async () => {
  const host = await startServer((_, response) => void response.writeHead(302).end());
  const qm = await openWeb({ allowHosts: [host], respectRobots: false });

  expect(await qm.invoke("web__fetch", { url: `http://${host}/` })).toMatchObject({
    error: { code: "action_failed", status: 302 },
  });
});

test("says that a host is unknown", async () => {
  const lookup = () => Promise.reject(Object.assign(new Error("getaddrinfo ENOTFOUND"), { code: "ENOTFOUND" }));
  const qm = await openWeb({ lookup });

  expect(await qm.invoke("web__fetch", { url: "http://nowhere.example/" })).toMatchObject({
    error: { code: "action_failed", error: expect.stringContaining("host is unknown"), hint: "Check the address." },
  });
});

test("clips a type that is too long", async () => {
  const host = await servePages({ "/page": [`image/${"x".repeat(10_000)}`, "x"] });
  const qm = await openWeb({ allowHosts: [host] });

  const outcome = await qm.invoke("web__fetch", { url: `http://${host}/page` });

  expect(outcome).toMatchObject({ error: { code: "unsupported_content" } });
  expect(JSON.stringify(outcome).length).toBeLessThan(2_000);
});
