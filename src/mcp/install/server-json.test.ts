import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { parseRegistryEntry, parseServerJson } from "./server-json.ts";

const folder = new URL("../../../test/support/registry/fixtures/", import.meta.url);
const fixture = (file: string) => JSON.parse(readFileSync(new URL(`${file}.json`, folder), "utf8")) as object[];

function serverIn(raw: unknown) {
  const parsed = parseServerJson(raw);
  if (!parsed.ok) throw new Error(parsed.problem);
  return parsed.server;
}

describe("server.json", () => {
  test.each(readdirSync(folder))("%s is read without a problem", (file) => {
    for (const raw of fixture(file.replace(".json", ""))) expect(serverIn(raw).problems).toEqual([]);
  });

  test("is read in snake_case, with the names that older entries had", () => {
    const server = serverIn(fixture("snake-case")[0]);

    expect(server.version).toBe("1.0.2");
    expect(server.packages[0]).toMatchObject({
      registryType: "npm",
      registryBaseUrl: "https://registry.npmjs.org",
      runtimeHint: "npx",
      transport: { type: "stdio" },
      packageArguments: [{ type: "positional", valueHint: "target_dir", isRequired: true, isRepeated: true }],
      environmentVariables: [{ name: "SEARCH_API_KEY", isRequired: true, isSecret: true }],
    });
    expect(server.remotes[0]).toMatchObject({ type: "sse" });
    const ancient = { name: "a/b", version: "1", packages: [{ registry_name: "npm", name: "old", version: "1.0.0" }] };
    expect(serverIn(ancient).packages[0]).toMatchObject({ registryType: "npm", identifier: "old" });
  });

  test("keeps the names of variables as they are written", () => {
    const server = serverIn(fixture("tenant")[0]);

    expect(Object.keys(server.remotes[0]?.variables ?? {})).toEqual(["tenant_id", "region"]);
  });

  test("takes numbers and switches for text, and nothing for null", () => {
    const named = { type: "named", name: "--port", default: 8080, choices: [1, true], description: null };
    const pkg = { registryType: "npm", identifier: "x", packageArguments: [named] };

    const [argument] = serverIn({ name: "a/b", version: "1", packages: [pkg] }).packages[0]?.packageArguments ?? [];

    expect(argument).toMatchObject({ default: "8080", choices: ["1", "true"] });
  });

  test("leaves out a broken package, and reports it", () => {
    const broken = { registryType: "npm", identifier: "x", environmentVariables: [{ isSecret: true }] };
    const good = { registryType: "npm", identifier: "y" };

    const server = serverIn({ name: "a/b", version: "1", packages: [broken, good], remotes: [7] });

    expect(server.packages.map(({ identifier }) => identifier)).toEqual(["y"]);
    expect(server.problems).toEqual([
      expect.stringMatching(/^packages\[0\]: environmentVariables\.0\.name/),
      expect.stringMatching(/^remotes\[0\]/),
    ]);
  });

  test("is refused without a name or version, or if it is not an object", () => {
    for (const raw of [null, [], "x", {}, { name: "a/b" }, { version: "1" }, { name: "", version: "1" }])
      expect(parseServerJson(raw).ok).toBe(false);
  });

  test("does not change the prototype of objects", () => {
    const raw = JSON.parse(
      '{"name":"a/b","version":"1","__proto__":{"polluted":1},"packages":[{"__proto__":{"a":1}}]}',
    );

    parseServerJson(raw);

    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
  });
});

describe("an entry of a registry", () => {
  const server = { name: "a/b", version: "1.0.0", description: "", extra: { kept: true } };
  const meta = (official: object) => ({ "io.modelcontextprotocol.registry/official": official });

  test("has its status from the registry, in either spelling, or from old entries themselves", () => {
    const statusOf = (raw: object) => {
      const parsed = parseRegistryEntry(raw);
      return parsed.ok ? parsed.entry.status : undefined;
    };

    expect(statusOf({ server, _meta: meta({ status: "deprecated" }) })).toBe("deprecated");
    expect(statusOf({ ...server, status: "deleted" })).toBe("deleted");
    expect(statusOf({ server, _meta: 7 })).toBe("active");
    expect(parseRegistryEntry({ server, _meta: meta({ updated_at: "2026-01-01T00:00:00Z" }) })).toMatchObject({
      entry: { updatedAt: "2026-01-01T00:00:00Z" },
    });
  });

  test("is kept unchanged", () => {
    const raw = { server, _meta: { "com.example/own": [1, 2] } };

    expect(parseRegistryEntry(raw)).toMatchObject({ ok: true, entry: { raw } });
  });
});
