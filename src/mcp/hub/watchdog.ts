import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { Socket } from "node:net";
import type { EnvironmentVariables } from "./start-process.ts";

/** A helper process that ends the watched process groups if this process dies, however it dies. */
export interface Watchdog {
  /** Starts the helper if needed. Call it before a server starts, so that `watch` takes effect at once. */
  hold(): WatchdogHold;
  /** Resolves when the helper is gone. It ends the groups that were not released. */
  close(): Promise<void>;
  readonly pid: number | undefined;
}

export interface WatchdogHold {
  watch(group: number): void;
  /** Stops watching the group. The helper exits with the last hold. */
  release(): void;
}

/** Reads `+group` and `-group` lines. When its input ends, it sends the groups SIGTERM, then SIGKILL. */
const SCRIPT = `
trap '' HUP INT QUIT TERM
groups=' '
while read -r line; do
  group=\${line#?}
  case $line in
    +*) groups="$groups$group " ;;
    -*) case $groups in *" $group "*) groups="\${groups%%" $group "*} \${groups#*" $group "}" ;; esac ;;
  esac
done
left() {
  for group in $groups; do kill -s 0 -- "-$group" 2>/dev/null && return 0; done
  return 1
}
for group in $groups; do kill -s TERM -- "-$group" 2>/dev/null; done
tries=0
while [ $tries -lt 20 ] && left; do
  sleep 0.1 2>/dev/null || { sleep 1; tries=$((tries + 9)); }
  tries=$((tries + 1))
done
for group in $groups; do kill -s KILL -- "-$group" 2>/dev/null; done
exit 0
`;

/** A helper that is killed more often is not started again. */
const MAX_RESTARTS = 3;

export function createWatchdog(ours: EnvironmentVariables, platform: NodeJS.Platform): Watchdog {
  // Windows has no process groups and no such shell. The next start sweeps leftover processes there.
  if (platform === "win32")
    return { hold: () => ({ watch() {}, release() {} }), close: async () => {}, pid: undefined };
  const holds = new Map<WatchdogHold, number | undefined>();
  let shell: ChildProcess | undefined;
  let restarts = 0;

  function startShell(): void {
    if (shell !== undefined) return;
    // In a session of its own and without our output streams: their readers must not wait for it.
    const started: ChildProcess = spawn("/bin/sh", ["-c", SCRIPT], {
      stdio: ["pipe", "ignore", "ignore"],
      detached: true,
      cwd: "/",
      env: { PATH: ours.PATH ?? "/usr/bin:/bin" },
    });
    shell = started;
    started.on("error", () => {});
    started.stdin?.on("error", () => {});
    started.once("exit", () => {
      if (shell !== started) return;
      shell = undefined;
      if (restarts++ < MAX_RESTARTS) startShell();
    });
    // It must not keep this process alive.
    started.unref();
    if (started.stdin instanceof Socket) started.stdin.unref();
    for (const group of holds.values()) if (group !== undefined) sendLine(`+${group}`);
  }

  function sendLine(line: string): void {
    if (shell?.stdin?.writable) shell.stdin.write(`${line}\n`);
  }

  function stopShell(): ChildProcess | undefined {
    const dismissed = shell;
    shell = undefined;
    dismissed?.stdin?.end();
    return dismissed;
  }

  return {
    hold() {
      const hold: WatchdogHold = {
        watch(group) {
          holds.set(hold, group);
          sendLine(`+${group}`);
        },
        release() {
          const group = holds.get(hold);
          if (!holds.delete(hold)) return;
          if (group !== undefined) sendLine(`-${group}`);
          if (holds.size === 0) stopShell();
        },
      };
      holds.set(hold, undefined);
      startShell();
      return hold;
    },
    async close() {
      holds.clear();
      const dismissed = stopShell();
      if (dismissed?.pid === undefined || dismissed.exitCode !== null || dismissed.signalCode !== null) return;
      dismissed.ref();
      await once(dismissed, "exit");
    },
    get pid() {
      return shell?.pid;
    },
  };
}
