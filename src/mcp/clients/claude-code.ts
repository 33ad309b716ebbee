import type { Client } from "./client.ts";
import { below } from "./surroundings.ts";

export const claudeCode: Client = {
  name: "claude-code",
  title: "Claude Code",
  format: "jsonc",
  files: ({ home, cwd, env }) => {
    const own = below(env.CLAUDE_CONFIG_DIR || home, ".claude.json");
    return [
      { path: own, scope: "user", keys: ["mcpServers"] },
      // It writes the folder with slashes, whatever the platform.
      {
        path: own,
        scope: "user",
        keys: ["projects", cwd.replaceAll("\\", "/"), "mcpServers"],
        part: "for this folder",
      },
      { path: below(cwd, ".mcp.json"), scope: "project", keys: ["mcpServers"] },
    ];
  },
  variables: ["braced-default", "braced"],
  words: {
    http: ["url"],
    times: { timeout: { to: "call_timeout_ms", ms: 1 } },
    oauth: { key: "oauth", clientId: "clientId", scopes: "scopes", callbackPort: "callbackPort" },
    silent: ["type", "alwaysLoad"],
  },
  gateway: {
    stdio: (command, args) => ({ type: "stdio", command, args }),
    http: (url, headers) => ({ type: "http", url, headers }),
    variable: (name) => `\${${name}}`,
  },
  afterwards: "Sessions that are started from now on have it; `/mcp` shows it.",
};
