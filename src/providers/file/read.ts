import { createHash } from "node:crypto";
import type { FileHandle } from "node:fs/promises";
import { z } from "zod";
import { defineAction } from "../../catalog/define-action.ts";
import type { Action } from "../../core/action.ts";
import type { FileRoot } from "./file-root.ts";
import { normalizeFilePath, resolveFilePath } from "./file-root.ts";
import { withFile } from "./open-file.ts";
import { BOM, HEAD_BYTES, isText, notTextError, startsWithBom } from "./text-content.ts";

const CHUNK_BYTES = 256 * 1024;
const NEWLINE = 0x0a;

/** Which part of a file is wanted, in lines from 0; `skip` bytes of the first of them are left out. */
interface FileSliceRequest {
  readonly offset: number;
  readonly skip: number;
  readonly limit: number;
  readonly maxBytes: number;
  /** Whether to go on to the end of the file after the slice, for `lines` and `sha256`. */
  readonly toEnd: boolean;
}

interface FileSlice {
  readonly bytes: Buffer;
  /** Where to go on reading: a line, and how many bytes of it were already given. Absent: the file ends here. */
  readonly next?: { readonly line: number; readonly skip: number };
  /** Lines in the whole file; known only when it was read to its end. */
  readonly lines?: number;
  readonly sha256?: string;
}

/**
 * Reads lines `offset` to `offset + limit` with their line ends, at most `maxBytes` of them, holding no more than the
 * slice and one chunk. It ends after a whole line, or, when a single line does not fit, inside it after a whole
 * character. The slices that `next` leads to, joined, are the file.
 */
async function readSlice(handle: FileHandle, wanted: FileSliceRequest, signal: AbortSignal): Promise<FileSlice> {
  const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
  const hash = createHash("sha256");
  const taken = new SliceCollector(wanted);
  let position = 0;
  let isEnd = false;
  while (wanted.toEnd || !taken.isFull) {
    signal.throwIfAborted();
    const { bytesRead } = await handle.read(chunk, 0, CHUNK_BYTES, position);
    isEnd = bytesRead === 0;
    if (isEnd) break;
    const read = chunk.subarray(0, bytesRead);
    if (wanted.toEnd) hash.update(read);
    taken.add(read);
    position += bytesRead;
  }
  return {
    ...taken.slice(),
    ...(isEnd ? { lines: taken.lines } : {}),
    ...(isEnd && wanted.toEnd ? { sha256: hash.digest("hex") } : {}),
  };
}

class SliceCollector {
  readonly #wanted: FileSliceRequest;
  readonly #pieces: Buffer[] = [];
  #size = 0;
  /** Line ends seen, and bytes seen of the line after the last of them. */
  #line = 0;
  #inLine = 0;
  /** Where the last whole line in the pieces ends. */
  #wholeLines = 0;
  #wholeSize = 0;
  #isCut = false;
  #hasMore = false;

  constructor(wanted: FileSliceRequest) {
    this.#wanted = wanted;
  }

  /** Nothing that is still to come belongs to the slice, and it is known that something is to come. */
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
    const kept = part.subarray(skipped, skipped + maxBytes - this.#size);
    if (kept.length > 0) this.#pieces.push(Buffer.from(kept));
    this.#size += kept.length;
    if (skipped + kept.length < part.length) {
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

/** How many bytes there are before a character that the end cuts off. At least one, so that reading always goes on. */
function countWholeCharacters(bytes: Buffer): number {
  for (let back = 1; back <= Math.min(3, bytes.length - 1); back++) {
    const byte = bytes[bytes.length - back] ?? 0;
    if (byte < 0x80) break;
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 0;
    if (length > 0) return length > back ? bytes.length - back : bytes.length;
  }
  return bytes.length;
}

const input = z.strictObject({
  path: z.string().min(1).describe("File, relative to the root."),
  offset: z.int().min(0).max(1e12).default(0).describe("First line, counted from 0."),
  limit: z.int().min(1).max(100_000).default(2000).describe("Most lines to answer with."),
  byte_offset: z
    .int()
    .min(0)
    .max(1e15)
    .default(0)
    .describe("Bytes of the first line to skip: next_byte_offset of the last answer."),
});

export function readAction(root: FileRoot): Action {
  return defineAction("file", {
    entry: "read",
    description:
      "Read a text file, whole or some lines of it. A long file comes in slices: go on at next_offset. To find where something is, grep instead; to see a folder, list it.",
    effect: "read",
    idempotent: true,
    tags: ["file", "read"],
    input,
    normalize: { path: (path) => normalizeFilePath(root, path) },
    examples: [
      { args: { path: "README.md" } },
      { args: { path: "logs/server.log", offset: 4000, limit: 200 }, description: "Lines 4000 to 4199" },
    ],
    run: (args, { signal }) => read(root, args, signal),
  });
}

async function read(root: FileRoot, args: z.output<typeof input>, signal: AbortSignal) {
  const place = await resolveFilePath(root, args.path);
  return withFile(place, async ({ handle, stats }) => {
    const head = Buffer.alloc(HEAD_BYTES);
    const { bytesRead } = await handle.read(head, 0, HEAD_BYTES, 0);
    const start = head.subarray(0, bytesRead);
    if (!isText(start, bytesRead < HEAD_BYTES)) throw notTextError(place.path, stats.size);

    const { maxReadBytes, maxScanBytes } = root.limits;
    const hasBom = args.offset === 0 && args.byte_offset < BOM.length && startsWithBom(start);
    const slice = await readSlice(
      handle,
      {
        offset: args.offset,
        skip: hasBom ? BOM.length : args.byte_offset,
        limit: args.limit,
        maxBytes: maxReadBytes,
        toEnd: stats.size <= maxScanBytes,
      },
      signal,
    );
    const content = slice.bytes.toString("utf8");
    return {
      path: place.path,
      content,
      ...(slice.lines === undefined ? {} : { lines: slice.lines }),
      offset: args.offset,
      ...(slice.next === undefined ? {} : { next_offset: slice.next.line }),
      ...(slice.next?.skip ? { next_byte_offset: slice.next.skip } : {}),
      truncated: slice.next !== undefined,
      bytes: stats.size,
      ...(slice.sha256 === undefined ? {} : { sha256: slice.sha256 }),
      // Bytes that are no UTF-8 were replaced: writing this content back would change the file.
      ...(Buffer.from(content).equals(slice.bytes) ? {} : { lossy: true }),
    };
  });
}
