import { QmError } from "../../core/errors.ts";
import { quoteName } from "../../core/names.ts";
import type { OpenFile } from "./open-file.ts";

/** How much of a file's start decides whether it is text. */
export const HEAD_BYTES = 8192;

export const BOM = Buffer.from([0xef, 0xbb, 0xbf]);

export function startsWithBom(bytes: Buffer): boolean {
  return bytes.subarray(0, BOM.length).equals(BOM);
}

/** Whether a file's first bytes are text: valid UTF-8 without NUL. A character cut off by the end of a head is fine. */
export function isText(head: Buffer, isWhole: boolean): boolean {
  if (head.includes(0)) return false;
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(head, { stream: !isWhole });
    return true;
  } catch {
    return false;
  }
}

export function notTextError(shown: string, size: number): QmError {
  return new QmError("unsupported_content", `${quoteName(shown)} is not UTF-8 text (${size} bytes)`, {
    details: { bytes: size },
    hint: "Only text can be read or edited here; convert the file first, or hand its path to an action that takes binary files.",
  });
}

/** The bytes of a text. Half a surrogate pair has none and would silently become another character. */
export function encodeText(text: string, what: string): Buffer {
  if (/\p{Cs}/u.test(text)) throw new QmError("invalid_arguments", `${what} holds half a character (a lone surrogate)`);
  return Buffer.from(text, "utf8");
}

const CHUNK_BYTES = 128 * 1024;
const LINE_BYTES = 1024 * 1024;
const NEWLINE = 0x0a;

/** Lines that follow each other, without their line ends. */
interface LineBlock {
  readonly lines: readonly string[];
  /** How many of them were longer than a line may be, and lost their end. */
  readonly cut: number;
}

/**
 * The lines of a file, some at a time; memory is bounded by one chunk and the longest line that is kept whole. Throws
 * `unsupported_content` when the file does not begin like text. What is added to it meanwhile is left out.
 */
export async function* readLineBlocks(
  { handle, stats }: OpenFile,
  shown: string,
  signal: AbortSignal,
): AsyncGenerator<LineBlock> {
  const chunk = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, stats.size));
  let rest: Buffer = Buffer.alloc(0);
  let isCut = false;
  for (let position = 0; position < stats.size; ) {
    signal.throwIfAborted();
    const { bytesRead } = await handle.read(chunk, 0, chunk.length, position);
    if (bytesRead === 0) break;
    if (position === 0 && !isText(chunk.subarray(0, Math.min(HEAD_BYTES, bytesRead)), bytesRead < HEAD_BYTES)) {
      throw notTextError(shown, stats.size);
    }
    position += bytesRead;
    const read = chunk.subarray(0, bytesRead);
    const end = read.lastIndexOf(NEWLINE);
    if (end === -1) {
      isCut ||= rest.length + read.length > LINE_BYTES;
      if (rest.length < LINE_BYTES) rest = Buffer.concat([rest, read]);
      continue;
    }
    const first = read.indexOf(NEWLINE);
    const whole = isCut
      ? Buffer.concat([rest, read.subarray(first, end)])
      : Buffer.concat([rest, read.subarray(0, end)]);
    yield { lines: decodeLines(whole), cut: isCut ? 1 : 0 };
    rest = Buffer.from(read.subarray(end + 1));
    isCut = false;
  }
  if (rest.length > 0) yield { lines: decodeLines(rest), cut: isCut ? 1 : 0 };
}

// A line end is never inside a character, so whole lines can be decoded together.
function decodeLines(bytes: Buffer): readonly string[] {
  return bytes.toString("utf8").replace(/\r$/, "").split(/\r?\n/);
}
