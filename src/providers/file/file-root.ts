import { randomBytes } from "node:crypto";
import { realpathSync } from "node:fs";
import { lstat, realpath } from "node:fs/promises";
import { basename, dirname, isAbsolute, join, resolve, sep } from "node:path";
import { QmError } from "../../core/errors.ts";
import { quoteName } from "../../core/names.ts";
import { explainFsError, getErrno } from "./fs-errors.ts";
import { foldName, NO_PROTECTED_PATHS, ProtectedPaths } from "./protected-paths.ts";

const PREFIX = ".qm-tmp-";

/** A name for a file that is being written. A killed process may leave one behind; nothing ever lists or opens it. */
export function temporaryName(): string {
  return PREFIX + randomBytes(8).toString("hex");
}

export function isTemporaryName(name: string): boolean {
  return name.startsWith(PREFIX);
}

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
export interface FileRoot {
  /** Absolute, and never shown to a caller. */
  readonly path: string;
  readonly limits: FileLimits;
  /** What is protected, as it is on disk now. `real` is the root's own real path. */
  readonly protectedPaths: (real: string) => ProtectedPaths;
  /** Work on one file takes turns, so that two edits asked for at once both take effect. */
  readonly runExclusive: <T>(file: string, work: () => Promise<T>) => Promise<T>;
}

interface ProtectOptions {
  /** Absolute paths that nothing may reach. */
  readonly paths?: readonly string[];
  /** Names that nothing may reach at any depth below the root. */
  readonly names?: readonly string[];
}

/**
 * A root that does not exist yet fails the calls, not the start. Throws `invalid_config` for a root that is a protected
 * path or lies in one.
 */
export function openRoot(path: string, limits: Partial<FileLimits> = {}, protect: ProtectOptions = {}): FileRoot {
  if (path.trim() === "" || path.includes("\0")) throw new QmError("invalid_config", "the file root is not a path");
  const all = { ...defaults, ...dropUndefined(limits) };
  for (const [name, value] of Object.entries(all)) {
    if (!Number.isSafeInteger(value) || value < 1) {
      throw new QmError("invalid_config", `the file limit ${name} is not a positive whole number`);
    }
  }
  const kept = createProtection(protect);
  const real = resolveRootPath(resolve(path));
  if (kept(real).getProtection(real) === "kept") {
    throw new QmError("invalid_config", `the file root ${resolve(path)} lies in what is kept by Quartermaster itself`, {
      hint: "Choose a root that is, and lies in, none of the protected paths.",
    });
  }
  return { path: resolve(path), limits: all, protectedPaths: kept, runExclusive: createFileMutex() };
}

function createProtection({ paths: protect = [], names = [] }: ProtectOptions): FileRoot["protectedPaths"] {
  for (const name of names) {
    if (/[/\\\0]/.test(name) || foldName(name) === "")
      throw new QmError("invalid_config", `the protected name ${quoteName(name)} is not the name of a file`);
  }
  for (const path of protect) {
    if (!isAbsolute(path) || path.includes("\0"))
      throw new QmError("invalid_config", `the protected path ${quoteName(path)} is not an absolute path`);
  }
  const paths = [...new Set(protect.map((path) => resolve(path)))];
  return paths.length + names.length === 0
    ? () => NO_PROTECTED_PATHS
    : (root) => new ProtectedPaths(paths, { names, root });
}

/** The path with the links followed, as far as it exists. */
function resolveRootPath(path: string): string {
  try {
    return realpathSync.native(path);
  } catch {
    return dirname(path) === path ? path : join(resolveRootPath(dirname(path)), basename(path));
  }
}

function dropUndefined(limits: Partial<FileLimits>): Partial<FileLimits> {
  return Object.fromEntries(Object.entries(limits).filter(([, value]) => value !== undefined));
}

function createFileMutex(): FileRoot["runExclusive"] {
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

/** Where a path leads: inside the root, all links followed, at the moment it was asked. */
export interface ResolvedPath {
  /** Relative to the root, `/` between the parts, as answers show it. `.` is the root. */
  readonly path: string;
  /** The real path of the deepest part that exists. Absolute, never shown. */
  readonly real: string;
  /** The parts below `real` that do not exist. */
  readonly missing: readonly string[];
  readonly isRoot: boolean;
  /** What must not be reached from here either. */
  readonly protectedPaths: ProtectedPaths;
}

const PATH_LIMIT = 4096;
/** Each part is looked up on disk. Real folders are rarely nested more than thirty deep. */
const PARTS_LIMIT = 128;
const NAME_BYTES = 255;
const DEVICE = /^(?:con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])$/i;

/**
 * Follows `text` to its place. Throws `path_refused` for anything that is, or leads, outside the root, and for what is
 * kept. The place may change before it is used: only what `openFolder` opens is certain to be where this says.
 */
export async function resolveFilePath(root: FileRoot, text: string): Promise<ResolvedPath> {
  const realRoot = await resolveRealRoot(root);
  const place = await followLinks(realRoot, parsePathParts([root.path, realRoot], text), root.protectedPaths(realRoot));
  place.protectedPaths.requireUnprotected(join(place.real, ...place.missing), place.path);
  return place;
}

/**
 * The folder of an entry and its name in it: for removing the entry itself, so a link in last place is not followed.
 * Throws `path_refused` also for what leads to something kept.
 */
export async function resolveFileEntry(
  root: FileRoot,
  text: string,
): Promise<{ folder: ResolvedPath; name: string; path: string }> {
  const realRoot = await resolveRealRoot(root);
  const parts = parsePathParts([root.path, realRoot], text);
  const name = parts.at(-1);
  if (name === undefined) throw new QmError("path_refused", "the root itself cannot be deleted");
  const folder = await followLinks(realRoot, parts.slice(0, -1), root.protectedPaths(realRoot));
  const path = parts.join("/");
  folder.protectedPaths.requireReplaceable(join(folder.real, ...folder.missing, name), path);
  return { folder, name, path };
}

async function resolveRealRoot(root: FileRoot): Promise<string> {
  try {
    return await realpath(root.path);
  } catch (thrown) {
    throw new QmError("not_found", `the root folder cannot be reached (${getErrno(thrown) ?? "unknown"})`, {
      cause: thrown,
      hint: "Whoever runs this must create the folder or correct its path.",
    });
  }
}

/**
 * The parts of a path, checked for what no file system needs to be asked about. `..` is refused even where it would
 * stay inside: after a link it leads elsewhere than it reads, and a policy rule only reads.
 */
export function parsePathParts(roots: readonly string[], text: string): readonly string[] {
  const shown = text.startsWith("/") ? "the path" : quoteName(text);
  const refuse = (why: string) => new QmError("path_refused", `${shown} ${why}`, { hint: PATH_HINT });

  if (text === "" || text.length > PATH_LIMIT) throw refuse(`must have 1 to ${PATH_LIMIT} characters`);
  if (text.includes("\0")) throw refuse("holds a NUL character");
  if (/\p{Cs}/u.test(text)) throw refuse("holds half a character");
  if (text.includes("\\")) throw refuse("holds a backslash; parts are separated by /");
  if (/^(?:[a-z]:|[a-z][a-z0-9+.-]*:\/\/)/i.test(text)) throw refuse("starts with a drive or a URL scheme");
  if (text === "~" || text.startsWith("~/")) throw refuse("starts with ~, which stands for nothing here");
  const inside = text.startsWith("/") ? stripRoot(roots, text) : text;
  if (inside === undefined) throw refuse("is absolute and not inside the root");

  const parts = inside.split("/").filter((part) => part !== "" && part !== ".");
  if (parts.length > PARTS_LIMIT) throw refuse(`has more than ${PARTS_LIMIT} parts`);
  for (const part of parts) {
    if (/^[. ]+$/.test(part)) throw refuse("holds a part of dots or spaces only, such as ..");
    if (Buffer.byteLength(part) > NAME_BYTES) throw refuse(`holds a name of more than ${NAME_BYTES} bytes`);
    if (DEVICE.test(part.replace(/[ ]*[.:].*$/s, "").trimEnd())) throw refuse("names a device");
    if (process.platform === "win32" && /[:. ]$|:/.test(part))
      throw refuse("holds a name that Windows reads otherwise");
    if (isTemporaryName(part)) throw refuse("names a file of a write in progress");
  }
  return parts;
}

/** The one spelling of a path: relative to the root, without `.` and empty parts. Throws `path_refused`. Follows no links. */
export function normalizeFilePath(root: FileRoot, text: string): string {
  return parsePathParts([root.path, resolveRootPath(root.path)], text).join("/") || ".";
}

const PATH_HINT = "Give a path relative to the root, such as src/main.ts; the root itself is a single dot.";

function stripRoot(roots: readonly string[], text: string): string | undefined {
  const root = roots.find((candidate) => isInsideRoot(candidate, text));
  return root === undefined ? undefined : text.slice(root.length);
}

function isInsideRoot(root: string, path: string): boolean {
  return path === root || path.startsWith(root.endsWith(sep) ? root : root + sep);
}

async function followLinks(realRoot: string, parts: readonly string[], kept: ProtectedPaths): Promise<ResolvedPath> {
  const path = parts.length === 0 ? "." : parts.join("/");
  kept.requireUnprotectedNames(parts, path);
  // One message for every way a link can fail: which one it was would tell what exists outside.
  const astray = () =>
    new QmError("path_refused", `${quoteName(path)} goes through a link that leads outside the root or nowhere`, {
      hint: PATH_HINT,
    });

  for (let known = parts.length; known >= 0; known--) {
    const real = await realpath(join(realRoot, ...parts.slice(0, known))).catch(() => undefined);
    if (real === undefined) continue;
    if (!isInsideRoot(realRoot, real)) throw astray();
    const next = parts[known];
    if (next !== undefined && (await isPresent(join(real, next), path))) throw astray();
    return {
      path,
      real,
      missing: parts.slice(known),
      isRoot: known === parts.length && real === realRoot,
      protectedPaths: kept,
    };
  }
  throw astray();
}

/** Whether something is there that `realpath` could not follow: a link to nowhere, to itself or to what is closed. */
async function isPresent(path: string, shown: string): Promise<boolean> {
  try {
    await lstat(path);
    return true;
  } catch (thrown) {
    const errno = getErrno(thrown);
    if (errno === "ENOENT" || errno === "ENOTDIR") return false;
    throw explainFsError(thrown, shown, "look at");
  }
}
