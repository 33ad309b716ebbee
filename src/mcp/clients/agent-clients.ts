import { getOwn, isRecord } from "../../core/json.ts";
import { createClientFile, getApplicationFolder, getConfigFolder, joinClientPath } from "./client-paths.ts";
import type { AdaptedEntry, ClientDefinition, ClientFile, RawEntry } from "./clients.ts";

const stdio = (command: string, args: readonly string[]): RawEntry => ({ command, args });
const variable = (name: string): string => `\${${name}}`;

export const claudeCodeClient: ClientDefinition = {
  name: "claude-code",
  title: "Claude Code",
  format: "jsonc",
  files: ({ home, cwd, env }) => {
    const own = createClientFile("user", "mcpServers", env.CLAUDE_CONFIG_DIR || home, ".claude.json");
    // Claude Code writes this key with slashes on every platform.
    const keys = ["projects", cwd.replaceAll("\\", "/"), "mcpServers"];
    const project = createClientFile("project", "mcpServers", cwd, ".mcp.json");
    return [own, { ...own, keys, part: "for this folder" }, project];
  },
  variables: ["braced-default", "braced"],
  entryKeys: {
    http: ["url"],
    timeouts: { timeout: { to: "call_timeout_ms", ms: 1 } },
    oauth: { key: "oauth", clientId: "clientId", scopes: "scopes", callbackPort: "callbackPort" },
    ignored: ["type", "alwaysLoad"],
  },
  gateway: {
    // Otherwise Claude Code hides the four tools behind its own tool search.
    stdio: (command, args) => ({ type: "stdio", command, args, alwaysLoad: true }),
    http: (url, headers) => ({ type: "http", url, headers, alwaysLoad: true }),
    variable,
  },
  restartHint: "New sessions have it. Run `/mcp` to see it.",
};

/** The file lists local servers only. Remote ones are connectors, which Claude Desktop stores elsewhere. */
export const claudeDesktopClient: ClientDefinition = {
  name: "claude-desktop",
  title: "Claude Desktop",
  format: "jsonc",
  files: (around) => [
    createClientFile("user", "mcpServers", getApplicationFolder(around), "Claude", "claude_desktop_config.json"),
  ],
  variables: [],
  entryKeys: { http: ["url"], ignored: ["type"] },
  gateway: { stdio },
  restartHint: "Quit Claude Desktop and start it again.",
};

export const geminiClient: ClientDefinition = {
  name: "gemini",
  title: "Gemini CLI",
  format: "jsonc",
  files: ({ home, cwd }) => [
    createClientFile("user", "mcpServers", home, ".gemini", "settings.json"),
    createClientFile("project", "mcpServers", cwd, ".gemini", "settings.json"),
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
    stdio,
    http: (url, headers) => ({ httpUrl: url, headers }),
    variable,
    nameProblem: (name) =>
      name.includes("_") ? "Gemini CLI builds tool names with `_`, so a server name must not contain one" : undefined,
  },
  restartHint: "New sessions have it. Run `/mcp` to see it.",
};

function isGeminiServerOff({ mcp }: RawEntry, server: string): boolean {
  if (!isRecord(mcp)) return false;
  const [allowed, excluded] = [getOwn(mcp, "allowed"), getOwn(mcp, "excluded")];
  if (Array.isArray(excluded) && excluded.includes(server)) return true;
  return Array.isArray(allowed) && !allowed.includes(server);
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
  return ["opencode.json", "opencode.jsonc"].map((name) => createClientFile(scope, "mcp", folder, name));
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
    createClientFile("user", "mcp_servers", env.CODEX_HOME || joinClientPath(home, ".codex"), "config.toml"),
    createClientFile("project", "mcp_servers", cwd, ".codex", "config.toml"),
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
  gateway: { stdio, http: (url, headers) => ({ url, ...toCodexToken(headers) }), variable },
  restartHint: "New sessions have it. Run `/mcp` to see it.",
};

/** Codex expands no variables in text. It has separate keys for variables that it passes on. */
function adaptCodexEntry({ env_vars, bearer_token_env_var, env_http_headers, ...raw }: RawEntry): AdaptedEntry {
  const passedOn = (Array.isArray(env_vars) ? env_vars : []).map((each) => (isRecord(each) ? each.name : each));
  const byHeader = Object.entries(isRecord(env_http_headers) ? env_http_headers : {});
  const token = isVariableName(bearer_token_env_var) ? toEnvReference(bearer_token_env_var) : undefined;
  const wrong = [...passedOn, ...byHeader.map(([, name]) => name)].find((name) => !isVariableName(name));
  return {
    raw,
    env: Object.fromEntries(passedOn.filter(isVariableName).map((name) => [name, toEnvReference(name)])),
    headers: Object.fromEntries([
      ...(token === undefined ? [] : [["Authorization", `Bearer ${token}`]]),
      ...byHeader.flatMap(([header, name]) => (isVariableName(name) ? [[header, toEnvReference(name)]] : [])),
    ]),
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
