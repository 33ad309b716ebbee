import { readdirSync, readFileSync, readlinkSync } from "node:fs";

/** A process and all below it, as /proc shows them. */
export interface Tree {
  /** Itself first. */
  readonly pids: readonly number[];
  readonly children: number;
  /** Resident memory of all together, in bytes; what they share counts in each. */
  readonly rss: number;
  /** Resident memory of itself alone. */
  readonly ownRss: number;
  /** Open file descriptors of itself alone. */
  readonly descriptors: number;
}

const PAGE = 4096;
const TICK_MS = 10;

export function treeOf(root: number): Tree {
  const below = new Map<number, number[]>();
  for (const pid of allPids()) {
    const parent = statOf(pid)?.parent;
    if (parent !== undefined) below.set(parent, [...(below.get(parent) ?? []), pid]);
  }
  const pids = [root];
  for (let at = 0; at < pids.length; at++) pids.push(...(below.get(pids[at] ?? 0) ?? []));
  return {
    pids,
    children: pids.length - 1,
    rss: pids.reduce((sum, pid) => sum + rssOf(pid), 0),
    ownRss: rssOf(root),
    descriptors: descriptorsOf(root),
  };
}

/** What the processor has spent on a process so far. It counts in hundredths of a second. */
export function processorMs(pid: number): number {
  const text = read(pid, "stat");
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}

/** Those of them that still run, and whatever else bears the mark in its command line. */
export function leftOf(pids: readonly number[], mark: string): readonly number[] {
  const marked = allPids().filter((pid) => pid !== process.pid && commandOf(pid).includes(mark));
  return [...new Set([...pids, ...marked])].filter((pid) => {
    const state = statOf(pid)?.state;
    return state !== undefined && state !== "Z";
  });
}

/** Ends them at once. Those that are gone already do not matter. */
export function killAll(pids: readonly number[]): void {
  for (const pid of pids) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {}
  }
}

function allPids(): readonly number[] {
  return readdirSync("/proc")
    .map(Number)
    .filter((pid) => Number.isInteger(pid) && pid > 0);
}

function statOf(pid: number): { readonly state: string; readonly parent: number } | undefined {
  const text = read(pid, "stat");
  // The name is in brackets and may hold anything, brackets too.
  const [state, parent] = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return text === "" ? undefined : { state: state ?? "", parent: Number(parent) };
}

const rssOf = (pid: number): number => Number(read(pid, "statm").split(" ")[1] ?? 0) * PAGE;

const commandOf = (pid: number): string => read(pid, "cmdline");

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
