import { execFile, spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import { setTimeout as pause } from "node:timers/promises";
import { promisify } from "node:util";

/** A process that was started for a server, for whoever comes after a crash. */
export interface StartedProcess {
  readonly server: string;
  readonly pid: number;
  /** When the system started it, as the system says it: a pid alone may be another's by now. */
  readonly startedAt: string;
  readonly ownerPid: number;
  readonly host: string;
}

export interface ProcessStore {
  add(started: StartedProcess): Promise<void>;
  remove(started: Pick<StartedProcess, "pid" | "host" | "startedAt">): Promise<void>;
  all(): Promise<readonly StartedProcess[]>;
}

interface ProcessRecordOptions {
  readonly store: ProcessStore;
  readonly server: string;
  readonly self: { readonly pid: number; readonly host: string };
  readonly startTimeOf: (pid: number) => Promise<string | undefined>;
}

/** Keeps note of the processes of a server while they run: hooks for a transport. */
export function createProcessRecorder({ store, server, self, startTimeOf }: ProcessRecordOptions) {
  const noted = new Map<number, StartedProcess>();
  return {
    async onStarted(pid: number): Promise<void> {
      const startedAt = await startTimeOf(pid);
      // It is gone already, or nobody could ever tell it from another.
      if (startedAt === undefined) return;
      const started = { server, pid, startedAt, ownerPid: self.pid, host: self.host };
      noted.set(pid, started);
      await store.add(started);
    },
    /** Once `onStarted` is through. */
    async onEnded(pid: number): Promise<void> {
      const started = noted.get(pid);
      noted.delete(pid);
      if (started !== undefined) await store.remove(started);
    },
  };
}

/**
 * When the system started a process, as a text that tells it from every other that has had or will have its number.
 * Undefined where there is none, where it only waits for its end to be noted, and where the system does not say.
 */
export function readStartTime(pid: number, platform: NodeJS.Platform = process.platform): Promise<string | undefined> {
  return platform === "linux" ? readProcStartTime(pid) : readPsStartTime(pid);
}

/** The 22nd field, counted from the third: the second is the program's name, which may hold anything. */
const STATE = 0;
const START_TIME = 19;

async function readProcStartTime(pid: number): Promise<string | undefined> {
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

async function readPsStartTime(pid: number): Promise<string | undefined> {
  try {
    const asked = ["-o", "lstart=", "-p", String(pid)];
    // The same time must always be the same text.
    const { stdout } = await promisify(execFile)("/bin/ps", asked, { env: { LC_ALL: "C", TZ: "UTC" } });
    return stdout.trim() || undefined;
  } catch {
    return undefined;
  }
}

/** Sends a signal as the system does: 0 only looks, a negative number means a group. Throws where there is none. */
export type KillProcess = (pid: number, signal: NodeJS.Signals | 0) => unknown;

/** A process that was started as the first of a group, and whatever it has started since. */
interface ProcessGroup {
  isRunning(): boolean;
  signal(signal: "SIGTERM" | "SIGKILL"): void;
}

export interface KillTimeouts {
  /** How long after SIGTERM. */
  readonly termMs: number;
  /** How long after SIGKILL. */
  readonly killMs: number;
}

export function createProcessGroup(pid: number, kill: KillProcess, platform: NodeJS.Platform): ProcessGroup {
  return platform === "win32" ? createWindowsTree(pid, kill) : createPosixGroup(pid, kill);
}

function createPosixGroup(pid: number, kill: KillProcess): ProcessGroup {
  return {
    isRunning: () => canSignal(() => kill(-pid, 0)),
    signal: (signal) => void canSignal(() => kill(-pid, signal)),
  };
}

/** Not tried on a real Windows. There are no groups there: `taskkill` goes through the children. */
function createWindowsTree(pid: number, kill: KillProcess): ProcessGroup {
  return {
    isRunning: () => canSignal(() => kill(pid, 0)),
    signal(signal) {
      const force = signal === "SIGKILL" ? ["/F"] : [];
      const killer = spawn("taskkill", ["/PID", String(pid), "/T", ...force], { stdio: "ignore", windowsHide: true });
      killer.on("error", () => void canSignal(() => kill(pid, signal)));
    },
  };
}

/** Whether there was anybody. One that is not ours to signal is there. */
function canSignal(send: () => unknown): boolean {
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
export async function endProcessGroup(group: ProcessGroup, { termMs, killMs }: KillTimeouts): Promise<boolean> {
  if (!group.isRunning()) return true;
  group.signal("SIGTERM");
  if (await waitUntilGone(group, termMs)) return true;
  group.signal("SIGKILL");
  return waitUntilGone(group, killMs);
}

const FIRST_LOOK_MS = 5;
const LOOK_MS = 50;

/** Whether nobody of a group is there any more, within a time. The system tells nobody: one has to look. */
async function waitUntilGone(group: ProcessGroup, ms: number): Promise<boolean> {
  for (let waited = 0, next = FIRST_LOOK_MS; group.isRunning(); next = Math.min(LOOK_MS, next * 2)) {
    if (waited >= ms) return false;
    await pause(next);
    waited += next;
  }
  return true;
}

interface ProcessInspector {
  readonly host: string;
  isAlive(pid: number): boolean;
  startTimeOf(pid: number): Promise<string | undefined>;
  readonly kill: KillProcess;
}

const SWEEP_TIMEOUTS: KillTimeouts = { termMs: 2_000, killMs: 2_000 };

/**
 * Ends what processes that are gone have left running on this machine, and answers what that was. A process is ended
 * only if its owner is dead and it is the very one that was recorded: a number alone may be another's by now.
 */
export async function sweepProcesses(
  store: ProcessStore,
  facts: ProcessInspector,
  {
    patience = SWEEP_TIMEOUTS,
    platform = process.platform,
  }: { patience?: KillTimeouts; platform?: NodeJS.Platform } = {},
): Promise<readonly StartedProcess[]> {
  const here = (await store.all()).filter(({ host }) => host === facts.host);
  const swept = await Promise.all(
    here.map(async (started) => {
      const isThere = (await facts.startTimeOf(started.pid)) === started.startedAt;
      if (isThere && facts.isAlive(started.ownerPid)) return undefined;
      // What could not be ended stays on record for the next time.
      if (isThere && !(await endProcessGroup(createProcessGroup(started.pid, facts.kill, platform), patience)))
        return undefined;
      await store.remove(started);
      return isThere ? started : undefined;
    }),
  );
  return swept.filter((started) => started !== undefined);
}

const STOP_TIMEOUTS: KillTimeouts = { termMs: 5_000, killMs: 2_000 };

/**
 * Ends the processes of some servers on this machine, or of all where none is named, whoever started them. Whoever did
 * finds them gone, and starts them again with the next call.
 */
export async function stopProcesses(
  servers: readonly string[],
  store: ProcessStore,
  facts: ProcessInspector,
  platform: NodeJS.Platform = process.platform,
): Promise<readonly StartedProcess[]> {
  const running = (await store.all()).filter(
    ({ host, server }) => host === facts.host && (servers.length === 0 || servers.includes(server)),
  );
  const stopped = await Promise.all(
    running.map(async (started) => {
      const isThere = (await facts.startTimeOf(started.pid)) === started.startedAt;
      if (isThere && !(await endProcessGroup(createProcessGroup(started.pid, facts.kill, platform), STOP_TIMEOUTS)))
        return undefined;
      await store.remove(started);
      return isThere ? started : undefined;
    }),
  );
  return stopped.filter((started) => started !== undefined);
}
