import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { type Address, type Connected, connect, PATIENCE_MS } from "./driver.ts";

const folder = fileURLToPath(new URL("../peers/", import.meta.url));

export const mcpHubScript = join(folder, "node_modules", "mcp-hub", "dist", "cli.js");
export const executorBinary = join(folder, "node_modules", "executor-linux-x64", "bin", "executor");

/** Which of the other gateways are available. They are installed on first use. */
export function installedPeers(say: (line: string) => void): { readonly mcpHub: boolean; readonly executor: boolean } {
  if (!existsSync(mcpHubScript)) {
    say("installing the other gateways into bench/peers, once (about 250 MB) …");
    const { stderr } = spawnSync("npm", ["ci", "--no-audit", "--no-fund"], { cwd: folder, encoding: "utf8" });
    if (!existsSync(mcpHubScript))
      say(`skipped mcp-hub: npm ci in bench/peers failed. ${stderr.trim().split("\n").at(-1) ?? ""}`);
  }
  if (!existsSync(executorBinary)) say("skipped executor: bench/peers has its binary for Linux on x64 only");
  return { mcpHub: existsSync(mcpHubScript), executor: existsSync(executorBinary) };
}

/** The other gateways cannot choose a free port themselves. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  await new Promise<void>((resolve) => server.close(() => resolve()));
  return port;
}

/** The other gateways do not report when they listen, so this retries until they answer. */
export async function connectWhenUp(address: Address, exited: Promise<void>): Promise<Connected> {
  let gone = false;
  void exited.then(() => {
    gone = true;
  });
  for (const until = performance.now() + PATIENCE_MS; ; await pause(10)) {
    try {
      return await connect(address);
    } catch (thrown) {
      if (gone || performance.now() > until) throw thrown;
    }
  }
}
