import type { Adapted, Client, ClientFile, Raw } from "./client.ts";
import { below, configFolder } from "./surroundings.ts";

export const opencode: Client = {
  name: "opencode",
  title: "opencode",
  format: "jsonc",
  files: (around) => [...places(below(configFolder(around), "opencode"), "user"), ...places(around.cwd, "project")],
  variables: ["curly", "curly-file"],
  words: {
    http: ["url"],
    env: "environment",
    on: "enabled",
    times: { timeout: { to: "start_timeout_ms", ms: 1 } },
    oauth: { key: "oauth", clientId: "clientId", clientSecret: "clientSecret", scopes: "scope" },
    silent: ["type"],
    adapt,
  },
  gateway: {
    // Its own patience ends after five seconds, and then it goes without the tools.
    stdio: (command, args) => ({ type: "local", command: [command, ...args], enabled: true, timeout: 30_000 }),
    http: (url, headers) => ({ type: "remote", url, headers, enabled: true, timeout: 30_000 }),
    variable: (name) => `{env:${name}}`,
  },
  afterwards: "Sessions that are started from now on have it; `opencode mcp list` shows it.",
};

function places(folder: string, scope: ClientFile["scope"]): readonly ClientFile[] {
  return ["opencode.json", "opencode.jsonc"].map((name) => ({ path: below(folder, name), scope, keys: ["mcp"] }));
}

/** The command and its arguments are one list, and `oauth: false` says that there is no login. */
function adapt({ oauth, ...raw }: Raw): Adapted {
  const login = oauth === undefined || oauth === false ? {} : { oauth };
  if (!Array.isArray(raw.command)) return { raw: { ...raw, ...login } };
  const [command, ...args] = raw.command;
  return { raw: { ...raw, ...login, command, args } };
}
