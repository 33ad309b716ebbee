import { isRecord, omitUndefined } from "../../core/json.ts";
import { getApplicationFolder, getConfigFolder, joinClientPath } from "./client-paths.ts";
import type { AdaptedEntry, ClientDefinition, RawEntry } from "./clients.ts";

const CLINE_SETTINGS = ["settings", "cline_mcp_settings.json"] as const;

export const clineClient: ClientDefinition = {
  name: "cline",
  title: "Cline",
  format: "jsonc",
  files: (around) => [
    {
      path: joinClientPath(
        getApplicationFolder(around),
        "Code",
        "User",
        "globalStorage",
        "saoudrizwan.claude-dev",
        ...CLINE_SETTINGS,
      ),
      scope: "user",
      keys: ["mcpServers"],
    },
    {
      path: joinClientPath(around.home, ".cline", "data", ...CLINE_SETTINGS),
      scope: "user",
      keys: ["mcpServers"],
      part: "of its CLI",
    },
  ],
  variables: ["named"],
  entryKeys: {
    http: [],
    sse: ["url"],
    off: "disabled",
    timeouts: { timeout: { to: "call_timeout_ms", ms: 1000 } },
    ignored: ["type", "transportType", "autoApprove"],
  },
  gateway: {
    stdio: (command, args) => ({ command, args }),
    http: (url, headers) => ({ type: "streamableHttp", url, headers }),
  },
  restartHint: "Cline picks it up at once. See its list of MCP servers.",
};

export const cursorClient: ClientDefinition = {
  name: "cursor",
  title: "Cursor",
  format: "jsonc",
  files: ({ home, cwd }) => [
    { path: joinClientPath(home, ".cursor", "mcp.json"), scope: "user", keys: ["mcpServers"] },
    { path: joinClientPath(cwd, ".cursor", "mcp.json"), scope: "project", keys: ["mcpServers"] },
  ],
  variables: ["named", "place"],
  entryKeys: {
    http: ["url"],
    off: "disabled",
    oauth: { key: "auth", clientId: "CLIENT_ID", clientSecret: "CLIENT_SECRET", scopes: "scopes" },
    ignored: ["type"],
  },
  gateway: {
    stdio: (command, args) => ({ command, args }),
    http: (url, headers) => ({ url, headers }),
    variable: (name) => `\${env:${name}}`,
  },
  restartHint: "Cursor picks it up at once. See Settings → MCP.",
};

export const windsurfClient: ClientDefinition = {
  name: "windsurf",
  title: "Windsurf",
  format: "jsonc",
  files: ({ home }) => [
    { path: joinClientPath(home, ".codeium", "windsurf", "mcp_config.json"), scope: "user", keys: ["mcpServers"] },
  ],
  variables: ["named"],
  entryKeys: { http: ["serverUrl", "url"], off: "disabled", withoutTools: "disabledTools", ignored: ["type"] },
  gateway: {
    stdio: (command, args) => ({ command, args }),
    http: (url, headers) => ({ serverUrl: url, headers }),
    variable: (name) => `\${env:${name}}`,
  },
  restartHint: "Refresh the list of MCP servers in Windsurf.",
};

export const zedClient: ClientDefinition = {
  name: "zed",
  title: "Zed",
  format: "jsonc",
  files: (around) => [
    {
      path:
        around.platform === "win32"
          ? joinClientPath(getApplicationFolder(around), "Zed", "settings.json")
          : joinClientPath(getConfigFolder(around), "zed", "settings.json"),
      scope: "user",
      keys: ["context_servers"],
    },
    { path: joinClientPath(around.cwd, ".zed", "settings.json"), scope: "project", keys: ["context_servers"] },
  ],
  variables: [],
  entryKeys: { http: ["url"], on: "enabled", ignored: ["source", "remote"], adapt: adaptZedEntry },
  gateway: {
    stdio: (command, args) => ({ source: "custom", command, args }),
    http: (url, headers) => ({ source: "custom", url, headers }),
  },
  restartHint: "Zed picks it up at once. See the agent settings.",
};

/** An older format has the command as an object. A server from an extension has no command here. */
function adaptZedEntry(raw: RawEntry): AdaptedEntry {
  if (raw.command === undefined && raw.url === undefined)
    return { raw, unfit: "it comes from a Zed extension, which starts it itself" };
  if (!isRecord(raw.command)) return { raw };
  const { path, args, env } = raw.command;
  return { raw: omitUndefined({ ...raw, command: path, args, env }) };
}

export const vscodeClient: ClientDefinition = {
  name: "vscode",
  title: "VS Code",
  format: "jsonc",
  files: (around) => [
    {
      path: joinClientPath(getApplicationFolder(around), "Code", "User", "mcp.json"),
      scope: "user",
      keys: ["servers"],
    },
    { path: joinClientPath(around.cwd, ".vscode", "mcp.json"), scope: "project", keys: ["servers"] },
  ],
  variables: ["named", "input", "place"],
  entryKeys: {
    http: ["url"],
    oauth: { key: "oauth", clientId: "clientId" },
    ignored: ["type", "dev", "gallery", "version"],
  },
  gateway: {
    stdio: (command, args) => ({ type: "stdio", command, args }),
    http: (url, headers) => ({ type: "http", url, headers }),
    variable: (name) => `\${env:${name}}`,
  },
  restartHint: "VS Code asks whether to trust it at the first start. Run `MCP: List Servers` to see it.",
};
