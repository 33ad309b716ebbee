import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import type { Variables } from "./driver.ts";

/** A child process. */
export interface Started {
  /** Undefined if it could not be started. */
  readonly pid: number | undefined;
  /** Its first line of output. Rejects when it ends without one. */
  readonly firstLine: Promise<string>;
  readonly exited: Promise<void>;
  /** Asks it to end, and kills it after some seconds. */
  stop(): Promise<void>;
}

const STOP_MS = 3000;

export function start(
  [command = "", ...args]: readonly string[],
  { cwd, env }: { readonly cwd: string; readonly env: Variables },
): Started {
  const child = spawn(command, args, { cwd, env: { ...env }, stdio: ["ignore", "pipe", "ignore"] });
  const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()).once("error", () => resolve()));
  const firstLine = new Promise<string>((resolve, reject) => {
    createInterface({ input: child.stdout }).once("line", resolve);
    child.once("error", reject);
    child.once("exit", (code) => reject(new Error(`${command} ${args[0] ?? ""} ended with ${code} without output`)));
  });
  firstLine.catch(() => {});
  child.stdout.resume();
  return {
    pid: child.pid,
    firstLine,
    exited,
    async stop() {
      child.kill("SIGTERM");
      const timer = setTimeout(() => child.kill("SIGKILL"), STOP_MS);
      await exited;
      clearTimeout(timer);
    },
  };
}
