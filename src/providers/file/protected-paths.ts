import { type BigIntStats, fstatSync, lstatSync, readdirSync, readlinkSync } from "node:fs";
import { dirname, isAbsolute, join, parse, relative, sep } from "node:path";
import { QmError } from "../../core/errors.ts";
import { quoteName } from "../../core/names.ts";

/**
 * - `kept`: a protected path, something in one, or another name of one
 * - `way`: a folder or link that leads to one; what else is in it is free, but it must stay what it is
 */
export type PathProtection = "free" | "way" | "kept";

/** One path as the disk shows it, links not followed. */
interface DiskEntry {
  readonly path: string;
  /** Device and number, equal for every name of one file. Absent: there is nothing, or the disk has no numbers. */
  readonly id: string | undefined;
  readonly stats: BigIntStats | undefined;
}

interface ProtectedTarget {
  /** The deepest part that exists. */
  readonly anchor: DiskEntry;
  /** The parts below it that do not, folded. */
  readonly missing: readonly string[];
}

/** The kept files that have more than one name. */
interface LinkedFiles {
  readonly ids: ReadonlySet<string>;
  /** Otherwise there may be more, and every file with more than one name is taken for kept. */
  readonly isWhole: boolean;
}

/** Names that are kept wherever they stand below a root; with a `*` at the end, every name that begins so. */
interface ProtectedNames {
  readonly names: readonly string[];
  /** The real path of the root. */
  readonly root: string;
}

const HOP_LIMIT = 40;
const ALIAS_LIMIT = 10_000;

/**
 * What no action may reach, as it is on disk when this is made; made anew for every call. It asks the disk
 * synchronously: that is some dozens of quick questions, and no other call comes between them.
 */
export class ProtectedPaths {
  readonly #targets: ProtectedTarget[] = [];
  readonly #ways: DiskEntry[] = [];
  /** The last name of every target, folded. */
  readonly #names = new Set<string>();
  readonly #folders = new Map<string, DiskEntry>();
  readonly #everywhere: ReadonlySet<string>;
  readonly #beginnings: readonly string[];
  readonly #root: string;
  #aliased: LinkedFiles | undefined;

  constructor(paths: readonly string[], { names, root }: ProtectedNames = { names: [], root: "" }) {
    this.#everywhere = new Set(names.filter((name) => !name.endsWith("*")).map(foldName));
    this.#beginnings = names.flatMap((name) => (name.endsWith("*") ? [foldName(name.slice(0, -1))] : []));
    this.#root = root;
    for (const path of paths) this.#add(path);
  }

  /** How an absolute path stands. Links on it are not followed: give a real path, with what is missing below it. */
  getProtection(path: string): PathProtection {
    if (this.#isNamed(relative(this.#root, path).split(sep))) return "kept";
    if (this.#targets.length === 0) return "free";
    const spot = readDiskEntry(path);
    if (this.#isOtherName(spot)) return "kept";
    const names = splitNames(path).map(foldName);
    for (let at = spot, depth = names.length; ; at = this.#folder(dirname(at.path)), depth--) {
      const isKept = ({ anchor, missing }: ProtectedTarget) => isSame(anchor, at) && hasPrefix(names, missing, depth);
      if (this.#targets.some(isKept)) return "kept";
      if (dirname(at.path) === at.path) break;
    }
    return this.#ways.some((way) => isSame(way, spot)) ? "way" : "free";
  }

  /** Throws `path_refused` when the path is kept. */
  requireUnprotected(path: string, shown: string): void {
    if (this.getProtection(path) === "kept") throw protectedPathError(shown);
  }

  /** Throws `path_refused` when one of these names is kept wherever it stands: a link may lead from it to another. */
  requireUnprotectedNames(names: readonly string[], shown: string): void {
    if (this.#isNamed(names)) throw protectedPathError(shown);
  }

  /** Throws `path_refused` when the path is kept, or leads to what is: for removing it or putting a file there. */
  requireReplaceable(path: string, shown: string): void {
    const standing = this.getProtection(path);
    if (standing === "kept") throw protectedPathError(shown);
    if (standing === "way")
      throw new QmError("path_refused", `${quoteName(shown)} leads to what is kept by Quartermaster itself`, {
        hint: HINT,
      });
  }

  /** Throws `path_refused` when what was opened is kept, whatever its name was. */
  requireUnprotectedHandle(handle: { readonly fd: number }, shown: string): void {
    if (this.#targets.length === 0) return;
    const spot = toDiskEntry(shown, fstatSync(handle.fd, { bigint: true }));
    const isTarget = ({ anchor, missing }: ProtectedTarget) =>
      missing.length === 0 && anchor.id !== undefined && anchor.id === spot.id;
    if (this.#targets.some(isTarget) || this.#isOtherName(spot)) throw protectedPathError(shown);
  }

  /** Whether an entry of a folder that is free must not be shown. Quick for names unlike any that is kept. */
  hides(folder: string, name: string): boolean {
    if (this.#isNamed([name])) return true;
    if (this.#targets.length === 0) return false;
    const { ids, isWhole } = this.#findAliased();
    const isSuspect = !isWhole || ids.size > 0 || this.#names.has(foldName(name));
    return isSuspect && this.getProtection(join(folder, name)) === "kept";
  }

  #isNamed(names: readonly string[]): boolean {
    if (this.#everywhere.size + this.#beginnings.length === 0) return false;
    const isKept = (name: string) =>
      this.#everywhere.has(name) || this.#beginnings.some((beginning) => name.startsWith(beginning));
    return names.map(foldName).some(isKept);
  }

  /** Follows a path link by link: what it ends at is kept, and so is every link that stands for it. */
  #add(path: string): void {
    let at = this.#folder(parse(path).root);
    let names = splitNames(path);
    for (let hops = 0; names.length > 0; ) {
      const [name = "", ...rest] = names;
      const next = this.#folder(join(at.path, name));
      if (rest.length > 0) this.#ways.push(next);
      const leadsTo = next.stats?.isSymbolicLink() && hops++ < HOP_LIMIT ? readLink(next.path) : undefined;
      if (leadsTo === undefined) {
        at = next;
        names = rest;
        continue;
      }
      if (rest.length === 0) this.#keep(next);
      if (isAbsolute(leadsTo)) at = this.#folder(parse(leadsTo).root);
      names = [...splitNames(leadsTo), ...rest];
    }
    this.#keep(at);
  }

  #keep(spot: DiskEntry): void {
    this.#names.add(foldName(parse(spot.path).base));
    const missing: string[] = [];
    let anchor = spot;
    while (anchor.stats === undefined && dirname(anchor.path) !== anchor.path) {
      missing.unshift(foldName(parse(anchor.path).base));
      anchor = this.#folder(dirname(anchor.path));
    }
    this.#targets.push({ anchor, missing });
  }

  #folder(path: string): DiskEntry {
    const known = this.#folders.get(path) ?? readDiskEntry(path);
    this.#folders.set(path, known);
    return known;
  }

  /** Whether it is a hard link to a file that is kept. */
  #isOtherName({ id, stats }: DiskEntry): boolean {
    if (!stats?.isFile() || stats.nlink < 2n) return false;
    const { ids, isWhole } = this.#findAliased();
    return !isWhole || id === undefined || ids.has(id);
  }

  #findAliased(): LinkedFiles {
    this.#aliased ??= findLinkedFiles(this.#targets);
    return this.#aliased;
  }
}

/** For a root without protected paths. */
export const NO_PROTECTED_PATHS = new ProtectedPaths([]);

const HINT = "No action reaches it. Work on other files; whoever runs this can change it by hand.";

function protectedPathError(shown: string): QmError {
  return new QmError("path_refused", `${quoteName(shown)} is kept by Quartermaster itself`, { hint: HINT });
}

function readDiskEntry(path: string): DiskEntry {
  try {
    return toDiskEntry(path, lstatSync(path, { bigint: true, throwIfNoEntry: false }));
  } catch {
    // What cannot be looked at is compared by its path alone.
    return toDiskEntry(path, undefined);
  }
}

function toDiskEntry(path: string, stats: BigIntStats | undefined): DiskEntry {
  if (stats === undefined || stats.ino === 0n) return { path, stats, id: undefined };
  // Numbers as bigint: those of Windows are too long for a double, so that neighbours would look the same. Its devices
  // have 64 bits or the lower 32 of them, depending on how one asks (libuv #4698).
  const device = process.platform === "win32" ? BigInt.asUintN(32, stats.dev) : stats.dev;
  return { path, stats, id: `${device}:${stats.ino}` };
}

/** Without a number on both sides, two paths that any file system could take for one are one. */
function isSame(a: DiskEntry, b: DiskEntry): boolean {
  if (a.path === b.path) return true;
  if (a.id !== undefined && b.id !== undefined) return a.id === b.id;
  if (countPathParts(a.path) !== countPathParts(b.path)) return false;
  return foldPath(a.path) === foldPath(b.path);
}

function countPathParts(path: string): number {
  return path.split(sep).length;
}

function foldPath(path: string): string {
  return path.split(sep).map(foldName).join(sep);
}

/**
 * One spelling for all that some file system takes for one name: case and composition (macOS, Windows), characters
 * without width (HFS+), dots and spaces at the end (Windows, and FAT wherever it is mounted).
 */
export function foldName(name: string): string {
  const letters = /^[\x21-\x7e]*$/.test(name)
    ? name
    : name
        .normalize("NFKD")
        .replace(/\p{Default_Ignorable_Code_Point}/gu, "")
        .toUpperCase();
  return letters.toLowerCase().replace(/[. ]+$/, "");
}

/** Whether the names from an index on begin with these. */
function hasPrefix(names: readonly string[], start: readonly string[], from: number): boolean {
  return start.every((name, index) => name === names[from + index]);
}

function splitNames(path: string): string[] {
  const { root } = parse(path);
  return path
    .slice(root.length)
    .split(sep === "\\" ? /[\\/]/ : sep)
    .filter((name) => name !== "" && name !== ".");
}

function readLink(path: string): string | undefined {
  try {
    return readlinkSync(path);
  } catch {
    return undefined;
  }
}

function findLinkedFiles(targets: readonly ProtectedTarget[]): LinkedFiles {
  const ids = new Set<string>();
  const waiting = targets.filter(({ missing }) => missing.length === 0).map(({ anchor }) => anchor);
  let left = ALIAS_LIMIT;
  for (let spot = waiting.pop(); spot !== undefined; spot = waiting.pop()) {
    if (spot.stats?.isFile() && spot.stats.nlink > 1n && spot.id !== undefined) ids.add(spot.id);
    if (!spot.stats?.isDirectory()) continue;
    const { path } = spot;
    const names = listNames(path);
    if (names === undefined || names.length > left) return { ids, isWhole: false };
    left -= names.length;
    waiting.push(...names.map((name) => readDiskEntry(join(path, name))));
  }
  return { ids, isWhole: true };
}

function listNames(folder: string): readonly string[] | undefined {
  try {
    return readdirSync(folder);
  } catch {
    return undefined;
  }
}
