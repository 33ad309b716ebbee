import { randomUUID } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { hostname } from "node:os";
import { basename, dirname, join } from "node:path";
import type { ProcessInfo, Runtime } from "../core/runtime.ts";
import type { ProgramHost } from "../providers/skill/code/program.ts";

/** The folder of this package, which is not equally far up from the source, the library and the command in `dist/bin`. */
export function findPackageFolder(from: string = import.meta.dirname): string {
  if (existsSync(join(from, "package.json")) && basename(from) !== "bin") return from;
  const above = dirname(from);
  if (above === from) throw new TypeError(`${import.meta.dirname} is in no package`);
  return findPackageFolder(above);
}

export function readPackageInfo(): {
  readonly name: string;
  readonly version: string;
  readonly engines: { readonly node: string };
} {
  return JSON.parse(readFileSync(join(findPackageFolder(), "package.json"), "utf8"));
}

const newId = () => toTimeOrderedId(randomUUID(), Date.now());
export const systemRuntime: Runtime = { now: () => new Date(), elapsed: () => performance.now(), newId };

/** Aborts when the terminal is closed, which then no longer ends this process. */
export function watchHangup(): AbortSignal {
  const closed = new AbortController();
  process.once("SIGHUP", () => closed.abort());
  return closed.signal;
}

export const systemProcess: ProcessInfo & {
  readonly id: string;
  readonly startedAt: Date;
  readonly uid: number | undefined;
} & Pick<typeof process, "kill" | "ppid"> &
  ProgramHost = {
  id: randomUUID(),
  pid: process.pid,
  startedAt: new Date(Date.now() - process.uptime() * 1000),
  nodePath: process.execPath,
  searchPath: process.env.PATH ?? "",
  /** Another one once the parent has ended. */
  get ppid() {
    return process.ppid;
  },
  host: hostname(),
  /** Undefined on Windows. */
  uid: process.getuid?.(),
  kill: (pid, signal) => process.kill(pid, signal),
  isAlive(pid) {
    try {
      return process.kill(pid, 0);
    } catch (thrown) {
      // A process of another user is alive, but must not be signalled.
      return (thrown as NodeJS.ErrnoException).code === "EPERM";
    }
  },
};

/** A version 7 UUID starts with the time, so that new rows are neighbours in an index. */
export function toTimeOrderedId(random: string, ms: number): string {
  const time = ms.toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}-7${random.slice(15)}`;
}
