import { spawn } from "node:child_process";
import { setTimeout as pause } from "node:timers/promises";

/** Sends a signal as the system does: 0 only looks, a negative number means a group. Throws where there is none. */
export type Kill = (pid: number, signal: NodeJS.Signals | 0) => unknown;

/** A process that was started as the first of a group, and whatever it has started since. */
export interface ProcessGroup {
  isThere(): boolean;
  signal(signal: "SIGTERM" | "SIGKILL"): void;
}

export interface Patience {
  /** How long after SIGTERM. */
  readonly termMs: number;
  /** How long after SIGKILL. */
  readonly killMs: number;
}

export function processGroup(pid: number, kill: Kill, platform: NodeJS.Platform): ProcessGroup {
  return platform === "win32" ? windowsTree(pid, kill) : posixGroup(pid, kill);
}

function posixGroup(pid: number, kill: Kill): ProcessGroup {
  return {
    isThere: () => reaches(() => kill(-pid, 0)),
    signal: (signal) => void reaches(() => kill(-pid, signal)),
  };
}

/** Not tried on a real Windows. There are no groups there: `taskkill` goes through the children. */
function windowsTree(pid: number, kill: Kill): ProcessGroup {
  return {
    isThere: () => reaches(() => kill(pid, 0)),
    signal(signal) {
      const force = signal === "SIGKILL" ? ["/F"] : [];
      const killer = spawn("taskkill", ["/PID", String(pid), "/T", ...force], { stdio: "ignore", windowsHide: true });
      killer.on("error", () => void reaches(() => kill(pid, signal)));
    },
  };
}

/** Whether there was anybody. One that is not ours to signal is there. */
function reaches(send: () => unknown): boolean {
  try {
    send();
    return true;
  } catch (thrown) {
    return (thrown as NodeJS.ErrnoException).code === "EPERM";
  }
}

/**
 * Ends a group: politely first, and then not. Whether it is gone; it may not be where the system does not let it die,
 * or where nobody takes note of the dead.
 */
export async function endGroup(group: ProcessGroup, { termMs, killMs }: Patience): Promise<boolean> {
  if (!group.isThere()) return true;
  group.signal("SIGTERM");
  if (await gone(group, termMs)) return true;
  group.signal("SIGKILL");
  return gone(group, killMs);
}

const FIRST_LOOK_MS = 5;
const LOOK_MS = 50;

/** Whether nobody of a group is there any more, within a time. The system tells nobody: one has to look. */
async function gone(group: ProcessGroup, ms: number): Promise<boolean> {
  for (let waited = 0, next = FIRST_LOOK_MS; group.isThere(); next = Math.min(LOOK_MS, next * 2)) {
    if (waited >= ms) return false;
    await pause(next);
    waited += next;
  }
  return true;
}
