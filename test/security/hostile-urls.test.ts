import { createSocket } from "node:dgram";
import { Resolver } from "node:dns/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { createQuartermaster, type Quartermaster } from "../../src/app/quartermaster.ts";
import { createGuardedFetch } from "../../src/net/guarded-fetch.ts";
import { createHostGuard } from "../../src/net/host-guard.ts";
import { createTestWebProvider } from "../../src/providers/web/testing.ts";
import type { WebProviderOptions } from "../../src/providers/web/web-provider.ts";
import { startServer } from "../support/local-server.ts";

/** It answers on every address of this machine, and must get no connection. */
let connections = 0;
let port = 0;
const inner = createServer((_, response) => response.setHeader("Content-Type", "text/plain").end("inner"));
inner.on("connection", () => connections++);
beforeAll(async () => {
  await new Promise<void>((resolve) => inner.listen(0, resolve));
  port = (inner.address() as AddressInfo).port;
});
afterAll(() => inner.close());

const open = (options: Partial<WebProviderOptions> = {}): Promise<Quartermaster> =>
  createQuartermaster({ providers: [createTestWebProvider(options)] });

/** The outcome, which must have caused no connection to the server. */
async function fetchPage(options: Partial<WebProviderOptions>, url: string) {
  const qm = await open(options);
  onTestFinished(() => qm.close());
  return invokeFetch(qm, url);
}

async function invokeFetch(qm: Quartermaster, url: string) {
  const before = connections;
  const outcome = await qm.invoke("web__fetch", { url: url.replaceAll("PORT", `${port}`) });
  expect(connections).toBe(before);
  return outcome;
}

const refused = { status: "failed", error: { code: "address_refused" } };

test("the server answers if its address is allowed", async () => {
  const qm = await open({ allowHosts: [`127.0.0.1:${port}`] });
  onTestFinished(() => qm.close());

  expect(await qm.invoke("web__fetch", { url: `http://127.0.0.1:${port}/` })).toMatchObject({
    data: { content: "inner" },
  });
});

/** PORT is the port of the server. */
const hostile = `
http://127.0.0.1:PORT/ http://127.1:PORT/ http://127.0.1:PORT/ http://2130706433:PORT/ http://0x7f000001:PORT/
http://0x7f.0.0.1:PORT/ http://0177.0.0.1:PORT/ http://017700000001:PORT/ http://0x7f.1:PORT/ http://127.255.255.254:PORT/
http://127.0.0.1.:PORT/ http://%31%32%37.0.0.1:PORT/ http://①②⑦.0.0.1:PORT/ http://127。0。0。1:PORT/ http://0:PORT/
http://0.0.0.0:PORT/ http://localhost:PORT/ http://LOCALHOST:PORT/ http://localhost.:PORT/ http://[::1]:PORT/
http://[0:0:0:0:0:0:0:1]:PORT/ http://[::]:PORT/ http://[::ffff:127.0.0.1]:PORT/ http://[::ffff:7f00:1]:PORT/
http://[::127.0.0.1]:PORT/ http://[64:ff9b::127.0.0.1]/ http://[64:ff9b::a9fe:a9fe]/ http://[64:ff9b:1::7f00:1]/
http://[2002:7f00:1::]/ http://[2002:a9fe:a9fe::1]/ http://[2001:0:7f00:1::]/ http://[2001:db8::1]/ http://[3fff::1]/
http://[fe80::1]/ http://[fec0::1]/ http://[fc00::1]/ http://[fd00:ec2::254]/ http://[ff02::1]/ http://[100::1]/ http://[5f00::1]/
http://10.0.0.1/ http://10.255.255.255/ http://172.16.0.1/ http://172.31.255.254/ http://192.168.0.1/ http://192.168.1/
http://3232235777/ http://0xc0a80101/ http://0300.0250.1.1/ http://169.254.169.254/latest/meta-data/ http://2852039166/
http://0xa9fea9fe/ http://0251.0376.0251.0376/ http://[::ffff:169.254.169.254]/ http://168.63.129.16/ http://100.64.0.1/
http://100.100.100.200/ http://192.0.0.192/ http://192.0.2.1/ http://198.51.100.1/ http://203.0.113.1/ http://198.18.0.1/
http://198.19.255.255/ http://192.88.99.1/ http://224.0.0.1/ http://239.255.255.250/ http://240.0.0.1/ http://255.255.255.255/
file:///etc/passwd ftp://127.0.0.1:PORT/
gopher://127.0.0.1:PORT/_x data:text/html,x javascript:1 ws://127.0.0.1:PORT/ unix:/run/docker.sock
blob:http://127.0.0.1:PORT/x view-source:http://127.0.0.1:PORT/ https://127.0.0.1:PORT/ HTTP:\\\\127.0.0.1:PORT\\x
http:127.0.0.1:PORT http:/127.0.0.1:PORT/ http:////127.0.0.1:PORT/ http://１２７．０．０．１:PORT/ http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ:PORT/
http://loc\u00adalhost:PORT/ http://127.0.0.1:PORT/@93.184.215.14/ http://[::ffff:0:127.0.0.1]/ http://[fe80::5efe:127.0.0.1]/
http://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/ http://[64:ff9b::10.0.0.1]/ http://[2002:c0a8:101::]/ http://[::ffff:a00:1]/
`
  .trim()
  .split(/\s+/);

test("the list has at least 60 addresses", () => {
  expect(new Set(hostile).size).toBeGreaterThanOrEqual(60);
});

describe("web__fetch", () => {
  let qm: Quartermaster;
  beforeAll(async () => {
    qm = await open();
  });
  afterAll(() => qm.close());

  test.each(hostile)("refuses %s before it connects", async (url) => {
    expect(await invokeFetch(qm, url)).toMatchObject(refused);
  });

  test.each([
    "http://[fe80::1%25lo]/",
    "http://[::1%25lo]/",
    "http://127.0.0.1.5.6/",
    "http://0x100000000/",
    "http:///",
    "http://user:secret@127.0.0.1:PORT/",
    "http://example.com@127.0.0.1:PORT/",
    "http://",
    "//127.0.0.1:PORT/",
    "127.0.0.1:PORT",
    "http://127.0.0.1:99999/",
  ])("does not accept %s as a URL", async (url) => {
    expect(await invokeFetch(qm, url)).toMatchObject({
      status: "failed",
      error: { code: expect.stringMatching(/^(invalid_arguments|address_refused)$/) },
    });
  });
});

/** A client of a guard whose only allowed host leads to the server. */
function openAllowed(allowHosts: string[]) {
  const lookup = async () => [{ address: "127.0.0.1", family: 4 as const }];
  const guarded = createGuardedFetch({ allowHosts: allowHosts.map((host) => host.replace("PORT", `${port}`)), lookup });
  onTestFinished(() => guarded.close());
  const { signal } = new AbortController();
  return (url: string) =>
    guarded.fetch({ url: url.replace("PORT", `${port}`), maxBytes: 100, maxRedirects: 1, timeoutMs: 20_000, signal });
}

test.each([
  "http://user:secret@inner.example:PORT/",
  "http://user@inner.example:PORT/",
  "http://:secret@inner.example:PORT/",
])("refuses the user of %s also for an allowed host, and does not repeat it", async (url) => {
  const before = connections;

  const failed = openAllowed(["inner.example"])(url);

  await expect(failed).rejects.toMatchObject({ code: "address_refused" });
  await expect(failed).rejects.not.toThrow(/user:|user@|secret/);
  expect(connections).toBe(before);
});

test.each([
  ["inner.example:PORT", "http://inner.example.:PORT/", true],
  ["inner.example:PORT", "http://INNER.example:PORT/", true],
  ["inner.example:PORT", "http://not-inner.example:PORT/", false],
  ["inner.example:PORT", "http://inner.example.evil.example:PORT/", false],
  ["inner.example:80", "http://inner.example:PORT/", false],
  ["[::1]:PORT", "http://127.0.0.1:PORT/", false],
])("with %s allowed, %s is fetched: %s", async (allowed, url, isAllowed) => {
  const fetched = openAllowed([allowed])(url);

  if (isAllowed) expect(await fetched).toMatchObject({ status: 200 });
  else await expect(fetched).rejects.toMatchObject({ code: "address_refused" });
});

test("an allowed host with the port of the protocol needs no port in the URL", async () => {
  // Port 80 may be closed, or belong to another program.
  const ended = await openAllowed(["inner.example:80"])("http://inner.example/").catch((thrown: unknown) => thrown);

  expect(ended).not.toMatchObject({ code: "address_refused" });
});

const redirectTargets = [
  "http://127.0.0.1:PORT/",
  "http://2130706433:PORT/",
  "//localhost:PORT/",
  "\\\\127.1:PORT\\",
  "http://[::1]:PORT/",
  "http://[::ffff:127.0.0.1]:PORT/",
  "http://169.254.169.254/",
  "file:///etc/passwd",
  "data:text/plain,x",
  "http://a:b@127.0.0.1:PORT/",
];

test.each(redirectTargets)("refuses a redirect of an allowed server to %s", async (target) => {
  const host = await startServer((_, response) =>
    response.writeHead(302, { Location: target.replace("PORT", `${port}`) }).end(),
  );

  expect(await fetchPage({ allowHosts: [host], respectRobots: false }, `http://${host}/`)).toMatchObject(refused);
});

test("refuses the last one of several redirects", async () => {
  const seen: unknown[] = [];
  const host = await startServer((request, response) => {
    seen.push(request.url);
    const to = request.url === "/3" ? `http://127.1:${port}/` : `/${Number(request.url?.slice(1)) + 1}`;
    response.writeHead(307, { Location: to }).end();
  });

  expect(await fetchPage({ allowHosts: [host], respectRobots: false }, `http://${host}/1`)).toMatchObject(refused);
  expect(seen).toEqual(["/1", "/2", "/3"]);
});

test("refuses a robots.txt that redirects to a private address", async () => {
  const seen: unknown[] = [];
  const host = await startServer((request, response) => {
    seen.push(request.url);
    response.writeHead(302, { Location: `http://127.1:${port}/` }).end();
  });

  expect(await fetchPage({ allowHosts: [host] }, `http://${host}/`)).toMatchObject(refused);
  expect(seen).toEqual(["/robots.txt"]);
});

test("follows no address inside a page", async () => {
  const target = `http://127.0.0.1:${port}/`;
  const host = await startServer((_, response) => {
    response.setHeader("Refresh", `0;url=${target}`).setHeader("Link", `<${target}>; rel=preload`);
    response.setHeader("Content-Type", "text/html");
    response.end(`<html><head><meta http-equiv=refresh content="0;url=${target}"><base href="${target}">
      <link rel=stylesheet href="${target}"><script src="${target}"></script></head>
      <body><img src="${target}"><iframe src="${target}"></iframe><p>text</p></body></html>`);
  });

  expect(await fetchPage({ allowHosts: [host] }, `http://${host}/`)).toMatchObject({ status: "done" });
});

const PUBLIC = "93.184.215.14";

test("refuses a name that has a private address the second time, without saying which", async () => {
  const answers = [PUBLIC, "127.0.0.1"];
  const lookup = async () => [{ address: answers.shift() ?? "127.0.0.1", family: 4 as const }];

  const outcome = await fetchPage({ lookup, respectRobots: false }, "http://rebinding.example:PORT/");

  expect(outcome).toMatchObject(refused);
  expect(JSON.stringify(outcome)).not.toContain("127.0.0.1");
  expect(answers).toEqual([]);
});

test.each([
  ["10.0.0.1", 4],
  ["::1", 6],
  ["::ffff:127.0.0.1", 6],
  ["2606:2800:21f:cb07::1%lo", 6],
  ["not an address", 4],
] as const)("refuses a name with the private address %s among public ones", async (address, family) => {
  const lookup = async () => [
    { address: PUBLIC, family: 4 as const },
    { address, family },
  ];

  expect(await fetchPage({ lookup }, "http://mixed.example:PORT/")).toMatchObject(refused);
});

/** A DNS server that answers each question for an address with the next one of the list. */
async function startDns(answers: string[]): Promise<WebProviderOptions["lookup"]> {
  const dns = createSocket("udp4").on("message", (query, { port: from }) => {
    const question = query.subarray(12, query.indexOf(0, 12) + 5);
    const header = Buffer.concat([query.subarray(0, 2), Buffer.from([0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0])]);
    const address = (answers.shift() ?? "127.0.0.1").split(".").map(Number);
    const answer = Buffer.from([0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, ...address]);
    dns.send(Buffer.concat([header, question, answer]), from, "127.0.0.1");
  });
  await new Promise<void>((resolve) => dns.bind(0, "127.0.0.1", resolve));
  onTestFinished(() => void dns.close());
  const resolver = new Resolver();
  resolver.setServers([`127.0.0.1:${dns.address().port}`]);
  return async (host) => (await resolver.resolve4(host)).map((address) => ({ address, family: 4 }));
}

test.each([true, false])("refuses a name that a real DNS server rebinds, with robots.txt %s", async (respectRobots) => {
  const answers = [PUBLIC, "127.0.0.1"];
  const lookup = await startDns(answers);

  expect(await fetchPage({ lookup, respectRobots }, "http://rebinding.example:PORT/")).toMatchObject(refused);
  expect(answers).toEqual([]);
});

test("refuses a redirect to a name that a real DNS server rebinds", async () => {
  const host = await startServer((_, response) =>
    response.writeHead(302, { Location: `http://rebinding.example:${port}/` }).end(),
  );
  const answers = [PUBLIC, "127.0.0.1"];
  const lookup = await startDns(answers);

  const outcome = await fetchPage({ lookup, allowHosts: [host], respectRobots: false }, `http://${host}/`);

  expect(outcome).toMatchObject(refused);
  expect(answers).toEqual([]);
});

test("ends a connection that has reached another address than the one that was checked", async () => {
  const { buildConnector } = await import("undici");
  const guard = createHostGuard([], async () => [{ address: PUBLIC, family: 4 }]);
  const connect = guard.guard(() => (options, done) => buildConnector({})({ ...options, hostname: "127.0.0.1" }, done));
  const failure = await new Promise((resolve) =>
    connect({ hostname: "public.example", protocol: "http:", port: `${port}` }, (...[thrown]) => resolve(thrown)),
  );

  expect(failure).toMatchObject({ code: "address_refused" });
});

test.each(["127.0.0.1", "::1", "::ffff:127.0.0.1"])("does not connect to %s", async (hostname) => {
  const guard = createHostGuard([], () => Promise.reject(new Error("an address is not looked up")));
  let connected = 0;
  const connect = guard.guard(() => () => void connected++);
  const failure = await new Promise((resolve) =>
    connect({ hostname, protocol: "http:", port: `${port}` }, (...[thrown]) => resolve(thrown)),
  );

  expect(failure).toMatchObject({ code: "address_refused" });
  expect(connected).toBe(0);
});
