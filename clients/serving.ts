import { type ChildProcess, spawn } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import type { TestUser } from "./packed-command.ts";

const LIMIT_MS = 120_000;

/** The default port may be in use on this machine. */
export async function useFreePort({ work }: TestUser): Promise<void> {
  const path = join(work, "quartermaster.yaml");
  const probe = createServer();
  await new Promise<void>((resolve) => probe.listen(0, "127.0.0.1", resolve));
  const { port } = probe.address() as AddressInfo;
  await new Promise((resolve) => probe.close(resolve));
  await writeFile(path, (await readFile(path, "utf8")).replace(/port: \d+/, `port: ${port}`));
}

export async function startServing({ work, env }: TestUser, command: string): Promise<ChildProcess> {
  const [program = "", ...args] = command.split(" ");
  const child = spawn(program, args, { cwd: work, env, stdio: ["ignore", "pipe", "inherit"] });
  process.once("exit", () => child.kill());
  const timer = setTimeout(() => child.kill(), LIMIT_MS);
  for await (const part of child.stdout.iterator({ destroyOnReturn: false })) {
    if (!String(part).includes("Listening")) continue;
    clearTimeout(timer);
    child.stdout.resume();
    return child;
  }
  throw new Error(`${command} did not start`);
}
