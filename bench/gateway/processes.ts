import { readdirSync, readFileSync, readlinkSync } from "node:fs";

/** The pid alone is not enough, because the system may reuse it. */
export interface Running {
  readonly pid: number;
  readonly since: string;
}

/** A process and all its descendants, from /proc. */
export interface Tree {
  /** The process itself first. */
  readonly processes: readonly Running[];
  readonly children: number;
  /** Resident memory of all of them, in bytes. Shared memory counts once for each process. */
  readonly rss: number;
  /** Resident memory of the process alone. */
  readonly ownRss: number;
  /** Open file descriptors of the process alone. */
  readonly descriptors: number;
}

const PAGE = 4096;
const TICK_MS = 10;

export function treeOf(root: number): Tree {
  if (root <= 1) throw new Error(`${root} is no process of ours`);
  const below = new Map<number, number[]>();
  for (const pid of allPids()) {
    const parent = statOf(pid)?.parent;
    if (parent !== undefined) below.set(parent, [...(below.get(parent) ?? []), pid]);
  }
  const pids = [root];
  for (let at = 0; at < pids.length; at++) pids.push(...(below.get(pids[at] ?? 0) ?? []));
  return {
    processes: pids.map((pid) => ({ pid, since: statOf(pid)?.since ?? "" })),
    children: pids.length - 1,
    rss: pids.reduce((sum, pid) => sum + rssOf(pid), 0),
    ownRss: rssOf(root),
    descriptors: descriptorsOf(root),
  };
}

/** The processor time of a process so far. The resolution is a hundredth of a second. */
export function processorMs(pid: number): number {
  return statOf(pid)?.processorMs ?? Number.NaN;
}

export function stillRuns({ pid, since }: Running): boolean {
  const stat = statOf(pid);
  return stat !== undefined && stat.since === since && stat.state !== "Z";
}

/** The environment variable that marks all processes of a run. Children inherit it. */
export const MARK = "QM_BENCH_MARK";

/** All running processes with the mark in their environment or command line. */
export function marked(mark: string): readonly number[] {
  return allPids().filter((pid) => isOurs(pid, mark) && statOf(pid)?.state !== "Z");
}

/**
 * Kills a process if it has the mark. The check matters because a pid may be reused, and some values address all
 * processes. Returns whether it did.
 */
export function killMarked(pid: number, mark: string): boolean {
  if (!isOurs(pid, mark)) return false;
  try {
    return process.kill(pid, "SIGKILL");
  } catch {
    return false;
  }
}

function isOurs(pid: number, mark: string): boolean {
  if (!Number.isInteger(pid) || pid <= 1 || pid === process.pid || mark.length < 8) return false;
  const bears = (text: string): boolean => text.split("\0").some((part) => part === mark || part === `${MARK}=${mark}`);
  return bears(read(pid, "environ")) || bears(read(pid, "cmdline"));
}

function allPids(): readonly number[] {
  return readdirSync("/proc")
    .map(Number)
    .filter((pid) => Number.isInteger(pid) && pid > 0);
}

interface Stat {
  readonly state: string;
  readonly parent: number;
  readonly since: string;
  readonly processorMs: number;
}

function statOf(pid: number): Stat | undefined {
  const text = read(pid, "stat");
  if (text === "") return undefined;
  // The name is in brackets and may contain any character, including brackets.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return {
    state: fields[0] ?? "",
    parent: Number(fields[1]),
    since: fields[19] ?? "",
    processorMs: (Number(fields[11]) + Number(fields[12])) * TICK_MS,
  };
}

const rssOf = (pid: number): number => Number(read(pid, "statm").split(" ")[1] ?? 0) * PAGE;

function descriptorsOf(pid: number): number {
  try {
    return readdirSync(`/proc/${pid}/fd`).length;
  } catch {
    return Number.NaN;
  }
}

function read(pid: number, what: string): string {
  try {
    return readFileSync(`/proc/${pid}/${what}`, "utf8");
  } catch {
    return "";
  }
}

export const canReadProcesses = (): boolean => {
  try {
    return readlinkSync("/proc/self") === String(process.pid);
  } catch {
    return false;
  }
};
