import { execFile, spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import { setTimeout as pause } from "node:timers/promises";
import { promisify } from "node:util";
import type { ProcessInfo } from "../../core/runtime.ts";

/** A running server process, recorded so that a later process can end it after a crash. */
export interface StartedProcess {
  readonly server: string;
  readonly pid: number;
  /** From `readStartTime`: the pid alone may belong to another process by now. */
  readonly startedAt: string;
  readonly ownerPid: number;
  readonly host: string;
}

export interface ProcessStore {
  add(started: StartedProcess): Promise<void>;
  remove(started: Pick<StartedProcess, "pid" | "host" | "startedAt">): Promise<void>;
  all(): Promise<readonly StartedProcess[]>;
}

/** Hooks for a transport that record the processes of a server while they run. */
export function createProcessRecorder(
  store: ProcessStore,
  server: string,
  self: Pick<ProcessInfo, "pid" | "host">,
  readTime: (pid: number) => Promise<string | undefined> = readStartTime,
) {
  const recorded = new Map<number, StartedProcess>();
  return {
    async onStarted(pid: number): Promise<void> {
      const startedAt = await readTime(pid);
      // The process is gone already, or could not be told from another.
      if (startedAt === undefined) return;
      const started = { server, pid, startedAt, ownerPid: self.pid, host: self.host };
      recorded.set(pid, started);
      await store.add(started);
    },
    /** Call after `onStarted` has settled. */
    async onEnded(pid: number): Promise<void> {
      const started = recorded.get(pid);
      recorded.delete(pid);
      if (started !== undefined) await store.remove(started);
    },
  };
}

/** The start time, which tells processes with the same pid apart. Undefined if the process is gone, or unknown. */
export async function readStartTime(pid: number, platform = process.platform): Promise<string | undefined> {
  try {
    return await (platform === "linux" ? readProcStartTime(pid) : readPsStartTime(pid));
  } catch {
    return undefined;
  }
}

async function readProcStartTime(pid: number): Promise<string | undefined> {
  const [stat, boot] = await Promise.all([
    readFile(`/proc/${pid}/stat`, "latin1"),
    // The time counts from the boot of the machine.
    readFile("/proc/sys/kernel/random/boot_id", "latin1").catch(() => ""),
  ]);
  // Fields from the third on. The second is the program's name, which may hold spaces and parentheses.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const [state, startTime] = [fields[0], fields[19]];
  return state === "Z" ? undefined : `${boot.trim()}:${startTime}`;
}

async function readPsStartTime(pid: number): Promise<string | undefined> {
  // A fixed locale and time zone: the same time must always give the same text.
  const env = { LC_ALL: "C", TZ: "UTC" };
  const { stdout } = await promisify(execFile)("/bin/ps", ["-o", "lstart=", "-p", String(pid)], { env });
  return stdout.trim() || undefined;
}

/** Like `process.kill`: signal 0 only checks, a negative pid means a group. Throws if there is no such process. */
export type KillProcess = (pid: number, signal: NodeJS.Signals | 0) => unknown;
export type ProcessFacts = ProcessInfo & { readonly kill: KillProcess };
export type KillTimeouts = { readonly termMs: number; readonly killMs: number };

/** Ends a process and its children: SIGTERM, then SIGKILL. Returns whether all are gone; a zombie of another parent may stay. */
export async function endProcessGroup(pid: number, kill: KillProcess, wait: KillTimeouts, platform: NodeJS.Platform) {
  const isRunning = () => canSignal(() => kill(platform === "win32" ? pid : -pid, 0));
  const send = (signal: "SIGTERM" | "SIGKILL"): void => {
    if (platform === "win32") killWindowsTree(pid, kill, signal);
    else canSignal(() => kill(-pid, signal));
  };
  if (!isRunning()) return true;
  send("SIGTERM");
  if (await waitUntilGone(isRunning, wait.termMs)) return true;
  send("SIGKILL");
  return waitUntilGone(isRunning, wait.killMs);
}

/** Windows has no process groups; `taskkill` walks the children. Not tested on Windows. */
function killWindowsTree(pid: number, kill: KillProcess, signal: "SIGTERM" | "SIGKILL"): void {
  const force = signal === "SIGKILL" ? ["/F"] : [];
  const killer = spawn("taskkill", ["/PID", String(pid), "/T", ...force], { stdio: "ignore", windowsHide: true });
  killer.on("error", () => void canSignal(() => kill(pid, signal)));
}

function canSignal(send: () => unknown): boolean {
  try {
    send();
    return true;
  } catch (thrown) {
    return (thrown as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** Polls, since the system does not report the end of a group. */
async function waitUntilGone(isRunning: () => boolean, ms: number): Promise<boolean> {
  for (let waited = 0, next = 5; isRunning(); next = Math.min(50, next * 2)) {
    if (waited >= ms) return false;
    await pause(next);
    waited += next;
  }
  return true;
}

export async function sweepProcesses(
  store: ProcessStore,
  { host, isAlive, kill }: Omit<ProcessFacts, "pid">,
  timeouts: KillTimeouts = { termMs: 2_000, killMs: 2_000 },
): Promise<readonly StartedProcess[]> {
  const here = (await store.all()).filter((started) => started.host === host);
  return endRecorded(here, store, kill, timeouts, ({ ownerPid }) => isAlive(ownerPid));
}

/** Ends the processes of some servers on this machine, or of all if none is named. Their owners restart them on demand. */
export async function stopProcesses(
  servers: readonly string[],
  store: ProcessStore,
  here: Pick<ProcessFacts, "host" | "kill">,
) {
  const isMeant = ({ server, host }: StartedProcess) =>
    host === here.host && (servers.length === 0 || servers.includes(server));
  return endRecorded((await store.all()).filter(isMeant), store, here.kill, { termMs: 5_000, killMs: 2_000 });
}

/** Signals a process only if its start time matches the record. The record of one that did not end stays. */
async function endRecorded(
  records: readonly StartedProcess[],
  store: ProcessStore,
  kill: KillProcess,
  timeouts: KillTimeouts,
  isKept: (started: StartedProcess) => boolean = () => false,
) {
  const ended = await Promise.all(
    records.map(async (started) => {
      const isThere = (await readStartTime(started.pid)) === started.startedAt;
      if (isThere && isKept(started)) return [];
      if (isThere && !(await endProcessGroup(started.pid, kill, timeouts, process.platform))) return [];
      await store.remove(started);
      return isThere ? [started] : [];
    }),
  );
  return ended.flat();
}
