/** The length, start and end of a line that was longer than the limit or not worth keeping. */
export type DroppedLine = { readonly bytes: number; readonly head: Buffer; readonly tail: Buffer };
const NEWLINE = 0x0a;
const RETURN = 0x0d;
const LONG = 64 * 1024;
const HEAD = 1024;
const TAIL = 256;
const REUSED_BUFFER_LIMIT = 1024 * 1024;
const NOTHING: Buffer = Buffer.alloc(0);

/** Splits bytes into lines. Each byte is copied a constant number of times, however small the chunks. */
export function createLineReader(options: {
  readonly limit: number;
  /** Never called with an empty line. The buffer is reused: it is valid only until this returns. */
  readonly onLine: (line: Buffer) => void;
  /** Called as soon as a line is given up, because it may never end. */
  readonly onGivenUp?: (head: Buffer) => void;
  /** Called at the end of a line that was given up. */
  readonly onDropped: (line: DroppedLine) => void;
  /** Called once with the start of a long line. Returns whether to go on collecting it. */
  readonly worthwhile?: (head: Buffer) => boolean;
}) {
  const { limit, onLine, onGivenUp, onDropped, worthwhile = () => true } = options;
  let lineBuffer = NOTHING;
  let size = 0;
  let asked = false;
  let dropped: DroppedLine | undefined;

  function add(piece: Buffer): void {
    const needed = size + piece.length;
    if (dropped !== undefined) dropped = appendPiece(dropped, piece);
    else if (needed > limit) giveUp(piece);
    else {
      if (needed > lineBuffer.length) {
        const larger = Buffer.allocUnsafeSlow(Math.min(limit, Math.max(needed, lineBuffer.length * 2)));
        lineBuffer.copy(larger, 0, 0, size);
        lineBuffer = larger;
      }
      piece.copy(lineBuffer, size);
      size = needed;
      if (asked || size < LONG) return;
      asked = true;
      if (!worthwhile(lineBuffer.subarray(0, LONG))) giveUp(NOTHING);
    }
  }

  function giveUp(piece: Buffer): void {
    const start = Buffer.concat([lineBuffer.subarray(0, Math.min(size, HEAD)), piece.subarray(0, HEAD)]);
    const head = start.subarray(0, HEAD);
    const tail = Buffer.from(lineBuffer.subarray(Math.max(0, size - TAIL), size));
    dropped = appendPiece({ head, tail, bytes: size }, piece);
    lineBuffer = NOTHING;
    size = 0;
    onGivenUp?.(head);
  }

  function finish(): void {
    const line = lineBuffer.subarray(0, size);
    const lost = dropped;
    size = 0;
    asked = false;
    dropped = undefined;
    if (lost !== undefined) onDropped(lost);
    else emit(line);
    if (lineBuffer.length > REUSED_BUFFER_LIMIT) lineBuffer = NOTHING;
  }

  function emit(line: Buffer): void {
    const text = line.at(-1) === RETURN ? line.subarray(0, -1) : line;
    if (text.length > 0) onLine(text);
  }

  return {
    push(chunk: Buffer): void {
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
    /** Ends the input: an unfinished line counts as a line. */
    end: finish,
    /** The unfinished line so far; empty for one that was given up. */
    pending: (): Buffer => lineBuffer.subarray(0, size),
  };
}

function appendPiece({ bytes, head, tail }: DroppedLine, piece: Buffer): DroppedLine {
  const end = Buffer.concat([tail, piece.subarray(-TAIL)]).subarray(-TAIL);
  return { bytes: bytes + piece.length, head, tail: end };
}
