import { expect, test } from "vitest";
import { isOwnServer } from "./read-clients.ts";
import { own } from "./testing.ts";

test.each([
  { command: "qm", args: ["mcp"] },
  { command: "/usr/local/bin/qm", args: ["--config", "x.yaml", "mcp"] },
  { command: "C:\\npm\\qm.cmd", args: ["mcp"] },
  { command: "quartermaster", args: ["mcp", "--profile", "p"] },
  { command: "npx", args: ["-y", "quartermaster", "mcp"] },
  { command: "cmd", args: ["/c", "npx", "-y", "quartermaster@0.1.0", "mcp"] },
  { command: "node", args: ["/opt/tools/dist/bin/qm.js", "mcp"] },
  { command: "node", args: ["/elsewhere/dist/bin/qm.js", "mcp"] },
  { command: "npx", args: ["mcp-remote", "http://localhost:7420/mcp/"] },
  { url: "http://127.0.0.1:7420/mcp" },
  { url: "http://LOCALHOST:7420/mcp/?x=1" },
  { url: "http://[::1]:7420/mcp" },
])("%j is Quartermaster itself", (entry) => {
  expect(isOwnServer(entry, own)).toBe(true);
});

test.each([
  { command: "qmd", args: ["mcp"] },
  { command: "qm", args: ["--version"] },
  { command: "npx", args: ["-y", "quartermaster-tools", "mcp"] },
  { command: "node", args: ["dist/bin/qm.js", "serve"] },
  { url: "http://127.0.0.1:7421/mcp" },
  { url: "http://127.0.0.1:7420/other" },
  { url: "not a url" },
])("%j is not", (entry) => {
  expect(isOwnServer(entry, own)).toBe(false);
});
