import { isRecord, omitUndefined } from "../../core/json.ts";
import { createClientFile, getApplicationFolder, getConfigFolder } from "./client-paths.ts";
import type { AdaptedEntry, ClientDefinition, RawEntry } from "./clients.ts";

const stdio = (command: string, args: readonly string[]): RawEntry => ({ command, args });
const variable = (name: string): string => `\${env:${name}}`;

const CLINE_SETTINGS = ["settings", "cline_mcp_settings.json"] as const;
const CLINE_EXTENSION = ["Code", "User", "globalStorage", "saoudrizwan.claude-dev"] as const;

export const clineClient: ClientDefinition = {
  name: "cline",
  title: "Cline",
  format: "jsonc",
  files: (around) => [
    createClientFile("user", "mcpServers", getApplicationFolder(around), ...CLINE_EXTENSION, ...CLINE_SETTINGS),
    { ...createClientFile("user", "mcpServers", around.home, ".cline", "data", ...CLINE_SETTINGS), part: "of its CLI" },
  ],
  variables: ["named"],
  entryKeys: {
    http: [],
    sse: ["url"],
    off: "disabled",
    timeouts: { timeout: { to: "call_timeout_ms", ms: 1000 } },
    ignored: ["type", "transportType", "autoApprove"],
  },
  gateway: { stdio, http: (url, headers) => ({ type: "streamableHttp", url, headers }) },
  restartHint: "Cline picks it up at once. See its list of MCP servers.",
};

export const cursorClient: ClientDefinition = {
  name: "cursor",
  title: "Cursor",
  format: "jsonc",
  files: ({ home, cwd }) => [
    createClientFile("user", "mcpServers", home, ".cursor", "mcp.json"),
    createClientFile("project", "mcpServers", cwd, ".cursor", "mcp.json"),
  ],
  variables: ["named", "place"],
  entryKeys: {
    http: ["url"],
    off: "disabled",
    oauth: { key: "auth", clientId: "CLIENT_ID", clientSecret: "CLIENT_SECRET", scopes: "scopes" },
    ignored: ["type"],
  },
  gateway: { stdio, http: (url, headers) => ({ url, headers }), variable },
  restartHint: "Cursor picks it up at once. See Settings → MCP.",
};

export const windsurfClient: ClientDefinition = {
  name: "windsurf",
  title: "Windsurf",
  format: "jsonc",
  files: ({ home }) => [createClientFile("user", "mcpServers", home, ".codeium", "windsurf", "mcp_config.json")],
  variables: ["named"],
  entryKeys: { http: ["serverUrl", "url"], off: "disabled", withoutTools: "disabledTools", ignored: ["type"] },
  gateway: { stdio, http: (url, headers) => ({ serverUrl: url, headers }), variable },
  restartHint: "Refresh the list of MCP servers in Windsurf.",
};

export const zedClient: ClientDefinition = {
  name: "zed",
  title: "Zed",
  format: "jsonc",
  files: (around) => {
    const [folder, name] =
      around.platform === "win32" ? [getApplicationFolder(around), "Zed"] : [getConfigFolder(around), "zed"];
    return [
      createClientFile("user", "context_servers", folder, name, "settings.json"),
      createClientFile("project", "context_servers", around.cwd, ".zed", "settings.json"),
    ];
  },
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
    createClientFile("user", "servers", getApplicationFolder(around), "Code", "User", "mcp.json"),
    createClientFile("project", "servers", around.cwd, ".vscode", "mcp.json"),
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
    variable,
  },
  restartHint: "VS Code asks whether to trust it at the first start. Run `MCP: List Servers` to see it.",
};
