import { realpathSync } from "node:fs";
import { basename, dirname, isAbsolute, join, resolve } from "node:path";
import { QmError } from "../../core/errors.ts";
import { quoted } from "../../core/names.ts";
import { folded, Kept, NOTHING_KEPT } from "./kept.ts";

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
  /** What is protected, as it is on disk now. `real` is the root's own real path. */
  readonly kept: (real: string) => Kept;
  /** Work on one file takes turns, so that two edits asked for at once both take effect. */
  readonly inTurn: <T>(file: string, work: () => Promise<T>) => Promise<T>;
}

export interface Protected {
  /** Absolute paths that nothing may reach. */
  readonly paths?: readonly string[];
  /** Names that nothing may reach at any depth below the root. */
  readonly names?: readonly string[];
}

/**
 * A root that does not exist yet fails the calls, not the start. Throws `invalid_config` for a root that is a protected
 * path or lies in one.
 */
export function openRoot(path: string, limits: Partial<FileLimits> = {}, protect: Protected = {}): Root {
  if (path.trim() === "" || path.includes("\0")) throw new QmError("invalid_config", "the file root is not a path");
  const all = { ...defaults, ...withoutUndefined(limits) };
  for (const [name, value] of Object.entries(all)) {
    if (!Number.isSafeInteger(value) || value < 1) {
      throw new QmError("invalid_config", `the file limit ${name} is not a positive whole number`);
    }
  }
  const kept = keeping(protect);
  const real = realPathOf(resolve(path));
  if (kept(real).standingOf(real) === "kept") {
    throw new QmError("invalid_config", `the file root ${resolve(path)} lies in what is kept by Quartermaster itself`, {
      hint: "Choose a root that is, and lies in, none of the protected paths.",
    });
  }
  return { path: resolve(path), limits: all, kept, inTurn: turns() };
}

function keeping({ paths: protect = [], names = [] }: Protected): Root["kept"] {
  for (const name of names) {
    if (/[/\\\0]/.test(name) || folded(name) === "")
      throw new QmError("invalid_config", `the protected name ${quoted(name)} is not the name of a file`);
  }
  for (const path of protect) {
    if (!isAbsolute(path) || path.includes("\0"))
      throw new QmError("invalid_config", `the protected path ${quoted(path)} is not an absolute path`);
  }
  const paths = [...new Set(protect.map((path) => resolve(path)))];
  return paths.length + names.length === 0 ? () => NOTHING_KEPT : (root) => new Kept(paths, { names, root });
}

/** The path with the links followed, as far as it exists. */
export function realPathOf(path: string): string {
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
