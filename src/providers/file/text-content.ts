import { QmError } from "../../core/errors.ts";
import { quoteName } from "../../core/names.ts";
import type { OpenFile } from "./open-file.ts";

export const HEAD_BYTES = 8192;
export const BOM = Buffer.from([0xef, 0xbb, 0xbf]);
export const startsWithBom = (bytes: Buffer): boolean => bytes.subarray(0, BOM.length).equals(BOM);

/** Whether the first bytes of a file are UTF-8 without NUL. The last character may be incomplete unless `isWhole`. */
export function isText(head: Buffer, isWhole: boolean): boolean {
  if (head.includes(0)) return false;
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(head, { stream: !isWhole });
    return true;
  } catch {
    return false;
  }
}

export const notTextError = (shown: string, size: number): QmError =>
  new QmError("unsupported_content", `${quoteName(shown)} is not UTF-8 text (${size} bytes)`, {
    details: { bytes: size },
    hint: "Only text can be edited here, and only text and images (PNG, JPEG, GIF, WebP) can be read. Convert the file, or pass its path to an action that accepts binary files.",
  });

/** Encodes a text. Refuses lone surrogates, which would become another character. */
export function encodeText(text: string, what: string): Buffer {
  if (/\p{Cs}/u.test(text)) throw new QmError("invalid_arguments", `${what} contains a lone surrogate`);
  return Buffer.from(text, "utf8");
}

const CHUNK_BYTES = 128 * 1024;
const LINE_BYTES = 1024 * 1024;
const NEWLINE = 0x0a;

/** Holds one chunk and one line. Throws `unsupported_content` if it is not text. Leaves out what is appended. */
export async function* readLineBlocks({ handle, stats }: OpenFile, shown: string, signal: AbortSignal) {
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
    const whole = Buffer.concat([rest, read.subarray(isCut ? read.indexOf(NEWLINE) : 0, end)]);
    yield { lines: decodeLines(whole), cut: isCut ? 1 : 0 };
    rest = Buffer.from(read.subarray(end + 1));
    isCut = false;
  }
  if (rest.length > 0) yield { lines: decodeLines(rest), cut: isCut ? 1 : 0 };
}

// A line end is never inside a character, so whole lines can be decoded together.
const decodeLines = (bytes: Buffer): readonly string[] => bytes.toString("utf8").replace(/\r$/, "").split(/\r?\n/);
