import { isRecord } from "../../core/json.ts";
import type { Adapted, Client, Raw } from "./client.ts";
import { applicationFolder, below, configFolder } from "./surroundings.ts";

export const zed: Client = {
  name: "zed",
  title: "Zed",
  format: "jsonc",
  files: (around) => [
    {
      path:
        around.platform === "win32"
          ? below(applicationFolder(around), "Zed", "settings.json")
          : below(configFolder(around), "zed", "settings.json"),
      scope: "user",
      keys: ["context_servers"],
    },
    { path: below(around.cwd, ".zed", "settings.json"), scope: "project", keys: ["context_servers"] },
  ],
  variables: [],
  words: {
    http: ["url"],
    on: "enabled",
    silent: ["source", "remote"],
    adapt,
  },
  gateway: {
    stdio: (command, args) => ({ source: "custom", command, args }),
    http: (url, headers) => ({ source: "custom", url, headers }),
  },
  afterwards: "Zed sees it at once; its agent's settings show it.",
};

/** An older form has the command as an object; a server that an extension brings is not described here at all. */
function adapt(raw: Raw): Adapted {
  if (raw.command === undefined && raw.url === undefined)
    return { raw, unfit: "a Zed extension brings it, and only that knows how to start it" };
  if (!isRecord(raw.command)) return { raw };
  const { path, args, env } = raw.command;
  return {
    raw: { ...raw, command: path, ...(args === undefined ? {} : { args }), ...(env === undefined ? {} : { env }) },
  };
}
