import { randomUUID } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { hostname } from "node:os";
import { dirname, join } from "node:path";
import type { ProcessInfo, Runtime } from "../core/runtime.ts";

/** The folder that the package is in. How far up it is differs between the source, the library and the command. */
export function findPackageFolder(from: string = import.meta.dirname): string {
  if (existsSync(join(from, "package.json"))) return from;
  const above = dirname(from);
  if (above === from) throw new TypeError(`${import.meta.dirname} is in no package`);
  return findPackageFolder(above);
}

/** What the package says of itself. */
export function readPackageInfo(): {
  readonly name: string;
  readonly version: string;
  readonly engines: { readonly node: string };
} {
  return JSON.parse(readFileSync(join(findPackageFolder(), "package.json"), "utf8"));
}

/** The real clock and real chance. */
export const systemRuntime: Runtime = {
  now: () => new Date(),
  elapsed: () => performance.now(),
  newId: () => toTimeOrderedId(randomUUID(), Date.now()),
};

/** This process, and whether another on this machine is still there. */
export const systemProcess: ProcessInfo & Pick<typeof process, "kill"> = {
  pid: process.pid,
  host: hostname(),
  kill: (pid, signal) => process.kill(pid, signal),
  isAlive(pid) {
    try {
      return process.kill(pid, 0);
    } catch (thrown) {
      // One that is not ours to signal is there.
      return (thrown as NodeJS.ErrnoException).code === "EPERM";
    }
  },
};

/**
 * A random UUID made one of version 7: it starts with the time, so that what is written together is kept together in an
 * index. A purely random one would touch a page of its own with every line.
 */
export function toTimeOrderedId(random: string, ms: number): string {
  const time = ms.toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}-7${random.slice(15)}`;
}
