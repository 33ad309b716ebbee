import type { Client } from "./client.ts";
import { applicationFolder, below } from "./surroundings.ts";

export const vscode: Client = {
  name: "vscode",
  title: "VS Code",
  format: "jsonc",
  files: (around) => [
    { path: below(applicationFolder(around), "Code", "User", "mcp.json"), scope: "user", keys: ["servers"] },
    { path: below(around.cwd, ".vscode", "mcp.json"), scope: "project", keys: ["servers"] },
  ],
  variables: ["named", "input", "place"],
  words: {
    http: ["url"],
    oauth: { key: "oauth", clientId: "clientId" },
    silent: ["type", "dev", "gallery", "version"],
  },
  gateway: {
    stdio: (command, args) => ({ type: "stdio", command, args }),
    http: (url, headers) => ({ type: "http", url, headers }),
    variable: (name) => `\${env:${name}}`,
  },
  afterwards: "VS Code asks whether to trust it when it is first started; `MCP: List Servers` shows it.",
};
