import { type BigIntStats, fstatSync, lstatSync, readdirSync, readlinkSync } from "node:fs";
import { dirname, isAbsolute, join, parse, relative, sep } from "node:path";
import { QmError } from "../../core/errors.ts";
import { quoteName } from "../../core/names.ts";

/**
 * - `protected`: a protected path, an entry below one, or another name of one
 * - `parent`: a folder or link that leads to one. It must not be replaced, but its other entries are free.
 */
type PathProtection = "free" | "parent" | "protected";

interface DiskEntry {
  readonly path: string;
  /** Device and inode, the same for all names of a file. Absent: there is no entry, or the disk has no inodes. */
  readonly id: string | undefined;
  readonly stats: BigIntStats | undefined;
}

interface ProtectedTarget {
  readonly anchor: DiskEntry;
  /** The folded names of the parts below it. */
  readonly missing: readonly string[];
}

/** The protected files that have more than one name. */
interface LinkedFiles {
  readonly ids: ReadonlySet<string>;
  /** `false`: there may be more, so every file with more than one name counts as protected. */
  readonly isComplete: boolean;
}

const HOP_LIMIT = 40;
const ALIAS_LIMIT = 10_000;

interface ProtectedNames {
  /** A `*` at the start or at the end stands for any beginning or ending. */
  readonly names: readonly string[];
  readonly root: string;
  readonly only?: readonly string[] | undefined;
}

/** The paths that no action may reach, as of now. Reads synchronously, so that no other call comes in between. */
export class ProtectedPaths {
  readonly #targets: ProtectedTarget[] = [];
  readonly #parents: DiskEntry[] = [];
  /** The folded last name of every target. */
  readonly #names = new Set<string>();
  readonly #folders = new Map<string, DiskEntry>();
  readonly #anywhere: ReadonlySet<string>;
  readonly #prefixes: readonly string[];
  readonly #suffixes: readonly string[];
  readonly #root: string;
  readonly #only: ReadonlySet<string> | undefined;
  #linkedFiles: LinkedFiles | undefined;

  /** `names` are protected at any depth below the real path `root`. With `only`, so are all other entries of the root. */
  constructor(paths: readonly string[], { names, root, only }: ProtectedNames = { names: [], root: "" }) {
    this.#only = only && new Set(only);
    this.#anywhere = new Set(names.filter((name) => !/^[*]|[*]$/.test(name)).map(foldName));
    this.#suffixes = names.flatMap((name) => (name.startsWith("*") ? [foldName(name.slice(1))] : []));
    this.#prefixes = names.flatMap((name) => (name.endsWith("*") ? [foldName(name.slice(0, -1))] : []));
    this.#root = root;
    for (const path of paths) this.#add(path);
  }

  /** Takes a real path, plus missing parts below it. Links are not followed. */
  getProtection(path: string): PathProtection {
    const below = relative(this.#root, path).split(sep);
    if (this.#isNamed(below) || this.#isLeftOut(below[0])) return "protected";
    if (this.#targets.length === 0) return "free";
    const entry = readDiskEntry(path);
    if (this.#isHardLink(entry)) return "protected";
    const names = splitNames(path).map(foldName);
    for (let at = entry, depth = names.length; ; at = this.#folder(dirname(at.path)), depth--) {
      const isTarget = ({ anchor, missing }: ProtectedTarget) =>
        isSame(anchor, at) && missing.every((name, index) => name === names[depth + index]);
      if (this.#targets.some(isTarget)) return "protected";
      if (dirname(at.path) === at.path) break;
    }
    return this.#parents.some((parent) => isSame(parent, entry)) ? "parent" : "free";
  }

  requireUnprotected(path: string, shown: string): void {
    if (this.getProtection(path) === "protected") throw protectedPathError(shown);
  }

  /** Throws `path_refused` if one of the names is protected. A link with such a name may lead to another name. */
  requireUnprotectedNames(names: readonly string[], shown: string): void {
    if (this.#isNamed(names)) throw protectedPathError(shown);
    if (this.#isLeftOut(names[0])) throw notOfferedError(shown, this.#only);
  }

  /** For a path that is to be deleted or replaced: throws `path_refused` if it is, or leads to, a protected path. */
  requireReplaceable(path: string, shown: string): void {
    const protection = this.getProtection(path);
    if (protection === "protected") throw protectedPathError(shown);
    if (protection === "free") return;
    throw new QmError("path_refused", `${quoteName(shown)} leads to a path protected by Quartermaster`, { hint: HINT });
  }

  requireUnprotectedHandle(handle: { readonly fd: number }, shown: string): void {
    if (this.#targets.length === 0) return;
    const entry = toDiskEntry(shown, fstatSync(handle.fd, { bigint: true }));
    const isTarget = ({ anchor, missing }: ProtectedTarget) =>
      missing.length === 0 && anchor.id !== undefined && anchor.id === entry.id;
    if (this.#targets.some(isTarget) || this.#isHardLink(entry)) throw protectedPathError(shown);
  }

  /** Whether an entry of a free folder is protected. Fast for names that differ from all protected names. */
  hides(folder: string, name: string): boolean {
    if (this.#isNamed([name]) || (folder === this.#root && this.#isLeftOut(name))) return true;
    if (this.#targets.length === 0) return false;
    const { ids, isComplete } = this.#findLinkedFiles();
    const isSuspect = !isComplete || ids.size > 0 || this.#names.has(foldName(name));
    return isSuspect && this.getProtection(join(folder, name)) === "protected";
  }

  #isNamed(names: readonly string[]): boolean {
    if (this.#anywhere.size + this.#prefixes.length + this.#suffixes.length === 0) return false;
    return names
      .map(foldName)
      .some(
        (name) =>
          this.#anywhere.has(name) ||
          this.#prefixes.some((prefix) => name.startsWith(prefix)) ||
          this.#suffixes.some((suffix) => name.endsWith(suffix)),
      );
  }

  /** `name`: an entry of the root. Empty or absent: the root itself. */
  #isLeftOut(name: string | undefined): boolean {
    return this.#only !== undefined && name !== undefined && name !== "" && !this.#only.has(name);
  }

  /** Follows a path link by link. The target and the links to it are protected. */
  #add(path: string): void {
    let at = this.#folder(parse(path).root);
    let names = splitNames(path);
    for (let hops = 0; names.length > 0; ) {
      const [name = "", ...rest] = names;
      const next = this.#folder(join(at.path, name));
      if (rest.length > 0) this.#parents.push(next);
      const target =
        next.stats?.isSymbolicLink() && hops++ < HOP_LIMIT ? attempt(() => readlinkSync(next.path)) : undefined;
      if (target === undefined) {
        at = next;
        names = rest;
        continue;
      }
      if (rest.length === 0) this.#protect(next);
      if (isAbsolute(target)) at = this.#folder(parse(target).root);
      names = [...splitNames(target), ...rest];
    }
    this.#protect(at);
  }

  #protect(entry: DiskEntry): void {
    this.#names.add(foldName(parse(entry.path).base));
    const missing: string[] = [];
    let anchor = entry;
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

  #isHardLink({ id, stats }: DiskEntry): boolean {
    if (!stats?.isFile() || stats.nlink < 2n) return false;
    const { ids, isComplete } = this.#findLinkedFiles();
    return !isComplete || id === undefined || ids.has(id);
  }

  #findLinkedFiles(): LinkedFiles {
    this.#linkedFiles ??= findLinkedFiles(this.#targets);
    return this.#linkedFiles;
  }
}

export const NO_PROTECTED_PATHS = new ProtectedPaths([]);
const HINT = "No action can reach it. Work on other files, or ask the operator to change it.";
const protectedPathError = (shown: string): QmError =>
  new QmError("path_refused", `${quoteName(shown)} is protected by Quartermaster`, { hint: HINT });

const notOfferedError = (shown: string, only: Iterable<string> = []): QmError =>
  new QmError("path_refused", `${quoteName(shown)} cannot be reached here`, {
    hint: `Only ${[...only].join(", ")} can.`,
  });

const readDiskEntry = (path: string): DiskEntry =>
  toDiskEntry(
    path,
    attempt(() => lstatSync(path, { bigint: true, throwIfNoEntry: false })),
  );

function toDiskEntry(path: string, stats: BigIntStats | undefined): DiskEntry {
  if (stats === undefined || stats.ino === 0n) return { path, stats, id: undefined };
  // Inodes of Windows do not fit into a double. Its device numbers have 64 bits, or only the lower 32 of them, depending
  // on the call (libuv #4698).
  const device = process.platform === "win32" ? BigInt.asUintN(32, stats.dev) : stats.dev;
  return { path, stats, id: `${device}:${stats.ino}` };
}

/** Without inodes, paths that some file system takes for the same are the same. */
function isSame(a: DiskEntry, b: DiskEntry): boolean {
  if (a.path === b.path) return true;
  if (a.id !== undefined && b.id !== undefined) return a.id === b.id;
  const [names, others] = [a.path.split(sep), b.path.split(sep)];
  return names.length === others.length && names.every((name, at) => foldName(name) === foldName(others[at] ?? ""));
}

/** One spelling for all names that macOS, Windows, HFS+ or FAT take for the same. */
export function foldName(name: string): string {
  const letters = /^[\x21-\x7e]*$/.test(name)
    ? name
    : name
        .normalize("NFKD")
        .replace(/\p{Default_Ignorable_Code_Point}/gu, "")
        .toUpperCase();
  return letters.toLowerCase().replace(/[. ]+$/, "");
}

function splitNames(path: string): string[] {
  const { root } = parse(path);
  return path
    .slice(root.length)
    .split(sep === "\\" ? /[\\/]/ : sep)
    .filter((name) => name !== "" && name !== ".");
}

function attempt<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch {
    return undefined;
  }
}

function findLinkedFiles(targets: readonly ProtectedTarget[]): LinkedFiles {
  const ids = new Set<string>();
  const waiting = targets.filter(({ missing }) => missing.length === 0).map(({ anchor }) => anchor);
  let left = ALIAS_LIMIT;
  for (let entry = waiting.pop(); entry !== undefined; entry = waiting.pop()) {
    if (entry.stats?.isFile() && entry.stats.nlink > 1n && entry.id !== undefined) ids.add(entry.id);
    if (!entry.stats?.isDirectory()) continue;
    const { path } = entry;
    const names = attempt(() => readdirSync(path));
    if (names === undefined || names.length > left) return { ids, isComplete: false };
    left -= names.length;
    waiting.push(...names.map((name) => readDiskEntry(join(path, name))));
  }
  return { ids, isComplete: true };
}
