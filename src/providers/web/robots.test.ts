import { expect, test } from "vitest";
import { startServer } from "../../../test/support/local-server.ts";
import { openWeb } from "./testing.ts";

async function serveRobots(answer: () => { readonly status?: number; readonly text: string }) {
  const seen: string[] = [];
  const host = await startServer((request, response) => {
    seen.push(request.url ?? "");
    response.setHeader("Content-Type", "text/plain");
    if (request.url !== "/robots.txt") return void response.end("page");
    const { status = 200, text } = answer();
    response.writeHead(status).end(text);
  });
  return { host, seen };
}

test.each([
  ["User-agent: *\nDisallow: /", "/a", false],
  ["User-agent: *\nDisallow: /\n\nUser-agent: quartermaster\nDisallow: /b", "/a", true],
  ["User-agent: QuarterMaster/2.0\nDisallow: /a\nAllow: /a/b", "/a/b", true],
  ["User-agent: *\nDisallow: /*.pdf$", "/x/y.pdf", false],
  ["User-agent: *\nDisallow: /*.pdf$", "/x/y.pdf?q=1", true],
  ["User-agent: *\nDisallow: /a%3cb", "/a%3Cb", false],
  ["\ufeffUser-agent: *\r\nDisallow: /a # not this", "/a", false],
  ["User-agent: other\nDisallow: /", "/a", true],
  ["<!doctype html><p>Disallow: /</p>", "/a", true],
  ["User-agent: __proto__\nDisallow: /", "/a", true],
])("%j decides about %s: %s", async (text, path, isAllowed) => {
  const { host } = await serveRobots(() => ({ text }));
  const qm = await openWeb({ allowHosts: [host] });

  const outcome = await qm.invoke("web__fetch", { url: `http://${host}${path}` });

  expect(outcome).toMatchObject(isAllowed ? { status: "done" } : { error: { code: "address_refused" } });
});

test("reads a robots.txt once an hour", async () => {
  let now = 0;
  const { host, seen } = await serveRobots(() => ({ text: "User-agent: *\nDisallow: /a" }));
  const qm = await openWeb({ allowHosts: [host], elapsed: () => now });

  for (const time of [0, 3_599_000, 3_601_000]) {
    now = time;
    await qm.invoke("web__fetch", { url: `http://${host}/b` });
  }

  expect(seen).toEqual(["/robots.txt", "/b", "/b", "/robots.txt", "/b"]);
});

test("does not remember a failure, and allows everything if there is no robots.txt", async () => {
  const statuses = [503, 404];
  const { host, seen } = await serveRobots(() => ({
    status: statuses.shift() ?? 200,
    text: "User-agent: *\nDisallow: /",
  }));
  const qm = await openWeb({ allowHosts: [host] });
  const fetch = () => qm.invoke("web__fetch", { url: `http://${host}/a` });

  expect(await fetch()).toMatchObject({
    error: {
      code: "address_refused",
      error: expect.stringContaining("status 503"),
      hint: expect.stringContaining("later"),
    },
  });
  expect(await fetch()).toMatchObject({ status: "done" });
  expect(seen).toEqual(["/robots.txt", "/robots.txt", "/a"]);
});
