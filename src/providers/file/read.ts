import { createHash } from "node:crypto";
import type { FileHandle } from "node:fs/promises";
import { z } from "zod";
import type { Action } from "../../core/action.ts";
import { QmError } from "../../core/errors.ts";
import { WithContent } from "../../core/handler-result.ts";
import { omitUndefined } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import { defineFileAction } from "./file-action.ts";
import { type FileRoot, resolveFilePath } from "./file-root.ts";
import { readImageFacts } from "./image.ts";
import { type OpenFile, withFile } from "./open-file.ts";
import { BOM, HEAD_BYTES, isText, notTextError, startsWithBom } from "./text-content.ts";

const CHUNK_BYTES = 256 * 1024;
const NEWLINE = 0x0a;

/** A part of a file in lines from 0, without the first `skip` bytes of the first line. */
interface FileSliceRequest {
  readonly offset: number;
  readonly skip: number;
  readonly limit: number;
  readonly maxBytes: number;
  /** Whether to read to the end of the file, for `lines` and `sha256`. */
  readonly toEnd: boolean;
}

interface FileSlice {
  readonly bytes: Buffer;
  /** The line to continue at, and how many bytes of it to skip. Absent: the file ends here. */
  readonly next?: { readonly line: number; readonly skip: number };
  /** The lines of the whole file. Known only if it was read to its end. */
  readonly lines?: number;
  readonly sha256?: string;
}

/** Ends after a whole line, or a whole character if one line does not fit. All slices together make up the file. */
async function readSlice(handle: FileHandle, wanted: FileSliceRequest, signal: AbortSignal): Promise<FileSlice> {
  const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
  const hash = createHash("sha256");
  const collector = new SliceCollector(wanted);
  let position = 0;
  let isEnd = false;
  while (wanted.toEnd || !collector.isFull) {
    signal.throwIfAborted();
    const { bytesRead } = await handle.read(chunk, 0, CHUNK_BYTES, position);
    isEnd = bytesRead === 0;
    if (isEnd) break;
    const read = chunk.subarray(0, bytesRead);
    if (wanted.toEnd) hash.update(read);
    collector.add(read);
    position += bytesRead;
  }
  return {
    ...collector.slice(),
    ...(isEnd ? { lines: collector.lines } : {}),
    ...(isEnd && wanted.toEnd ? { sha256: hash.digest("hex") } : {}),
  };
}

class SliceCollector {
  readonly #wanted: FileSliceRequest;
  readonly #pieces: Buffer[] = [];
  #size = 0;
  #line = 0;
  #inLine = 0;
  /** The end of the last whole line in the pieces. */
  #wholeLines = 0;
  #wholeSize = 0;
  #isCut = false;
  #hasMore = false;

  constructor(wanted: FileSliceRequest) {
    this.#wanted = wanted;
  }

  get isFull(): boolean {
    return this.#hasMore;
  }

  get lines(): number {
    return this.#line + (this.#inLine > 0 ? 1 : 0);
  }

  add(read: Buffer): void {
    let from = 0;
    while (from < read.length) {
      const at = read.indexOf(NEWLINE, from);
      const to = at === -1 ? read.length : at + 1;
      this.#take(read.subarray(from, to));
      this.#inLine += to - from;
      if (at !== -1) this.#endLine();
      from = to;
    }
  }

  #take(part: Buffer): void {
    const { offset, limit, skip, maxBytes } = this.#wanted;
    if (this.#line < offset) return;
    if (this.#line >= offset + limit || this.#isCut) {
      this.#hasMore = true;
      return;
    }
    const skipped = this.#line === offset ? Math.min(part.length, Math.max(0, skip - this.#inLine)) : 0;
    const taken = part.subarray(skipped, skipped + maxBytes - this.#size);
    if (taken.length > 0) this.#pieces.push(Buffer.from(taken));
    this.#size += taken.length;
    if (skipped + taken.length < part.length) {
      this.#isCut = true;
      this.#hasMore = true;
    }
  }

  #endLine(): void {
    this.#line++;
    this.#inLine = 0;
    if (this.#hasMore || this.#line <= this.#wanted.offset) return;
    this.#wholeLines = this.#line;
    this.#wholeSize = this.#size;
  }

  slice(): Pick<FileSlice, "bytes" | "next"> {
    const { offset, skip } = this.#wanted;
    const all = Buffer.concat(this.#pieces);
    if (!this.#hasMore) return { bytes: all };
    if (!this.#isCut || this.#wholeLines > offset) {
      return { bytes: all.subarray(0, this.#wholeSize), next: { line: this.#wholeLines, skip: 0 } };
    }
    const bytes = all.subarray(0, countWholeCharacters(all));
    return { bytes, next: { line: offset, skip: skip + bytes.length } };
  }
}

/** The bytes without an incomplete last character. At least one, so that a read always makes progress. */
function countWholeCharacters(bytes: Buffer): number {
  for (let back = 1; back <= Math.min(3, bytes.length - 1); back++) {
    const byte = bytes[bytes.length - back] ?? 0;
    if (byte < 0x80) break;
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 0;
    if (length > 0) return length > back ? bytes.length - back : bytes.length;
  }
  return bytes.length;
}

/** Lines of a slice, unless the caller says. */
const SLICE_LINES = 2000;

const input = z.lazy(() =>
  z.strictObject({
    path: z.string().min(1).describe("File, relative to the root."),
    offset: z.int().min(0).max(1e12).default(0).describe("First line, counted from 0."),
    limit: z.int().min(1).max(100_000).optional().describe("Maximum number of lines. Absent: the whole file."),
    byte_offset: z
      .int()
      .min(0)
      .max(1e15)
      .default(0)
      .describe("Bytes of the first line to skip: next_byte_offset of the last result."),
  }),
);

export const readAction = (root: FileRoot): Action =>
  defineFileAction(root, {
    entry: "read",
    description:
      "Read a text file, whole or some of its lines, or look at an image. A very long file comes in slices: continue at next_offset. To find text in files, use grep; to see a folder, list.",
    effect: "read",
    input,
    examples: [
      { args: { path: "README.md" } },
      { args: { path: "logs/server.log", offset: 4000, limit: 200 }, description: "Lines 4000 to 4199" },
    ],
    run: (args, { signal }) => readFile(root, args, signal),
  });

/** Throws `unsupported_content` for files that are neither text nor images, and `path_refused` outside of the root. */
async function readFile(root: FileRoot, args: z.output<typeof input>, signal: AbortSignal) {
  const place = await resolveFilePath(root, args.path);
  return withFile(place, async (file) => {
    const head = Buffer.alloc(HEAD_BYTES);
    const { bytesRead } = await file.handle.read(head, 0, HEAD_BYTES, 0);
    const start = head.subarray(0, bytesRead);
    if (isText(start, bytesRead < HEAD_BYTES)) return readText(root, place.path, file, start, args, signal);
    if (readImageFacts(start) === undefined) throw notTextError(place.path, file.stats.size);
    return readImage(root, place.path, file);
  });
}

async function readText(
  { limits }: FileRoot,
  path: string,
  { handle, stats }: OpenFile,
  start: Buffer,
  { offset, limit, byte_offset }: z.output<typeof input>,
  signal: AbortSignal,
) {
  const isStart = offset === 0 && byte_offset === 0;
  const isWhole = limit === undefined && isStart && stats.size <= limits.maxWholeBytes;
  const hasBom = offset === 0 && byte_offset < BOM.length && startsWithBom(start);
  const slice = await readSlice(
    handle,
    {
      offset,
      skip: hasBom ? BOM.length : byte_offset,
      limit: isWhole ? Number.POSITIVE_INFINITY : (limit ?? SLICE_LINES),
      // The file may grow while it is read.
      maxBytes: isWhole ? limits.maxWholeBytes : limits.maxReadBytes,
      toEnd: stats.size <= limits.maxScanBytes,
    },
    signal,
  );
  const content = slice.bytes.toString("utf8");
  return omitUndefined({
    path,
    content,
    lines: slice.lines,
    offset,
    next_offset: slice.next?.line,
    next_byte_offset: slice.next?.skip || undefined,
    truncated: slice.next !== undefined,
    bytes: stats.size,
    sha256: slice.sha256,
    // Invalid UTF-8 was replaced: writing this content back would change the file.
    lossy: Buffer.from(content).equals(slice.bytes) ? undefined : true,
  });
}

/** The image as media, which a model sees or gets a handle to. */
async function readImage({ limits }: FileRoot, path: string, { handle, stats }: OpenFile): Promise<WithContent> {
  if (stats.size > limits.maxImageBytes) {
    const limit = `the limit of ${limits.maxImageBytes} bytes per image`;
    throw new QmError("too_large", `the image ${quoteName(path)} has ${stats.size} bytes, more than ${limit}`, {
      details: { bytes: stats.size },
    });
  }
  const bytes = Buffer.alloc(stats.size);
  const { bytesRead } = await handle.read(bytes, 0, stats.size, 0);
  const image = bytes.subarray(0, bytesRead);
  const { mediaType, width, height } = readImageFacts(image) ?? {};
  // The file was replaced by another one in place.
  if (mediaType === undefined) throw notTextError(path, stats.size);
  const sha256 = createHash("sha256").update(image).digest("hex");
  const data = omitUndefined({ path, media_type: mediaType, bytes: image.length, width, height, sha256 });
  const size = width === undefined ? "" : `, ${width} x ${height} pixels`;
  return new WithContent(data, {
    structured: true,
    blocks: [
      { type: "text", text: `${path}: ${mediaType}${size}, ${image.length} bytes` },
      { type: "image", data: image.toString("base64"), mimeType: mediaType },
    ],
  });
}
