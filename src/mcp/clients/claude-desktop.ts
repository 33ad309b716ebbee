import type { Client } from "./client.ts";
import { applicationFolder, below } from "./surroundings.ts";

/** Its file is for local servers only; remote ones are connectors, which are kept elsewhere. */
export const claudeDesktop: Client = {
  name: "claude-desktop",
  title: "Claude Desktop",
  format: "jsonc",
  files: (around) => [
    {
      path: below(applicationFolder(around), "Claude", "claude_desktop_config.json"),
      scope: "user",
      keys: ["mcpServers"],
    },
  ],
  variables: [],
  words: { http: ["url"], silent: ["type"] },
  gateway: { stdio: (command, args) => ({ command, args }) },
  afterwards: "Quit Claude Desktop and start it again.",
};
