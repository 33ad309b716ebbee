import { randomBytes } from "node:crypto";
import { realpathSync, type Stats } from "node:fs";
import { lstat, realpath } from "node:fs/promises";
import { basename, dirname, isAbsolute, join, resolve, sep } from "node:path";
import type { Action } from "../../core/action.ts";
import { Mutex } from "../../core/async.ts";
import { QmError } from "../../core/errors.ts";
import { omitUndefined } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import { explainFsError, getErrno } from "./fs-errors.ts";
import { foldName, NO_PROTECTED_PATHS, ProtectedPaths } from "./protected-paths.ts";

const TEMPORARY_PREFIX = ".qm-tmp-";
/** The name of a file during a write. A killed process may leave such a file; no action lists or opens it. */
export const temporaryName = (): string => TEMPORARY_PREFIX + randomBytes(8).toString("hex");
export const isTemporaryName = (name: string): boolean => name.startsWith(TEMPORARY_PREFIX);

export interface FileLimits {
  /** Up to this size, a file is read whole unless the caller asks for some of its lines. */
  readonly maxWholeBytes: number;
  /** The size of a slice of a file that is not read whole. */
  readonly maxReadBytes: number;
  readonly maxImageBytes: number;
  readonly maxWriteBytes: number;
  /** Up to this size, a read also counts the lines of the file and hashes it. */
  readonly maxScanBytes: number;
  /** How many entries one list, glob, grep or watch visits. */
  readonly maxVisited: number;
}

const defaults: FileLimits = {
  maxWholeBytes: 8 * 1024 * 1024,
  maxReadBytes: 256 * 1024,
  maxImageBytes: 8 * 1024 * 1024,
  maxWriteBytes: 10 * 1024 * 1024,
  maxScanBytes: 64 * 1024 * 1024,
  maxVisited: 100_000,
};

/** The names and texts of the actions, which another category can replace. */
export interface FileCategory {
  readonly category: string;
  readonly actions?: Readonly<Record<string, Pick<Action, "description" | "examples">>>;
}

/** The folder that all file actions are confined to. */
export interface FileRoot {
  readonly category: FileCategory;
  /** Absolute. Never shown to a caller. */
  readonly path: string;
  readonly limits: FileLimits;
  /** The protected paths as they are on disk now. `real` is the real path of the root. */
  readonly protectedPaths: (real: string) => ProtectedPaths;
  /** Runs work on one file at a time, so that two concurrent edits both take effect. */
  readonly runExclusive: <T>(file: string, work: () => Promise<T>) => Promise<T>;
}

type ProtectOptions = {
  readonly paths?: readonly string[];
  readonly names?: readonly string[];
  /** The only entries of the root that can be reached. Absent: all. */
  readonly only?: readonly string[];
};

const FILE_CATEGORY: FileCategory = { category: "file" };

/** The folder need not exist yet. Throws `invalid_config` for a root that is a protected path or is inside one. */
export function openRoot(
  path: string,
  limits: Partial<FileLimits> = {},
  protect: ProtectOptions = {},
  category: FileCategory = FILE_CATEGORY,
): FileRoot {
  if (path.trim() === "" || path.includes("\0")) throw new QmError("invalid_config", "the file root is not a path");
  const all = { ...defaults, ...omitUndefined(limits) };
  for (const [name, value] of Object.entries(all)) {
    if (!Number.isSafeInteger(value) || value < 1) {
      throw new QmError("invalid_config", `the file limit ${name} is not a positive whole number`);
    }
  }
  const protectedPaths = createProtection(protect);
  const real = resolveRootPath(resolve(path));
  if (protectedPaths(real).getProtection(real) === "protected") {
    throw new QmError("invalid_config", `the file root ${resolve(path)} is inside a path protected by Quartermaster`, {
      hint: "Choose a root outside of the protected paths.",
    });
  }
  return { category, path: resolve(path), limits: all, protectedPaths, runExclusive: createFileMutex() };
}

function createProtection({ paths: protect = [], names = [], only }: ProtectOptions): FileRoot["protectedPaths"] {
  const badName = names.find((name) => /[/\\\0]/.test(name) || foldName(name) === "");
  if (badName !== undefined) {
    throw new QmError("invalid_config", `the protected name ${quoteName(badName)} is not the name of a file`);
  }
  const badPath = protect.find((path) => !isAbsolute(path) || path.includes("\0"));
  if (badPath !== undefined) {
    throw new QmError("invalid_config", `the protected path ${quoteName(badPath)} is not an absolute path`);
  }
  const paths = [...new Set(protect.map((path) => resolve(path)))];
  if (paths.length + names.length === 0 && only === undefined) return () => NO_PROTECTED_PATHS;
  return (root) => new ProtectedPaths(paths, { names, root, only });
}

function resolveRootPath(path: string): string {
  try {
    return realpathSync.native(path);
  } catch {
    return dirname(path) === path ? path : join(resolveRootPath(dirname(path)), basename(path));
  }
}

function createFileMutex(): FileRoot["runExclusive"] {
  const inUse = new Map<string, { readonly mutex: Mutex; users: number }>();
  return async (file, work) => {
    const entry = inUse.get(file) ?? { mutex: new Mutex(), users: 0 };
    inUse.set(file, entry);
    entry.users++;
    try {
      return await entry.mutex.run(work);
    } finally {
      if (--entry.users === 0) inUse.delete(file);
    }
  };
}

/** A path inside the root with all links followed. */
export interface ResolvedPath {
  /** Relative to the root, with `/` between the parts, as results show it. `.` is the root. */
  readonly path: string;
  /** The real path of the deepest part that exists. Absolute, never shown. */
  readonly real: string;
  /** The parts below `real` that do not exist. */
  readonly missing: readonly string[];
  readonly isRoot: boolean;
  readonly protectedPaths: ProtectedPaths;
}

const PATH_LIMIT = 4096;
/** Each part is looked up on disk. Real folders are rarely more than thirty levels deep. */
const PARTS_LIMIT = 128;
const NAME_BYTES = 255;
/** How often a path is followed again because one of its parts was created meanwhile. */
const RETRIES = 10;
const DEVICE = /^(?:con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])$/i;

/** Throws `path_refused` outside the root or if protected. Only `openFolder` detects a change before the use. */
export async function resolveFilePath(root: FileRoot, text: string): Promise<ResolvedPath> {
  const realRoot = await resolveRealRoot(root);
  const place = await followLinks(realRoot, parsePathParts([root.path, realRoot], text), root.protectedPaths(realRoot));
  place.protectedPaths.requireUnprotected(join(place.real, ...place.missing), place.path);
  return place;
}

/** For a deletion: does not follow a link in the last part. Throws `path_refused` if it leads to a protected path. */
export async function resolveFileEntry(root: FileRoot, text: string) {
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
      hint: "The operator must create the folder or correct its path.",
    });
  }
}

/**
 * Splits a path and checks it without the file system. Refuses `..` even if it stays inside the root: after a link it leads
 * elsewhere than its text says, and policy rules see only the text.
 */
export function parsePathParts(roots: readonly string[], text: string): readonly string[] {
  const shown = text.startsWith("/") ? "the path" : quoteName(text);
  const refuse = (why: string) => new QmError("path_refused", `${shown} ${why}`, { hint: PATH_HINT });

  if (text === "" || text.length > PATH_LIMIT) throw refuse(`must have 1 to ${PATH_LIMIT} characters`);
  if (text.includes("\0")) throw refuse("contains a NUL character");
  if (/\p{Cs}/u.test(text)) throw refuse("contains a lone surrogate");
  if (text.includes("\\")) throw refuse("contains a backslash; separate the parts with /");
  if (/^(?:[a-z]:|[a-z][a-z0-9+.-]*:\/\/)/i.test(text)) throw refuse("starts with a drive or a URL scheme");
  if (text === "~" || text.startsWith("~/")) throw refuse("starts with ~, which is not supported");
  const inside = text.startsWith("/") ? stripRoot(roots, text) : text;
  if (inside === undefined) throw refuse("is absolute and not inside the root");

  const parts = inside.split("/").filter((part) => part !== "" && part !== ".");
  if (parts.length > PARTS_LIMIT) throw refuse(`has more than ${PARTS_LIMIT} parts`);
  for (const part of parts) {
    if (/^[. ]+$/.test(part)) throw refuse("contains a part of only dots or spaces, such as ..");
    if (Buffer.byteLength(part) > NAME_BYTES) throw refuse(`contains a name of more than ${NAME_BYTES} bytes`);
    if (DEVICE.test(part.replace(/[ ]*[.:].*$/s, "").trimEnd())) throw refuse("names a device");
    if (process.platform === "win32" && /[:. ]$|:/.test(part)) throw refuse("contains a name that Windows changes");
    if (isTemporaryName(part)) throw refuse("names a file of a write in progress");
  }
  return parts;
}

/** The normalized path: relative to the root, without `.` and empty parts. Follows no links. Throws `path_refused`. */
export const normalizeFilePath = (root: FileRoot, text: string): string =>
  parsePathParts([root.path, resolveRootPath(root.path)], text).join("/") || ".";
const PATH_HINT = "Use a path relative to the root, such as src/main.ts. A single dot is the root.";

function stripRoot(roots: readonly string[], text: string): string | undefined {
  const root = roots.find((candidate) => isInsideRoot(candidate, text));
  return root === undefined ? undefined : text.slice(root.length);
}

const isInsideRoot = (root: string, path: string): boolean =>
  path === root || path.startsWith(root.endsWith(sep) ? root : root + sep);

async function followLinks(realRoot: string, parts: readonly string[], protectedPaths: ProtectedPaths) {
  const path = parts.length === 0 ? "." : parts.join("/");
  protectedPaths.requireUnprotectedNames(parts, path);
  // One message for all failures of links: the reason would tell what exists outside the root.
  const message = `${quoteName(path)} goes through a link that leads outside the root or nowhere`;
  const linkError = () => new QmError("path_refused", message, { hint: PATH_HINT });

  for (let known = parts.length, left = RETRIES; known >= 0; known--) {
    const real = await realpath(join(realRoot, ...parts.slice(0, known))).catch(() => undefined);
    if (real === undefined) continue;
    if (!isInsideRoot(realRoot, real)) throw linkError();
    const next = parts[known];
    const entry = next === undefined ? undefined : await findEntry(join(real, next), path);
    if (entry !== undefined) {
      // `realpath` could not follow a link to nowhere, to itself or to a closed folder. Anything else is new.
      if (entry.isSymbolicLink() || left-- === 0) throw linkError();
      known = parts.length + 1;
      continue;
    }
    const isRoot = known === parts.length && real === realRoot;
    return { path, real, missing: parts.slice(known), isRoot, protectedPaths };
  }
  throw linkError();
}

/** The entry itself, without following it if it is a link. */
async function findEntry(path: string, shown: string): Promise<Stats | undefined> {
  try {
    return await lstat(path);
  } catch (thrown) {
    const errno = getErrno(thrown);
    if (errno === "ENOENT" || errno === "ENOTDIR") return undefined;
    throw explainFsError(thrown, shown, "look at");
  }
}
