import type { Client } from "./client.ts";
import { applicationFolder, below } from "./surroundings.ts";

const SETTINGS = ["settings", "cline_mcp_settings.json"] as const;

export const cline: Client = {
  name: "cline",
  title: "Cline",
  format: "jsonc",
  files: (around) => [
    {
      path: below(applicationFolder(around), "Code", "User", "globalStorage", "saoudrizwan.claude-dev", ...SETTINGS),
      scope: "user",
      keys: ["mcpServers"],
    },
    {
      path: below(around.home, ".cline", "data", ...SETTINGS),
      scope: "user",
      keys: ["mcpServers"],
      part: "of its CLI",
    },
  ],
  variables: ["named"],
  words: {
    http: [],
    sse: ["url"],
    off: "disabled",
    times: { timeout: { to: "call_timeout_ms", ms: 1000 } },
    silent: ["type", "transportType", "autoApprove"],
  },
  gateway: {
    stdio: (command, args) => ({ command, args }),
    http: (url, headers) => ({ type: "streamableHttp", url, headers }),
  },
  afterwards: "Cline sees it at once; its list of MCP servers shows it.",
};
