import { promisify } from "node:util";
import { inflateRaw } from "node:zlib";
import type { QmError } from "../../core/errors.ts";
import { quoteName } from "../../core/names.ts";
import { createInputError } from "./input-error.ts";

export interface ZipEntry {
  /** A relative path with `/` that stays inside its folder. */
  readonly path: string;
  readonly size: number;
  readonly isExecutable: boolean;
  bytes(): Promise<Buffer>;
}

/** `bytes` is the total unpacked size. */
export type ZipLimits = { readonly entries: number; readonly bytes: number };

const inflate = promisify(inflateRaw);

const END = { signature: 0x06054b50, size: 22 };
const CENTRAL = { signature: 0x02014b50, size: 46 };
const LOCAL = { signature: 0x04034b50, size: 30 };
const METHOD = { stored: 0, deflated: 8 };
const ENCRYPTED = 1;
const FILE_TYPE = { mask: 0o170000, regular: 0o100000, unknown: 0 };

/**
 * Lists the files of an archive. Checks the whole directory before anything is unpacked. Throws `invalid_arguments` for
 * a file that leaves its folder, is a link, repeats a name, is too large or unreadable.
 */
export function readZip(archive: Buffer, limits: ZipLimits): readonly ZipEntry[] {
  const { at: start, count } = findEnd(archive);
  if (count > limits.entries) throw createZipError(`it contains ${count} files, more than ${limits.entries}`);
  const entries: ZipEntry[] = [];
  const seen = new Set<string>();
  let total = 0;
  for (let index = 0, at = start; index < count; index++) {
    const { name, mode, next, ...place } = readCentralEntry(archive, at);
    at = next;
    if (name.endsWith("/")) continue;
    const path = safePath(name);
    const type = mode & FILE_TYPE.mask;
    if (type !== FILE_TYPE.regular && type !== FILE_TYPE.unknown)
      throw createZipError(`${quoteName(name)} is a link or a device, not a file`);
    // Case-insensitive file systems treat both as the same file.
    const same = path.normalize("NFC").toLowerCase();
    if (seen.has(same)) throw createZipError(`it contains ${quoteName(name)} twice`);
    seen.add(same);
    total += place.size;
    if (total > limits.bytes) throw createZipError(`it unpacks to more than ${Math.floor(limits.bytes / 2 ** 20)} MiB`);
    const isExecutable = (mode & 0o111) !== 0;
    entries.push({ path, size: place.size, isExecutable, bytes: () => unpack(archive, path, place) });
  }
  requireNoFileAsFolder(seen);
  return entries;
}

type ZipLocation = { readonly offset: number; readonly packed: number; readonly size: number; readonly method: number };

/** Finds the central directory from the record at the end, which a comment may follow. */
function findEnd(archive: Buffer): { readonly at: number; readonly count: number } {
  const lowest = Math.max(0, archive.length - END.size - 0xffff);
  for (let at = archive.length - END.size; at >= lowest; at--) {
    if (archive.readUInt32LE(at) !== END.signature) continue;
    const count = archive.readUInt16LE(at + 10);
    const start = archive.readUInt32LE(at + 16);
    if (count === 0xffff || start === 0xffffffff) throw createZipError("it is too large");
    return { at: start, count };
  }
  throw createZipError("it is not a ZIP archive");
}

function readCentralEntry(archive: Buffer, at: number): ZipLocation & { name: string; mode: number; next: number } {
  if (at + CENTRAL.size > archive.length || archive.readUInt32LE(at) !== CENTRAL.signature)
    throw createZipError("its directory is broken");
  const nameLength = archive.readUInt16LE(at + 28);
  const next = at + CENTRAL.size + nameLength + archive.readUInt16LE(at + 30) + archive.readUInt16LE(at + 32);
  if (next > archive.length) throw createZipError("its directory is broken");
  if ((archive.readUInt16LE(at + 8) & ENCRYPTED) !== 0) throw createZipError("it is encrypted");
  const method = archive.readUInt16LE(at + 10);
  if (method !== METHOD.stored && method !== METHOD.deflated) throw createZipError("it uses an unknown compression");
  return {
    name: archive.toString("utf8", at + CENTRAL.size, at + CENTRAL.size + nameLength),
    // The upper half is the Unix mode. Other systems leave it 0.
    mode: archive.readUInt16LE(at + 40),
    next,
    method,
    packed: archive.readUInt32LE(at + 20),
    size: archive.readUInt32LE(at + 24),
    offset: archive.readUInt32LE(at + 42),
  };
}

async function unpack(archive: Buffer, path: string, { offset, packed, size, method }: ZipLocation): Promise<Buffer> {
  const createBrokenError = (): QmError => createZipError(`${quoteName(path)} is broken`);
  if (offset + LOCAL.size > archive.length || archive.readUInt32LE(offset) !== LOCAL.signature)
    throw createBrokenError();
  const from = offset + LOCAL.size + archive.readUInt16LE(offset + 26) + archive.readUInt16LE(offset + 28);
  const data = archive.subarray(from, from + packed);
  if (data.length !== packed) throw createBrokenError();
  // Unpack no more than the size in the directory.
  const bytes =
    method === METHOD.stored
      ? data
      : await inflate(data, { maxOutputLength: Math.max(1, size) }).catch(() => undefined);
  if (bytes === undefined || bytes.length !== size) throw createBrokenError();
  return bytes;
}

/** Validates a name as a relative path on every system. */
function safePath(name: string): string {
  const parts = name.split("/");
  // A part that ends in a dot may be the folder itself, its parent, or on Windows another file.
  const isBad = parts.some((part) => part === "" || /[. ]$/.test(part) || RESERVED.test(part));
  if (isBad || name.length > 1024 || /[\\:\p{Cc}\uFFFD]/u.test(name))
    throw createZipError(`${quoteName(name)} leads out of its folder`);
  return name;
}

// Windows treats these names as devices, with any extension.
const RESERVED = /^(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)/i;

function requireNoFileAsFolder(paths: ReadonlySet<string>): void {
  for (const path of paths) {
    for (let at = path.indexOf("/"); at !== -1; at = path.indexOf("/", at + 1))
      if (paths.has(path.slice(0, at)))
        throw createZipError(`${quoteName(path.slice(0, at))} is both a file and a folder`);
  }
}

function createZipError(why: string): QmError {
  const hint = "Nothing was unpacked. Choose another package of this server.";
  return createInputError(`the bundle is refused: ${why}`, hint);
}
