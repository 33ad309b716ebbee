import { openSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import type { SandboxStream } from "../core/sandbox.ts";

const CLOSE_ON_EXEC = 0o2000000;
let nullFd: number | undefined;

/**
 * The streams for `spawn`, with `/dev/null` in place of each descriptor that this process was started with, for example by
 * a shell or a supervisor. Otherwise the program would get it.
 */
export async function coverInheritedFds(streams: readonly SandboxStream[]): Promise<(SandboxStream | number)[]> {
  nullFd ??= openSync("/dev/null", "r");
  const cover = nullFd;
  const names = await readdir("/proc/self/fd").catch(() => []);
  const flags = await Promise.all(names.map((name) => readFlags(name)));
  const inherited = names.map(Number).filter((_, at) => ((flags[at] ?? CLOSE_ON_EXEC) & CLOSE_ON_EXEC) === 0);
  const length = Math.max(streams.length, ...inherited.map((fd) => fd + 1));
  return Array.from({ length }, (_, fd) => streams[fd] ?? (inherited.includes(fd) ? cover : "ignore"));
}

/** Undefined: it was closed since. */
async function readFlags(name: string): Promise<number | undefined> {
  const info = await readFile(`/proc/self/fdinfo/${name}`, "latin1").catch(() => "");
  const [, flags] = /^flags:\s*([0-7]+)$/m.exec(info) ?? [];
  return flags === undefined ? undefined : Number.parseInt(flags, 8);
}
