import type { Client } from "./client.ts";
import { below } from "./surroundings.ts";

export const windsurf: Client = {
  name: "windsurf",
  title: "Windsurf",
  format: "jsonc",
  files: ({ home }) => [
    { path: below(home, ".codeium", "windsurf", "mcp_config.json"), scope: "user", keys: ["mcpServers"] },
  ],
  variables: ["named"],
  words: { http: ["serverUrl", "url"], off: "disabled", withoutTools: "disabledTools", silent: ["type"] },
  gateway: {
    stdio: (command, args) => ({ command, args }),
    http: (url, headers) => ({ serverUrl: url, headers }),
    variable: (name) => `\${env:${name}}`,
  },
  afterwards: "Press refresh in the list of MCP servers of Windsurf.",
};
