import { realpathSync } from "node:fs";
import { basename, dirname, isAbsolute, join, resolve } from "node:path";
import { QmError } from "../../core/errors.ts";
import { quoted } from "../../core/names.ts";
import { Kept, NOTHING_KEPT } from "./kept.ts";

/** The bounds of one root. All of them protect memory and time; none of them is a permission. */
export interface FileLimits {
  /** How much text one read answers with. */
  readonly maxReadBytes: number;
  /** The largest file that can be written or edited. */
  readonly maxWriteBytes: number;
  /** Up to this size a read also counts the file's lines and hashes it; beyond, it stops after its slice. */
  readonly maxScanBytes: number;
  /** How many entries one list, glob or grep looks at. */
  readonly maxVisited: number;
}

const defaults: FileLimits = {
  maxReadBytes: 256 * 1024,
  maxWriteBytes: 10 * 1024 * 1024,
  maxScanBytes: 64 * 1024 * 1024,
  maxVisited: 100_000,
};

/** The one folder that everything here is confined to. */
export interface Root {
  /** Absolute, and never shown to a caller. */
  readonly path: string;
  readonly limits: FileLimits;
  /** The protected paths as they are on disk now. */
  readonly kept: () => Kept;
  /** Work on one file takes turns, so that two edits asked for at once both take effect. */
  readonly inTurn: <T>(file: string, work: () => Promise<T>) => Promise<T>;
}

/**
 * A root that does not exist yet fails the calls, not the start. `protect` are absolute paths that nothing may reach;
 * throws `invalid_config` for a root that is one of them or lies in one.
 */
export function openRoot(path: string, limits: Partial<FileLimits> = {}, protect: readonly string[] = []): Root {
  if (path.trim() === "" || path.includes("\0")) throw new QmError("invalid_config", "the file root is not a path");
  const all = { ...defaults, ...withoutUndefined(limits) };
  for (const [name, value] of Object.entries(all)) {
    if (!Number.isSafeInteger(value) || value < 1) {
      throw new QmError("invalid_config", `the file limit ${name} is not a positive whole number`);
    }
  }
  const kept = keeping(protect);
  if (kept().standingOf(realPathOf(resolve(path))) === "kept") {
    throw new QmError("invalid_config", `the file root ${resolve(path)} lies in what is kept by Quartermaster itself`, {
      hint: "Choose a root that is, and lies in, none of the protected paths.",
    });
  }
  return { path: resolve(path), limits: all, kept, inTurn: turns() };
}

function keeping(protect: readonly string[]): Root["kept"] {
  for (const path of protect) {
    if (!isAbsolute(path) || path.includes("\0"))
      throw new QmError("invalid_config", `the protected path ${quoted(path)} is not an absolute path`);
  }
  const paths = [...new Set(protect.map((path) => resolve(path)))];
  return paths.length === 0 ? () => NOTHING_KEPT : () => new Kept(paths);
}

/** The path with the links followed, as far as it exists. */
function realPathOf(path: string): string {
  try {
    return realpathSync.native(path);
  } catch {
    return dirname(path) === path ? path : join(realPathOf(dirname(path)), basename(path));
  }
}

function withoutUndefined(limits: Partial<FileLimits>): Partial<FileLimits> {
  return Object.fromEntries(Object.entries(limits).filter(([, value]) => value !== undefined));
}

function turns(): Root["inTurn"] {
  const last = new Map<string, Promise<unknown>>();
  return async (file, work) => {
    const mine = (last.get(file) ?? Promise.resolve()).then(work);
    const settled = mine.catch(() => undefined);
    last.set(file, settled);
    try {
      return await mine;
    } finally {
      if (last.get(file) === settled) last.delete(file);
    }
  };
}
