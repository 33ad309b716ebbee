import { isRecord } from "../../core/json.ts";
import type { Adapted, Client, Raw } from "./client.ts";
import { below } from "./surroundings.ts";

export const codex: Client = {
  name: "codex",
  title: "Codex",
  format: "toml",
  files: ({ home, cwd, env }) => [
    { path: below(env.CODEX_HOME || below(home, ".codex"), "config.toml"), scope: "user", keys: ["mcp_servers"] },
    { path: below(cwd, ".codex", "config.toml"), scope: "project", keys: ["mcp_servers"] },
  ],
  variables: [],
  words: {
    http: ["url"],
    headers: "http_headers",
    on: "enabled",
    onlyTools: "enabled_tools",
    withoutTools: "disabled_tools",
    times: {
      startup_timeout_sec: { to: "start_timeout_ms", ms: 1000 },
      startup_timeout_ms: { to: "start_timeout_ms", ms: 1 },
      tool_timeout_sec: { to: "call_timeout_ms", ms: 1000 },
    },
    oauth: { key: "oauth", clientId: "client_id", callbackPort: "callback_port" },
    silent: ["required", "supports_parallel_tool_calls"],
    adapt: withVariables,
  },
  gateway: {
    stdio: (command, args) => ({ command, args }),
    http: (url, headers) => ({ url, ...tokenWords(headers) }),
    variable: (name) => `\${${name}}`,
  },
  afterwards: "Sessions that are started from now on have it; `/mcp` shows it.",
};

/** It fills no variables into text; it has keys of their own for the variables that it passes on. */
function withVariables({ env_vars, bearer_token_env_var, env_http_headers, ...raw }: Raw): Adapted {
  const passedOn = (Array.isArray(env_vars) ? env_vars : []).map((each) => (isRecord(each) ? each.name : each));
  const byHeader = Object.entries(isRecord(env_http_headers) ? env_http_headers : {});
  const bearer = isVariable(bearer_token_env_var) ? { Authorization: `Bearer ${reference(bearer_token_env_var)}` } : {};
  const wrong = [...passedOn, ...byHeader.map(([, name]) => name)].find((name) => !isVariable(name));
  return {
    raw,
    env: Object.fromEntries(passedOn.filter(isVariable).map((name) => [name, reference(name)])),
    headers: {
      ...bearer,
      ...Object.fromEntries(
        byHeader.flatMap(([header, name]) => (isVariable(name) ? [[header, reference(name)]] : [])),
      ),
    },
    ...(wrong === undefined ? {} : { unfit: "it names a variable that cannot be one" }),
  };
}

/** A token out of a variable has a key of its own, because headers are taken as they are. */
function tokenWords(headers: Readonly<Record<string, string>>): Raw {
  const variable = /^Bearer \$\{(\w+)\}$/.exec(headers.Authorization ?? "")?.[1];
  if (variable !== undefined) return { bearer_token_env_var: variable };
  return Object.keys(headers).length === 0 ? {} : { http_headers: headers };
}

function isVariable(name: unknown): name is string {
  return typeof name === "string" && /^[A-Za-z_][A-Za-z0-9_]*$/.test(name);
}

function reference(name: string): string {
  return `\${env:${name}}`;
}
