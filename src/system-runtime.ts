import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import type { ProcessFacts, Runtime } from "./core/runtime.ts";

/** The real clock and real chance. */
export const systemRuntime: Runtime = {
  now: () => new Date(),
  elapsed: () => performance.now(),
  newId: () => timeOrdered(randomUUID(), Date.now()),
};

/** This process, and whether another on this machine is still there. */
export const systemProcess: ProcessFacts & Pick<typeof process, "kill"> = {
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
export function timeOrdered(random: string, ms: number): string {
  const time = ms.toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}-7${random.slice(15)}`;
}
