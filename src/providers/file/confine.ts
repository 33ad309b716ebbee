import { lstat, realpath } from "node:fs/promises";
import { join, sep } from "node:path";
import { QmError } from "../../core/errors.ts";
import { quoted } from "../../core/names.ts";
import { errnoOf, explained } from "./fs-errors.ts";
import type { Kept } from "./kept.ts";
import { type Root, realPathOf } from "./root.ts";
import { isTemporaryName } from "./temporary.ts";

/** Where a path leads: inside the root, all links followed, at the moment it was asked. */
export interface Place {
  /** Relative to the root, `/` between the parts, as answers show it. `.` is the root. */
  readonly path: string;
  /** The real path of the deepest part that exists. Absolute, never shown. */
  readonly real: string;
  /** The parts below `real` that do not exist. */
  readonly missing: readonly string[];
  readonly isRoot: boolean;
  /** What must not be reached from here either. */
  readonly kept: Kept;
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
export async function locate(root: Root, text: string): Promise<Place> {
  const realRoot = await realRootOf(root);
  const place = await follow(realRoot, pathParts([root.path, realRoot], text), root.kept(realRoot));
  place.kept.requireFree(join(place.real, ...place.missing), place.path);
  return place;
}

/**
 * The folder of an entry and its name in it: for removing the entry itself, so a link in last place is not followed.
 * Throws `path_refused` also for what leads to something kept.
 */
export async function locateEntry(root: Root, text: string): Promise<{ folder: Place; name: string; path: string }> {
  const realRoot = await realRootOf(root);
  const parts = pathParts([root.path, realRoot], text);
  const name = parts.at(-1);
  if (name === undefined) throw new QmError("path_refused", "the root itself cannot be deleted");
  const folder = await follow(realRoot, parts.slice(0, -1), root.kept(realRoot));
  const path = parts.join("/");
  folder.kept.requireReplaceable(join(folder.real, ...folder.missing, name), path);
  return { folder, name, path };
}

async function realRootOf(root: Root): Promise<string> {
  try {
    return await realpath(root.path);
  } catch (thrown) {
    throw new QmError("not_found", `the root folder cannot be reached (${errnoOf(thrown) ?? "unknown"})`, {
      cause: thrown,
      hint: "Whoever runs this must create the folder or correct its path.",
    });
  }
}

/**
 * The parts of a path, checked for what no file system needs to be asked about. `..` is refused even where it would
 * stay inside: after a link it leads elsewhere than it reads, and a policy rule only reads.
 */
export function pathParts(roots: readonly string[], text: string): readonly string[] {
  const shown = text.startsWith("/") ? "the path" : quoted(text);
  const refuse = (why: string) => new QmError("path_refused", `${shown} ${why}`, { hint: HINT });

  if (text === "" || text.length > PATH_LIMIT) throw refuse(`must have 1 to ${PATH_LIMIT} characters`);
  if (text.includes("\0")) throw refuse("holds a NUL character");
  if (/\p{Cs}/u.test(text)) throw refuse("holds half a character");
  if (text.includes("\\")) throw refuse("holds a backslash; parts are separated by /");
  if (/^(?:[a-z]:|[a-z][a-z0-9+.-]*:\/\/)/i.test(text)) throw refuse("starts with a drive or a URL scheme");
  if (text === "~" || text.startsWith("~/")) throw refuse("starts with ~, which stands for nothing here");
  const inside = text.startsWith("/") ? belowOneOf(roots, text) : text;
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
export function normalPath(root: Root, text: string): string {
  return pathParts([root.path, realPathOf(root.path)], text).join("/") || ".";
}

const HINT = "Give a path relative to the root, such as src/main.ts; the root itself is a single dot.";

function belowOneOf(roots: readonly string[], text: string): string | undefined {
  const root = roots.find((candidate) => isWithin(candidate, text));
  return root === undefined ? undefined : text.slice(root.length);
}

function isWithin(root: string, path: string): boolean {
  return path === root || path.startsWith(root.endsWith(sep) ? root : root + sep);
}

async function follow(realRoot: string, parts: readonly string[], kept: Kept): Promise<Place> {
  const path = parts.length === 0 ? "." : parts.join("/");
  kept.requireFreeNames(parts, path);
  // One message for every way a link can fail: which one it was would tell what exists outside.
  const astray = () =>
    new QmError("path_refused", `${quoted(path)} goes through a link that leads outside the root or nowhere`, {
      hint: HINT,
    });

  for (let known = parts.length; known >= 0; known--) {
    const real = await realpath(join(realRoot, ...parts.slice(0, known))).catch(() => undefined);
    if (real === undefined) continue;
    if (!isWithin(realRoot, real)) throw astray();
    const next = parts[known];
    if (next !== undefined && (await isPresent(join(real, next), path))) throw astray();
    return { path, real, missing: parts.slice(known), isRoot: known === parts.length && real === realRoot, kept };
  }
  throw astray();
}

/** Whether something is there that `realpath` could not follow: a link to nowhere, to itself or to what is closed. */
async function isPresent(path: string, shown: string): Promise<boolean> {
  try {
    await lstat(path);
    return true;
  } catch (thrown) {
    const errno = errnoOf(thrown);
    if (errno === "ENOENT" || errno === "ENOTDIR") return false;
    throw explained(thrown, shown, "look at");
  }
}
