import type { OpenFile } from "./open-file.ts";
import { HEAD_BYTES, isText, notText } from "./text.ts";

const CHUNK_BYTES = 128 * 1024;
const LINE_BYTES = 1024 * 1024;
const NEWLINE = 0x0a;

/** Lines that follow each other, without their line ends. */
export interface LineBlock {
  readonly lines: readonly string[];
  /** How many of them were longer than a line may be, and lost their end. */
  readonly cut: number;
}

/**
 * The lines of a file, some at a time; memory is bounded by one chunk and the longest line that is kept whole. Throws
 * `unsupported_content` when the file does not begin like text. What is added to it meanwhile is left out.
 */
export async function* lineBlocks(
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
      throw notText(shown, stats.size);
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
    yield { lines: split(whole), cut: isCut ? 1 : 0 };
    rest = Buffer.from(read.subarray(end + 1));
    isCut = false;
  }
  if (rest.length > 0) yield { lines: split(rest), cut: isCut ? 1 : 0 };
}

// A line end is never inside a character, so whole lines can be decoded together.
function split(bytes: Buffer): readonly string[] {
  return bytes.toString("utf8").replace(/\r$/, "").split(/\r?\n/);
}
