import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { promisify } from "node:util";

/**
 * When the system started a process, as a text that tells it from every other that has had or will have its number.
 * Undefined where there is none, where it only waits for its end to be noted, and where the system does not say.
 */
export function startTimeOf(pid: number, platform: NodeJS.Platform = process.platform): Promise<string | undefined> {
  return platform === "linux" ? fromProc(pid) : fromPs(pid);
}

/** The 22nd field, counted from the third: the second is the program's name, which may hold anything. */
const STATE = 0;
const START_TIME = 19;

async function fromProc(pid: number): Promise<string | undefined> {
  try {
    const [stat, boot] = await Promise.all([
      readFile(`/proc/${pid}/stat`, "latin1"),
      // It counts from the start of the machine, so that one must know which.
      readFile("/proc/sys/kernel/random/boot_id", "latin1").catch(() => ""),
    ]);
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return fields[STATE] === "Z" ? undefined : `${boot.trim()}:${fields[START_TIME]}`;
  } catch {
    return undefined;
  }
}

async function fromPs(pid: number): Promise<string | undefined> {
  try {
    const asked = ["-o", "lstart=", "-p", String(pid)];
    // The same time must always be the same text.
    const { stdout } = await promisify(execFile)("/bin/ps", asked, { env: { LC_ALL: "C", TZ: "UTC" } });
    return stdout.trim() || undefined;
  } catch {
    return undefined;
  }
}
