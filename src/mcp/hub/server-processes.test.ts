import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import type { Readable, Writable } from "node:stream";
import { describe, expect, onTestFinished, test } from "vitest";
import {
  isRunning,
  launchFixture,
  openTestTransport,
  startSleeper,
  waitUntil,
} from "../../../test/fixtures/mcp-servers/stdio-fixtures.ts";
import type { ProcessStore, StartedProcess } from "./server-processes.ts";
import { createProcessRecorder, readStartTime, sweepProcesses } from "./server-processes.ts";

const HOST = "here";
const DEAD = 1_999_999_999;
const TIMEOUTS = { termMs: 200, killMs: 5_000 };

function memory(...records: StartedProcess[]): ProcessStore & { readonly records: StartedProcess[] } {
  return {
    records,
    async add(started) {
      records.push(started);
    },
    async remove({ pid, host, startedAt }) {
      const at = records.findIndex((one) => one.pid === pid && one.host === host && one.startedAt === startedAt);
      if (at !== -1) records.splice(at, 1);
    },
    all: async () => [...records],
  };
}

async function sleeping() {
  const child = startSleeper("mute");
  await once(child.stderr, "data");
  const pid = child.pid ?? 0;
  const record = { server: "s", pid, startedAt: (await readStartTime(pid)) ?? "", ownerPid: DEAD, host: HOST };
  return { pid, record };
}

const sweep = (store: ProcessStore, kill: (pid: number, signal: NodeJS.Signals | 0) => unknown = process.kill) =>
  sweepProcesses(store, { host: HOST, isAlive: (pid) => pid !== DEAD, kill }, TIMEOUTS);

describe("sweeping", () => {
  test("ends a process whose owner died, even if it ignores SIGTERM", async () => {
    const { pid, record } = await sleeping();
    const store = memory(record);

    expect(await sweep(store)).toEqual([record]);
    await waitUntil(async () => !(await isRunning(pid)));
    expect(store.records).toEqual([]);
  });

  test("leaves processes with a living owner or of another host alone", async () => {
    const { pid, record } = await sleeping();
    const store = memory({ ...record, ownerPid: process.pid }, { ...record, host: "there" });

    expect(await sweep(store)).toEqual([]);
    expect([await isRunning(pid), store.records.length]).toEqual([true, 2]);
  });

  test("never signals another process with the same pid, and removes the record", async () => {
    const { pid, record } = await sleeping();
    const other = { ...record, startedAt: "another time" };
    const ownedOther = { ...record, startedAt: "yet another time", ownerPid: process.pid };
    const store = memory(other, ownedOther);
    const signalled: number[] = [];

    expect(await sweep(store, (...[asked]) => signalled.push(asked))).toEqual([]);
    expect([signalled, await isRunning(pid), store.records]).toEqual([[], true, []]);
  });

  test("keeps the record of a process that cannot be ended", async () => {
    const { record } = await sleeping();
    const store = memory(record);
    const forbidden = () => {
      throw Object.assign(new Error(), { code: "EPERM" });
    };
    await sweepProcesses(store, { host: HOST, isAlive: () => false, kill: forbidden }, { termMs: 0, killMs: 0 });

    expect(store.records).toEqual([record]);
  });
});

describe("the record of a server's process", () => {
  test("exists while the process runs", async () => {
    const store = memory();
    const record = createProcessRecorder(store, "s", { pid: 7, host: HOST });
    const { transport } = openTestTransport(launchFixture("plain.mjs"), record);
    await transport.start();
    await waitUntil(() => store.records.length === 1);
    const pid = transport.pid ?? 0;
    expect(store.records).toEqual([{ server: "s", pid, startedAt: await readStartTime(pid), ownerPid: 7, host: HOST }]);
    await transport.close();

    expect(store.records).toEqual([]);
  });

  test("is not written without a start time", async () => {
    const store = memory();
    const record = createProcessRecorder(store, "s", { pid: 7, host: HOST }, async () => undefined);
    await record.onStarted(1);
    await record.onEnded(1);

    expect(store.records).toEqual([]);
  });
});

describe("the start time of a process", () => {
  test.each(["linux", "darwin"] as const)("is unique and constant on %s", async (platform) => {
    const time = await readStartTime(process.pid, platform);

    expect(time).toMatch(/\d/);
    expect(await readStartTime(process.pid, platform)).toBe(time);
    expect(await readStartTime(1, platform)).not.toBe(time);
    expect(await readStartTime(DEAD, platform)).toBeUndefined();
  });

  test.skipIf(process.platform !== "linux")("is undefined for a zombie", async () => {
    // The shell would take note; what takes its place does not.
    const parent = spawn("/bin/sh", ["-c", "cat <&3 & echo $!; exec sleep 60"], {
      stdio: ["ignore", "pipe", "ignore", "pipe"],
    });
    onTestFinished(() => void parent.kill("SIGKILL"));
    const [, stdout, , input] = parent.stdio as unknown as [null, Readable, null, Writable];
    const pid = Number((await once(stdout, "data")).toString());
    await waitUntil(async () => (await readFile(`/proc/${parent.pid}/comm`, "utf8")).trim() === "sleep");
    expect(await readStartTime(pid)).toMatch(/\d/);
    input.end();

    await waitUntil(async () => (await readStartTime(pid)) === undefined);
    expect(process.kill(pid, 0)).toBe(true);
  });
});
