import type { Client } from "./client.ts";
import { below } from "./surroundings.ts";

export const cursor: Client = {
  name: "cursor",
  title: "Cursor",
  format: "jsonc",
  files: ({ home, cwd }) => [
    { path: below(home, ".cursor", "mcp.json"), scope: "user", keys: ["mcpServers"] },
    { path: below(cwd, ".cursor", "mcp.json"), scope: "project", keys: ["mcpServers"] },
  ],
  variables: ["named", "place"],
  words: {
    http: ["url"],
    off: "disabled",
    oauth: { key: "auth", clientId: "CLIENT_ID", clientSecret: "CLIENT_SECRET", scopes: "scopes" },
    silent: ["type"],
  },
  gateway: {
    stdio: (command, args) => ({ command, args }),
    http: (url, headers) => ({ url, headers }),
    variable: (name) => `\${env:${name}}`,
  },
  afterwards: "Cursor sees it at once; Settings → MCP shows it.",
};
