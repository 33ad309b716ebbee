import fc from "fast-check";
import { expect, test } from "vitest";
import { serverName } from "../../config/mcp-schema.ts";
import { requireServerName, toLocalName } from "./launch-input.ts";

test.each([
  ["io.github.example/airtable-mcp-server", "airtable"],
  ["io.github.x/Airtable.MCP", "airtable"],
  ["mcp-server-time", "time"],
  ["@modelcontextprotocol/server-memory", "memory"],
  ["a/server", "server"],
  ["a/mcp", "mcp"],
  ["a/mcp-server", "server"],
  ["a/b__c", "b-c"],
  ["a/_-b-_", "b"],
  ["@scope/Ünïcode", "u-ni-code"],
  ["a/", "a"],
  ["///", "server"],
  ["x/検索", "server"],
])("%s is called %s here", (full, local) => {
  expect(toLocalName(full)).toBe(local);
});

test("creates only names that the configuration accepts, and refuses others", () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.stringMatching(/^[a-zA-Z0-9._/-]{1,80}$/)), (text) => {
      expect(serverName.safeParse(toLocalName(text)).success).toBe(true);
      const accepted = serverName.safeParse(text).success;
      if (accepted) expect(requireServerName(text)).toBe(text);
      else expect(() => requireServerName(text)).toThrow();
    }),
  );
});
