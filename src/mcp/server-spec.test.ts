import { expect, test } from "vitest";
import { formatLaunch } from "./server-spec.ts";

test("formats a launch as one line with references and without URL secrets", () => {
  const args = ["-y", "a b", "it's", `\${secret:TOKEN}`];
  const url = "https://ann:hunter2@example.com/mcp?key=abc#part";

  expect(formatLaunch({ kind: "stdio", command: "npx", args, env: { KEY: "x" } })).toBe(
    `npx -y 'a b' 'it'\\''s' '\${secret:TOKEN}'`,
  );
  expect(formatLaunch({ kind: "http", url, headers: {} })).toBe("https://example.com/mcp");
});
