import { getOwn, isRecord } from "../../core/json.ts";
import type { Client, Raw } from "./client.ts";
import { below } from "./surroundings.ts";

export const gemini: Client = {
  name: "gemini",
  title: "Gemini CLI",
  format: "jsonc",
  files: ({ home, cwd }) => [
    { path: below(home, ".gemini", "settings.json"), scope: "user", keys: ["mcpServers"] },
    { path: below(cwd, ".gemini", "settings.json"), scope: "project", keys: ["mcpServers"] },
  ],
  variables: ["braced-default", "braced", "bare"],
  words: {
    http: ["httpUrl"],
    sse: ["url"],
    onlyTools: "includeTools",
    withoutTools: "excludeTools",
    times: { timeout: { to: "call_timeout_ms", ms: 1 } },
    oauth: { key: "oauth", clientId: "clientId", clientSecret: "clientSecret", scopes: "scopes" },
    silent: ["type", "trust"],
    isOff,
  },
  gateway: {
    stdio: (command, args) => ({ command, args }),
    http: (url, headers) => ({ httpUrl: url, headers }),
    variable: (name) => `\${${name}}`,
    nameProblem: (name) =>
      name.includes("_") ? "Gemini CLI makes tools' names with `_`, so a server's name must not have one" : undefined,
  },
  afterwards: "Sessions that are started from now on have it; `/mcp` shows it.",
};

function isOff({ mcp }: Raw, server: string): boolean {
  if (!isRecord(mcp)) return false;
  const [allowed, excluded] = [getOwn(mcp, "allowed"), getOwn(mcp, "excluded")];
  return (
    (Array.isArray(excluded) && excluded.includes(server)) || (Array.isArray(allowed) && !allowed.includes(server))
  );
}
