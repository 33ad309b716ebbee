import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, readFile, readlink } from "node:fs/promises";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { fixturePath, isRunning, startSleeper, waitUntil } from "../../../test/fixtures/mcp-servers/stdio-fixtures.ts";
import { findCompiled } from "../../../test/support/compiled.ts";
import { createWatchdog, type Watchdog } from "./watchdog.ts";

const OWNER = findCompiled(new URL("../../../test/fixtures/owning-process.ts", import.meta.url));

const cleanups: (() => void)[] = [];
afterAll(() => {
  for (const cleanUp of cleanups) cleanUp();
});

interface Family {
  readonly server: number;
  readonly grandchild: number;
  readonly watchdog: number;
}

/** A process of ours that has started a server, which has started a process, and has a watchdog. */
async function owner(server: string, ...args: string[]) {
  const child = spawn(process.execPath, [OWNER, fixturePath(server), ...args], {
    // A fourth, as some who start programs leave open.
    stdio: ["ignore", "pipe", "inherit", "pipe"],
    detached: true,
  });
  cleanups.push(() => void child.kill("SIGKILL"));
  const exited = once(child, "exit");
  const stdout = child.stdio[1] as Readable;
  const output = text(stdout);
  const first = new Promise<string>((resolve) => stdout.once("data", (data) => resolve(String(data))));
  const family = JSON.parse(await first) as Family;
  cleanups.push(() => {
    for (const pid of [family.server, family.grandchild]) if (isThere(pid)) process.kill(pid, "SIGKILL");
  });
  return { child, pid: child.pid ?? 0, family, exited, output };
}

function isThere(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

const allOf = ({ server, grandchild, watchdog }: Family) => [server, grandchild, watchdog];
const running = async (pids: readonly number[]) => (await Promise.all(pids.map(isRunning))).filter(Boolean).length;

// At once, because each waits for the time that a server has to exit.
describe.concurrent("when the process that owns a server dies", () => {
  test.each([
    ["of SIGKILL, a server that goes by itself", "SIGKILL", []],
    ["of SIGKILL, a server that ignores everything", "SIGKILL", ["stubborn"]],
    ["of SIGTERM, a server that ignores everything", "SIGTERM", ["stubborn"]],
  ] as const)("%s, its children and the watchdog end too", async (_, signal, args) => {
    const { child, family, exited } = await owner("family.mjs", ...args);
    expect(await running(allOf(family))).toBe(3);
    child.kill(signal);
    await exited;

    await waitUntil(async () => (await running(allOf(family))) === 0);
  });

  test("of a signal to its whole group, the watchdog survives and works", async () => {
    const { pid, family, exited } = await owner("family.mjs", "stubborn");
    process.kill(-pid, "SIGINT");
    await exited;

    await waitUntil(async () => (await running(allOf(family))) === 0);
  });

  test("after signals to the watchdog itself, it still works", async () => {
    const { pid, family, exited } = await owner("family.mjs", "stubborn");
    // Stopped, it cannot start another.
    process.kill(pid, "SIGSTOP");
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.kill(family.watchdog, signal);
    process.kill(pid, "SIGKILL");
    await exited;

    await waitUntil(async () => (await running(allOf(family))) === 0);
  });

  test("because it ends without closing anything", async () => {
    const { family, exited } = await owner("family.mjs", "stubborn", "exit");
    await exited;

    await waitUntil(async () => (await running(allOf(family))) === 0);
  });

  test("the watchdog does not hold its output streams", async () => {
    const { child, family, output } = await owner("family.mjs", "stubborn");
    // Stopped, it cannot end before it is let go on.
    process.kill(family.watchdog, "SIGSTOP");
    child.kill("SIGKILL");

    expect(JSON.parse(await output)).toEqual(family);
    expect(await running([family.watchdog])).toBe(1);
    process.kill(family.watchdog, "SIGCONT");
    await waitUntil(async () => (await running(allOf(family))) === 0);
  });
});

describe("a watchdog", () => {
  function started(): Watchdog {
    const watchdog = createWatchdog(process.env, process.platform);
    onTestFinished(() => watchdog.close());
    return watchdog;
  }

  test("runs from the first hold to the last", async () => {
    const watchdog = started();
    expect(watchdog.pid).toBeUndefined();
    const [first, second] = [watchdog.hold(), watchdog.hold()];
    const pid = watchdog.pid ?? 0;
    expect(await isRunning(pid)).toBe(true);
    first.release();
    first.release();
    expect(watchdog.pid).toBe(pid);
    second.release();

    expect(watchdog.pid).toBeUndefined();
    await waitUntil(async () => !(await isRunning(pid)));
  });

  test("leaves released groups alone and ends the rest when it closes", async () => {
    const watchdog = started();
    const [kept, middle, ended, last] = [
      startSleeper("mute"),
      startSleeper("mute"),
      startSleeper("mute"),
      startSleeper("mute"),
    ];
    const holds = [kept, middle, ended, last].map((child) => {
      const hold = watchdog.hold();
      hold.watch(child.pid ?? 0);
      return hold;
    });
    await Promise.all([kept, middle, ended, last].map(({ stderr }) => once(stderr, "data")));
    holds[1]?.release();
    holds[0]?.release();
    await watchdog.close();

    await waitUntil(async () => (await running([ended.pid ?? 0, last.pid ?? 0])) === 0);
    expect(await running([kept.pid ?? 0, middle.pid ?? 0])).toBe(2);
  });

  test("gives processes time to exit", async () => {
    const watchdog = started();
    const child = startSleeper("tidy");
    const said = text(child.stderr);
    await once(child.stderr, "data");
    watchdog.hold().watch(child.pid ?? 0);
    await watchdog.close();

    expect(await said).toContain("tidied up");
  });

  test("is restarted with its groups when it was killed", async () => {
    const watchdog = started();
    const child = startSleeper("mute");
    watchdog.hold().watch(child.pid ?? 0);
    const pid = watchdog.pid ?? 0;
    process.kill(pid, "SIGKILL");
    await waitUntil(() => watchdog.pid !== undefined && watchdog.pid !== pid);
    await watchdog.close();

    await waitUntil(async () => !(await isRunning(child.pid ?? 0)));
  });

  test.skipIf(process.platform !== "linux")("inherits nothing and has its own session", async () => {
    const { family } = await owner("family.mjs");
    const about = `/proc/${family.watchdog}`;
    const open = await Promise.all(
      // Node closes descriptors that its parent left open, up to this number.
      (await readdir(`${about}/fd`))
        .filter((fd) => Number(fd) < 15)
        .map(async (fd) => `${fd} ${await readlink(`${about}/fd/${fd}`)}`),
    );

    expect(open.map((line) => line.replace(/socket:.*|pipe:.*/, "ours"))).toEqual([
      "0 ours",
      "1 /dev/null",
      "2 /dev/null",
    ]);
    const [, group, session] = (await readFile(`${about}/stat`, "utf8")).replace(/^.*\) \w /, "").split(" ");
    expect([group, session]).toEqual([String(family.watchdog), String(family.watchdog)]);
    expect(await readlink(`${about}/cwd`)).toBe("/");
  });

  test("does nothing on Windows", async () => {
    const watchdog = createWatchdog(process.env, "win32");
    const hold = watchdog.hold();
    hold.watch(1);
    hold.release();
    await watchdog.close();

    expect(watchdog.pid).toBeUndefined();
  });
});
