import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { onTestFinished } from "vitest";
import { plainEnvironment, qmCommand } from "../../src/cli/testing.ts";

/** An MCP client that starts `qm mcp` in a folder. */
export async function connectStdioClient(cwd: string, ...options: readonly string[]) {
  const [command, ...args] = qmCommand;
  const env = plainEnvironment() as Record<string, string>;
  const transport = new StdioClientTransport({ command, args: [...args, "mcp", ...options], cwd, env });
  const client = new Client({ name: "test", version: "1" });
  await client.connect(transport);
  onTestFinished(() => client.close());
  return { client, pid: transport.pid ?? 0 };
}
