import { describe, expect, test } from "vitest";
import { extractSecrets } from "./extract-secrets.ts";
import type { ServerEntry } from "./server-entry.ts";
import { planning } from "./testing.ts";

const { judge } = planning();
const KEY = "abcdefABCDEF0123456789abcdefABCDEF01";

function taken(entry: ServerEntry) {
  return extractSecrets("srv", entry, judge, async (name) => name);
}

describe("a secret that is written out", () => {
  test.each<[string, ServerEntry, ServerEntry, string]>([
    [
      "in a variable by its name",
      { env: { API_TOKEN: "x1" } },
      { env: { API_TOKEN: `\${secret:SRV_API_TOKEN}` } },
      "x1",
    ],
    [
      "in a variable by its end",
      { env: { OPENAI_KEY: "k" } },
      { env: { OPENAI_KEY: `\${secret:SRV_OPENAI_KEY}` } },
      "k",
    ],
    ["in a variable by its shape", { env: { THING: KEY } }, { env: { THING: `\${secret:SRV_THING}` } }, KEY],
    [
      "in a variable with an address",
      { env: { DB: "postgres://me:pw@host/db" } },
      { env: { DB: `postgres://\${secret:SRV_DB}@host/db` } },
      "me:pw",
    ],
    [
      "in a header, after its scheme",
      { url: "https://a.example", headers: { Authorization: "Bearer abc" } },
      { url: "https://a.example", headers: { Authorization: `Bearer \${secret:SRV_AUTHORIZATION}` } },
      "abc",
    ],
    ["behind an option", { args: ["--api-key", "k1"] }, { args: ["--api-key", `\${secret:SRV_API_KEY}`] }, "k1"],
    ["in an option", { args: ["--token=t1"] }, { args: [`--token=\${secret:SRV_TOKEN}`] }, "t1"],
    ["in a variable of docker", { args: ["-e", "A_TOKEN=t"] }, { args: ["-e", `A_TOKEN=\${secret:SRV_A_TOKEN}`] }, "t"],
    ["among arguments by its shape", { args: [KEY] }, { args: [`\${secret:SRV_ARGUMENT}`] }, KEY],
    [
      "in a header among arguments",
      { args: ["--header", "Authorization: Bearer abc123"] },
      { args: ["--header", `Authorization: \${secret:SRV_HEADER}`] },
      "Bearer abc123",
    ],
    [
      "in a query",
      { url: "https://a.example/mcp?key=k1&page=2" },
      { url: `https://a.example/mcp?key=\${secret:SRV_KEY}&page=2` },
      "k1",
    ],
    ["in a path", { url: `https://a.example/${KEY}/mcp` }, { url: `https://a.example/\${secret:SRV_URL}/mcp` }, KEY],
    [
      "in a login",
      { url: "https://a.example", oauth: { client_id: "i", client_secret: "s$${x" } },
      { url: "https://a.example", oauth: { client_id: "i", client_secret: `\${secret:SRV_CLIENT_SECRET}` } },
      "s${x",
    ],
  ])("%s is taken out", async (_, entry, expected, value) => {
    const { entry: clean, secrets } = await taken(entry);

    expect(clean).toEqual(expected);
    expect(secrets.map((secret) => secret.value)).toEqual([value]);
  });
});

test.each<ServerEntry>([
  { env: { API_TOKEN: `\${env:API_TOKEN}`, TOKEN_COUNT: "5", USE_TOKEN: "true", PORT: "8080", MODE: "dev" } },
  { url: "https://a.example", headers: { Authorization: `Bearer \${secret:X}`, Accept: "application/json" } },
  {
    args: ["-y", "@modelcontextprotocol/server-filesystem", "/a/rather/long/path/to/some/folder/of/mine", "--port=80"],
  },
  { args: ["--api-key", `\${env:K}`, `--token=\${secret:T}`, "--token", "--verbose"] },
  { url: `https://a.example/mcp?token=\${env:T}`, oauth: { client_secret: `\${env:S}` } },
])("%j has none", async (entry) => {
  expect(await taken(entry)).toEqual({ entry, secrets: [] });
});
