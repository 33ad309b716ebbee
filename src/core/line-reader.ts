/** Of a line that was given up: where it began and where it ended. */
export interface DroppedLine {
  readonly bytes: number;
  readonly head: Buffer;
  readonly tail: Buffer;
}

export interface LineReaderOptions {
  /** A longer line is given up. */
  readonly limit: number;
  /** Never with an empty line. The bytes are the reader's own and hold only until this returns. */
  readonly onLine: (line: Buffer) => void;
  /** As soon as a line is given up: it may never end. */
  readonly onGivenUp?: (head: Buffer) => void;
  /** When a line that was given up has ended. */
  readonly onDropped: (line: DroppedLine) => void;
  /** Asked once of a line that has become long, with its beginning: whether it is worth being collected. */
  readonly worthwhile?: (head: Buffer) => boolean;
}

export interface LineReader {
  push(chunk: Buffer): void;
  /** There is no more: what has come of the last line is a line. */
  end(): void;
  /** What has come of a line that has not ended; nothing of one that was given up. */
  pending(): Buffer;
}

const NEWLINE = 0x0a;
const RETURN = 0x0d;
const LONG = 64 * 1024;
const HEAD = 1024;
const TAIL = 256;
/** A larger buffer is not kept for the next line. */
const REUSED_BUFFER_LIMIT = 1024 * 1024;
const NOTHING: Buffer = Buffer.alloc(0);

/**
 * Cuts bytes into lines. Characters are never cut, since whole lines are decoded. The bytes of a line are copied a
 * constant number of times, however small the chunks it comes in, and no line takes more than about twice the limit.
 */
export function createLineReader(options: LineReaderOptions): LineReader {
  const { limit, onLine, onGivenUp, onDropped, worthwhile = () => true } = options;
  let lineBuffer = NOTHING;
  let size = 0;
  let asked = false;
  let dropped: DroppedLine | undefined;

  function add(piece: Buffer): void {
    if (dropped !== undefined) dropped = appendPiece(dropped, piece);
    else if (size + piece.length > limit) giveUp(piece);
    else {
      lineBuffer = growBuffer(
        lineBuffer,
        size,
        Math.min(limit, Math.max(size + piece.length, lineBuffer.length * 2)),
        size + piece.length,
      );
      piece.copy(lineBuffer, size);
      size += piece.length;
      if (asked || size < LONG) return;
      asked = true;
      if (!worthwhile(lineBuffer.subarray(0, LONG))) giveUp(NOTHING);
    }
  }

  function giveUp(piece: Buffer): void {
    const head = Buffer.concat([lineBuffer.subarray(0, Math.min(size, HEAD)), piece.subarray(0, HEAD)]).subarray(
      0,
      HEAD,
    );
    const sofar = { head, tail: Buffer.from(lineBuffer.subarray(Math.max(0, size - TAIL), size)), bytes: size };
    dropped = appendPiece(sofar, piece);
    lineBuffer = NOTHING;
    size = 0;
    onGivenUp?.(head);
  }

  function finish(): void {
    const line = lineBuffer.subarray(0, size);
    const given = dropped;
    size = 0;
    asked = false;
    dropped = undefined;
    if (given !== undefined) onDropped(given);
    else emit(line);
    if (lineBuffer.length > REUSED_BUFFER_LIMIT) lineBuffer = NOTHING;
  }

  function emit(line: Buffer): void {
    const text = line.at(-1) === RETURN ? line.subarray(0, -1) : line;
    if (text.length > 0) onLine(text);
  }

  return {
    push(chunk) {
      let from = 0;
      for (let at = chunk.indexOf(NEWLINE); at !== -1; at = chunk.indexOf(NEWLINE, from)) {
        const piece = chunk.subarray(from, at);
        from = at + 1;
        if (size === 0 && dropped === undefined && piece.length <= limit) emit(piece);
        else {
          add(piece);
          finish();
        }
      }
      if (from < chunk.length) add(chunk.subarray(from));
    },
    end: finish,
    pending: () => lineBuffer.subarray(0, size),
  };
}

/** A buffer for at least `needed` bytes that begins like the one there is. */
function growBuffer(buffer: Buffer, used: number, wanted: number, needed: number): Buffer {
  if (needed <= buffer.length) return buffer;
  const larger = Buffer.allocUnsafeSlow(wanted);
  buffer.copy(larger, 0, 0, used);
  return larger;
}

function appendPiece({ bytes, head, tail }: DroppedLine, piece: Buffer): DroppedLine {
  return {
    bytes: bytes + piece.length,
    head,
    tail: Buffer.concat([tail, piece.subarray(-TAIL)]).subarray(-TAIL),
  };
}
