import fc from "fast-check";
import { expect, test } from "vitest";
import { serverName } from "../../config/servers-schema.ts";
import { chosenName, localName } from "./local-name.ts";

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
  expect(localName(full)).toBe(local);
});

test("every name that is made is one that the configuration takes, and every other is refused", () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.stringMatching(/^[a-zA-Z0-9._/-]{1,80}$/)), (text) => {
      expect(serverName.safeParse(localName(text)).success).toBe(true);
      const accepted = serverName.safeParse(text).success;
      if (accepted) expect(chosenName(text)).toBe(text);
      else expect(() => chosenName(text)).toThrow();
    }),
  );
});
