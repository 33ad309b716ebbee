import { openSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import type { SandboxedCommand } from "../core/sandbox.ts";

const CLOSE_ON_EXEC = 0o2000000;
let nullFd: number | undefined;

/** Finds the descriptors, besides the standard streams, that a child of this process would get. */
export async function listInheritedFds(): Promise<SandboxedCommand["inherited"]> {
  nullFd ??= openSync("/dev/null", "r");
  const names = await readdir("/proc/self/fd").catch(() => []);
  const flags = await Promise.all(names.map((name) => readFlags(name)));
  const fds = names.map(Number).filter((fd, at) => fd > 2 && ((flags[at] ?? CLOSE_ON_EXEC) & CLOSE_ON_EXEC) === 0);
  return { fds, nullFd };
}

/** Undefined: it was closed since. */
async function readFlags(name: string): Promise<number | undefined> {
  const info = await readFile(`/proc/self/fdinfo/${name}`, "latin1").catch(() => "");
  const [, flags] = /^flags:\s*([0-7]+)$/m.exec(info) ?? [];
  return flags === undefined ? undefined : Number.parseInt(flags, 8);
}
