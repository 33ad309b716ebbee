import { getOwn, isRecord } from "../../core/json.ts";
import { getApplicationFolder, getConfigFolder, joinClientPath } from "./client-paths.ts";
import type { AdaptedEntry, ClientDefinition, ClientFile, RawEntry } from "./clients.ts";

export const claudeCodeClient: ClientDefinition = {
  name: "claude-code",
  title: "Claude Code",
  format: "jsonc",
  files: ({ home, cwd, env }) => {
    const own = joinClientPath(env.CLAUDE_CONFIG_DIR || home, ".claude.json");
    return [
      { path: own, scope: "user", keys: ["mcpServers"] },
      // Claude Code writes this key with slashes on every platform.
      {
        path: own,
        scope: "user",
        keys: ["projects", cwd.replaceAll("\\", "/"), "mcpServers"],
        part: "for this folder",
      },
      { path: joinClientPath(cwd, ".mcp.json"), scope: "project", keys: ["mcpServers"] },
    ];
  },
  variables: ["braced-default", "braced"],
  entryKeys: {
    http: ["url"],
    timeouts: { timeout: { to: "call_timeout_ms", ms: 1 } },
    oauth: { key: "oauth", clientId: "clientId", scopes: "scopes", callbackPort: "callbackPort" },
    ignored: ["type", "alwaysLoad"],
  },
  gateway: {
    stdio: (command, args) => ({ type: "stdio", command, args }),
    http: (url, headers) => ({ type: "http", url, headers }),
    variable: (name) => `\${${name}}`,
  },
  restartHint: "New sessions have it. Run `/mcp` to see it.",
};

/** The file lists local servers only. Remote ones are connectors, which Claude Desktop stores elsewhere. */
export const claudeDesktopClient: ClientDefinition = {
  name: "claude-desktop",
  title: "Claude Desktop",
  format: "jsonc",
  files: (around) => [
    {
      path: joinClientPath(getApplicationFolder(around), "Claude", "claude_desktop_config.json"),
      scope: "user",
      keys: ["mcpServers"],
    },
  ],
  variables: [],
  entryKeys: { http: ["url"], ignored: ["type"] },
  gateway: { stdio: (command, args) => ({ command, args }) },
  restartHint: "Quit Claude Desktop and start it again.",
};

export const geminiClient: ClientDefinition = {
  name: "gemini",
  title: "Gemini CLI",
  format: "jsonc",
  files: ({ home, cwd }) => [
    { path: joinClientPath(home, ".gemini", "settings.json"), scope: "user", keys: ["mcpServers"] },
    { path: joinClientPath(cwd, ".gemini", "settings.json"), scope: "project", keys: ["mcpServers"] },
  ],
  variables: ["braced-default", "braced", "bare"],
  entryKeys: {
    http: ["httpUrl"],
    sse: ["url"],
    onlyTools: "includeTools",
    withoutTools: "excludeTools",
    timeouts: { timeout: { to: "call_timeout_ms", ms: 1 } },
    oauth: { key: "oauth", clientId: "clientId", clientSecret: "clientSecret", scopes: "scopes" },
    ignored: ["type", "trust"],
    isOff: isGeminiServerOff,
  },
  gateway: {
    stdio: (command, args) => ({ command, args }),
    http: (url, headers) => ({ httpUrl: url, headers }),
    variable: (name) => `\${${name}}`,
    nameProblem: (name) =>
      name.includes("_") ? "Gemini CLI builds tool names with `_`, so a server name must not contain one" : undefined,
  },
  restartHint: "New sessions have it. Run `/mcp` to see it.",
};

function isGeminiServerOff({ mcp }: RawEntry, server: string): boolean {
  if (!isRecord(mcp)) return false;
  const [allowed, excluded] = [getOwn(mcp, "allowed"), getOwn(mcp, "excluded")];
  return (
    (Array.isArray(excluded) && excluded.includes(server)) || (Array.isArray(allowed) && !allowed.includes(server))
  );
}

export const opencodeClient: ClientDefinition = {
  name: "opencode",
  title: "opencode",
  format: "jsonc",
  files: (around) => [
    ...listConfigFiles(joinClientPath(getConfigFolder(around), "opencode"), "user"),
    ...listConfigFiles(around.cwd, "project"),
  ],
  variables: ["curly", "curly-file"],
  entryKeys: {
    http: ["url"],
    env: "environment",
    on: "enabled",
    timeouts: { timeout: { to: "start_timeout_ms", ms: 1 } },
    oauth: { key: "oauth", clientId: "clientId", clientSecret: "clientSecret", scopes: "scope" },
    ignored: ["type"],
    adapt: adaptOpencodeEntry,
  },
  gateway: {
    // opencode gives up after five seconds by default, and then runs without the tools.
    stdio: (command, args) => ({ type: "local", command: [command, ...args], enabled: true, timeout: 30_000 }),
    http: (url, headers) => ({ type: "remote", url, headers, enabled: true, timeout: 30_000 }),
    variable: (name) => `{env:${name}}`,
  },
  restartHint: "New sessions have it. Run `opencode mcp list` to see it.",
};

function listConfigFiles(folder: string, scope: ClientFile["scope"]): readonly ClientFile[] {
  return ["opencode.json", "opencode.jsonc"].map((name) => ({
    path: joinClientPath(folder, name),
    scope,
    keys: ["mcp"],
  }));
}

/** The command and its arguments are one list. `oauth: false` means no login. */
function adaptOpencodeEntry({ oauth, ...raw }: RawEntry): AdaptedEntry {
  const login = oauth === undefined || oauth === false ? {} : { oauth };
  if (!Array.isArray(raw.command)) return { raw: { ...raw, ...login } };
  const [command, ...args] = raw.command;
  return { raw: { ...raw, ...login, command, args } };
}

export const codexClient: ClientDefinition = {
  name: "codex",
  title: "Codex",
  format: "toml",
  files: ({ home, cwd, env }) => [
    {
      path: joinClientPath(env.CODEX_HOME || joinClientPath(home, ".codex"), "config.toml"),
      scope: "user",
      keys: ["mcp_servers"],
    },
    { path: joinClientPath(cwd, ".codex", "config.toml"), scope: "project", keys: ["mcp_servers"] },
  ],
  variables: [],
  entryKeys: {
    http: ["url"],
    headers: "http_headers",
    on: "enabled",
    onlyTools: "enabled_tools",
    withoutTools: "disabled_tools",
    timeouts: {
      startup_timeout_sec: { to: "start_timeout_ms", ms: 1000 },
      startup_timeout_ms: { to: "start_timeout_ms", ms: 1 },
      tool_timeout_sec: { to: "call_timeout_ms", ms: 1000 },
    },
    oauth: { key: "oauth", clientId: "client_id", callbackPort: "callback_port" },
    ignored: ["required", "supports_parallel_tool_calls"],
    adapt: adaptCodexEntry,
  },
  gateway: {
    stdio: (command, args) => ({ command, args }),
    http: (url, headers) => ({ url, ...toCodexToken(headers) }),
    variable: (name) => `\${${name}}`,
  },
  restartHint: "New sessions have it. Run `/mcp` to see it.",
};

/** Codex expands no variables in text. It has separate keys for variables that it passes on. */
function adaptCodexEntry({ env_vars, bearer_token_env_var, env_http_headers, ...raw }: RawEntry): AdaptedEntry {
  const passedOn = (Array.isArray(env_vars) ? env_vars : []).map((each) => (isRecord(each) ? each.name : each));
  const byHeader = Object.entries(isRecord(env_http_headers) ? env_http_headers : {});
  const bearer = isVariableName(bearer_token_env_var)
    ? { Authorization: `Bearer ${toEnvReference(bearer_token_env_var)}` }
    : {};
  const wrong = [...passedOn, ...byHeader.map(([, name]) => name)].find((name) => !isVariableName(name));
  return {
    raw,
    env: Object.fromEntries(passedOn.filter(isVariableName).map((name) => [name, toEnvReference(name)])),
    headers: {
      ...bearer,
      ...Object.fromEntries(
        byHeader.flatMap(([header, name]) => (isVariableName(name) ? [[header, toEnvReference(name)]] : [])),
      ),
    },
    ...(wrong === undefined ? {} : { unfit: "it refers to an invalid variable name" }),
  };
}

/** Codex takes headers literally, so a token from a variable has its own key. */
function toCodexToken(headers: Readonly<Record<string, string>>): RawEntry {
  const variable = /^Bearer \$\{(\w+)\}$/.exec(headers.Authorization ?? "")?.[1];
  if (variable !== undefined) return { bearer_token_env_var: variable };
  return Object.keys(headers).length === 0 ? {} : { http_headers: headers };
}

function isVariableName(name: unknown): name is string {
  return typeof name === "string" && /^[A-Za-z_][A-Za-z0-9_]*$/.test(name);
}

const toEnvReference = (name: string): string => `\${env:${name}}`;
