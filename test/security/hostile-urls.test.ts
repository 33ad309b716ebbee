import { createSocket } from "node:dgram";
import { Resolver } from "node:dns/promises";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { createGuardedFetch, type GuardOptions } from "../../src/net/guarded-fetch.ts";
import { createHostGuard } from "../../src/net/host-guard.ts";

let requests = 0;
let port = 0;
const inner = createServer((_, response) => {
  requests++;
  response.end("inner");
});
beforeAll(async () => {
  await new Promise<void>((resolve) => inner.listen(0, "127.0.0.1", resolve));
  port = (inner.address() as AddressInfo).port;
});
afterAll(() => inner.close());

function open(options: GuardOptions = {}) {
  const guarded = createGuardedFetch(options);
  onTestFinished(() => guarded.close());
  const limits = { maxBytes: 1000, maxRedirects: 5, timeoutMs: 10_000 };
  return (url: string) => guarded.fetch({ url, ...limits, signal: new AbortController().signal });
}

/** PORT is the port of a server on loopback that must get no request. */
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
http://user:secret@127.0.0.1:PORT/ http://example.com@127.0.0.1:PORT/ file:///etc/passwd ftp://127.0.0.1:PORT/
gopher://127.0.0.1:PORT/_x data:text/html,x javascript:1 ws://127.0.0.1:PORT/ unix:/run/docker.sock
`
  .trim()
  .split(/\s+/);

test("the list has at least 60 addresses", () => {
  expect(new Set(hostile).size).toBeGreaterThanOrEqual(60);
});

test.each(hostile)("refuses %s before it connects", async (url) => {
  const before = requests;

  await expect(open()(url.replace("PORT", `${port}`))).rejects.toMatchObject({ code: "address_refused" });
  expect(requests).toBe(before);
});

test.each(["http://[fe80::1%25lo]/", "http://[::1%25lo]/", "http://127.0.0.1.5.6/", "http://0x100000000/", "http:///"])(
  "does not accept %s as a URL",
  async (url) => {
    await expect(open()(url)).rejects.toMatchObject({
      code: expect.stringMatching(/^(invalid_arguments|address_refused)$/),
    });
  },
);

async function startServer(answer: RequestListener): Promise<string> {
  const server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test.each([
  "http://127.0.0.1:PORT/",
  "http://2130706433:PORT/",
  "//localhost:PORT/",
  "http://[::ffff:127.0.0.1]:PORT/",
  "http://169.254.169.254/",
  "file:///etc/passwd",
  "http://a:b@127.0.0.1:PORT/",
])("refuses a redirect of an allowed server to %s", async (target) => {
  const host = await startServer((_, response) =>
    response.writeHead(302, { Location: target.replace("PORT", `${port}`) }).end(),
  );
  const before = requests;

  await expect(open({ allowHosts: [host] })(`http://${host}/`)).rejects.toMatchObject({ code: "address_refused" });
  expect(requests).toBe(before);
});

const PUBLIC = "93.184.215.14";

test("refuses a name that has a private address the second time, without saying which", async () => {
  const answers = [PUBLIC, "127.0.0.1"];
  const lookup = async () => [{ address: answers.shift() ?? "127.0.0.1", family: 4 as const }];
  const before = requests;

  const refused = open({ lookup })(`http://rebinding.example:${port}/`);

  await expect(refused).rejects.toMatchObject({ code: "address_refused" });
  await expect(refused).rejects.not.toThrow("127.0.0.1");
  expect(answers).toEqual([]);
  expect(requests).toBe(before);
});

test("refuses a name with one private address among public ones", async () => {
  const lookup = async () => [PUBLIC, "10.0.0.1"].map((address) => ({ address, family: 4 as const }));

  await expect(open({ lookup })("http://mixed.example/")).rejects.toMatchObject({ code: "address_refused" });
});

test("refuses a name that a real DNS server rebinds", async () => {
  const answers = [PUBLIC, "127.0.0.1"];
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
  const lookup = async (host: string) =>
    (await resolver.resolve4(host)).map((address) => ({ address, family: 4 as const }));
  const before = requests;

  await expect(open({ lookup })(`http://rebinding.example:${port}/`)).rejects.toMatchObject({
    code: "address_refused",
  });
  expect(answers).toEqual([]);
  expect(requests).toBe(before);
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
