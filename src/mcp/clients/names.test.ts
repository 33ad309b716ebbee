import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { serverName } from "../../config/mcp-schema.ts";
import { generateServerNames, normalizeServerName, toSecretName } from "./extract-secrets.ts";

describe("a name", () => {
  test("fits our grammar, for any original name", () => {
    const hostile = fc.oneof(
      fc.string(),
      fc.string({ unit: "grapheme", maxLength: 80 }),
      fc.stringMatching(/^[a-z_-]+$/),
    );
    fc.assert(
      fc.property(hostile, (name) => {
        const [first, , third] = generateServerNames(normalizeServerName(name));
        expect(serverName.safeParse(first).success).toBe(true);
        expect(serverName.safeParse(third).success).toBe(true);
      }),
    );
  });

  test.each([
    ["GitHub Server", "github-server"],
    ["my__server", "my_server"],
    ["a-_-b", "a_b"],
    ["Überblick", "uberblick"],
    ["@scope/pkg", "scope-pkg"],
    ["__proto__", "proto"],
    ["日本", "server"],
    ["x".repeat(60), "x".repeat(40)],
  ])("%s is %s", (name, expected) => {
    expect(normalizeServerName(name)).toBe(expected);
  });
});

describe("the name of a secret", () => {
  test.each([
    ["github", "GITHUB_TOKEN", "GITHUB_TOKEN"],
    ["github-server", "GITHUB_TOKEN", "GITHUB_TOKEN"],
    ["jira", "apiKey", "JIRA_API_KEY"],
    ["a", "Authorization", "A_AUTHORIZATION"],
    ["", "api-key", "API_KEY"],
    ["", "1st", "_1ST"],
  ])("of %s and %s is %s", (server, what, expected) => {
    expect(toSecretName(server, what)).toBe(expected);
  });

  test("can be referred to, for any original text", () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (server, what) => {
        expect(toSecretName(server, what)).toMatch(/^[A-Za-z_][A-Za-z0-9_]*$/);
      }),
    );
  });
});
