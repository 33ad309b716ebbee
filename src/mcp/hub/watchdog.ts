import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { Socket } from "node:net";
import type { EnvironmentVariables } from "./start-process.ts";

/** Ends the groups of processes it was told of when this process dies without having done so, by whatever death. */
export interface Watchdog {
  /** Starts it if need be: ahead of a server, so that no moment is lost between the server's start and `watch`. */
  hold(): WatchdogHold;
  /** Resolves when it is gone. The groups of holds that were not released are ended. */
  close(): Promise<void>;
  /** Its own process, while there is one. */
  readonly pid: number | undefined;
}

export interface WatchdogHold {
  watch(group: number): void;
  /** The group is gone, or there never was one. With the last hold the watchdog goes too. */
  release(): void;
}

/**
 * Reads `+group` and `-group`. The end of its input is the end of whoever held the other side: then the groups that
 * are left get SIGTERM, some two seconds, and SIGKILL. Signals that are meant for all are not meant for it.
 */
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

/** So often it is started again when somebody has killed it; then there is something here that does not want it. */
const RESTARTS = 3;

export function createWatchdog(ours: EnvironmentVariables, platform: NodeJS.Platform): Watchdog {
  // Windows has no groups and no such shell. What is left there is found at the next start.
  return platform === "win32" ? NO_WATCHDOG : createShellWatchdog(ours.PATH ?? "/usr/bin:/bin");
}

const NO_WATCHDOG: Watchdog = {
  hold: () => ({ watch() {}, release() {} }),
  close: async () => {},
  pid: undefined,
};

function createShellWatchdog(path: string): Watchdog {
  const holds = new Map<WatchdogHold, number | undefined>();
  let shell: ChildProcess | undefined;
  let restarts = 0;

  function startShell(): void {
    if (shell !== undefined) return;
    // In a session of its own, and with nothing of ours: whoever reads our output must not wait for it.
    const started: ChildProcess = spawn("/bin/sh", ["-c", SCRIPT], {
      stdio: ["pipe", "ignore", "ignore"],
      detached: true,
      cwd: "/",
      env: { PATH: path },
    });
    shell = started;
    started.on("error", () => {});
    started.stdin?.on("error", () => {});
    started.once("exit", () => {
      if (shell !== started) return;
      shell = undefined;
      if (restarts++ < RESTARTS) startShell();
    });
    // It waits for us, and we do not wait for it.
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
