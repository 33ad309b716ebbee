import type { RequestListener } from "node:http";
import { expect, test } from "vitest";
import { startServer } from "../../../test/support/local-server.ts";
import type { SearchEndpoint } from "./search-web.ts";
import { openWeb } from "./testing.ts";

const TOKEN = "token-0123456789";

async function search(kind: SearchEndpoint["kind"], answer: RequestListener) {
  const host = await startServer(answer);
  const qm = await openWeb({ search: { kind, read: () => ({ url: `http://${host}/`, token: TOKEN }) } });
  const outcome = await qm.invoke("web__search", { query: "heron", limit: 2 });
  expect(JSON.stringify([outcome, await qm.ledger.read({})])).not.toContain(TOKEN);
  return outcome;
}

const searchJson = (kind: SearchEndpoint["kind"], answer: unknown) =>
  search(kind, (_, response) => response.end(JSON.stringify(answer)));

const url = "https://birds.example/";

test("reads titles and snippets as plain text", async () => {
  const result = {
    url,
    title: "Tom &amp; Jerry&#x27;s <b>heron</b>",
    content: "1 &lt; 2 &#8211; &unknown; &#99999999;",
  };

  expect(await searchJson("searxng", { results: [result] })).toMatchObject({
    data: { results: [{ url, title: "Tom & Jerry's heron", snippet: "1 < 2 – &unknown; &#99999999;" }] },
  });
});

test("takes at most as many results as asked for, without those that are none", async () => {
  const wrong = [null, 1, "x", {}, { url: 1 }, { url: "javascript:1" }, { url: "file:///etc/passwd" }];
  const right = [1, 2, 3].map((page) => ({ url: `${url}${page}`, title: 5, content: null }));

  expect(await searchJson("searxng", { results: [...wrong, ...right] })).toMatchObject({
    data: { results: [1, 2].map((page) => ({ url: `${url}${page}`, title: "", snippet: "" })) },
  });
});

test.each([
  ["searxng", "<!doctype html>"],
  ["searxng", "[]"],
  ["searxng", '{"results":{"length":1}}'],
  ["brave", '{"results":[]}'],
  ["brave", '{"type":"search","web":[]}'],
  ["brave", `{"type":"search","padding":"${"x".repeat(3_000_000)}"}`],
] as const)("says that an engine does not answer like %s", async (kind, text) => {
  expect(await search(kind, (_, response) => response.end(text))).toMatchObject({
    error: { code: "action_failed", error: `the search engine did not answer like ${kind}` },
  });
});

test("finds nothing where Brave leaves the pages out", async () => {
  expect(await searchJson("brave", { type: "search", query: {} })).toMatchObject({ data: { results: [] } });
});

test.each([
  [401, "{}", "needs_login"],
  [403, "JSON is not switched on", "needs_login"],
  [422, '{"error":{"code":"SUBSCRIPTION_TOKEN_INVALID"}}', "needs_login"],
  [422, '{"error":{"code":"VALIDATION"}}', "action_failed"],
  [429, "{}", "action_failed"],
  [500, TOKEN, "action_failed"],
])("reports the status %i with %s as %s", async (status, text, code) => {
  expect(await search("brave", (_, response) => response.writeHead(status).end(text))).toMatchObject({
    error: { code, error: expect.stringContaining(`${status}`), hint: expect.stringContaining("providers.web.search") },
  });
});

test("does not follow a redirect of the engine", async () => {
  let connections = 0;
  const other = await startServer((_, response) => {
    connections++;
    response.end();
  });

  const outcome = await search("searxng", (_, response) => {
    response.writeHead(302, { Location: `http://${other}/` }).end();
  });

  expect(outcome).toMatchObject({ error: { code: "action_failed", error: expect.stringContaining("302") } });
  expect(connections).toBe(0);
});

test("does not tell the address of an engine that cannot be reached", async () => {
  const outcome = await search("searxng", (_, response) => response.destroy());

  expect(outcome).toMatchObject({ error: { error: "the search engine cannot be reached" } });
  expect(JSON.stringify(outcome)).not.toContain("127.0.0.1");
});

test.each(["http://user:secret@search.example/", "ftp://search.example/", "search.example"])(
  "does not accept %s as an engine",
  async (address) => {
    const qm = await openWeb({ search: { kind: "searxng", read: () => ({ url: address }) } });

    const outcome = await qm.invoke("web__search", { query: "heron" });

    expect(outcome).toMatchObject({ error: { code: "invalid_config" } });
    expect(JSON.stringify(outcome)).not.toContain("secret");
  },
);
