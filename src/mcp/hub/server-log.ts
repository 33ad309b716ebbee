import { appendFile, chmod, mkdir, open, rename, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { escapeUnsafe } from "../../core/display-text.ts";
import { clip } from "../../core/json.ts";
import { createLineReader } from "../../core/line-reader.ts";

interface StderrTail {
  push(chunk: Buffer): void;
  end(): void;
  /** The last lines, and what has come of one that has not ended. */
  text(): string;
}

interface StderrTailOptions {
  /** So many characters are kept. */
  readonly limit?: number;
  /** Removes what nobody may read. */
  readonly hide?: (text: string) => string;
  /** Gets every line, as it may be shown. */
  readonly onLine?: ((line: string) => void) | undefined;
}

const TAIL_LENGTH = 4096;
/** Lines are read whole up to here, so that nothing that must be hidden is cut in two and not known again. */
const MAX_LINE_BYTES = 64 * 1024;

/** The end of what a server writes to its stderr: as a rule it says there why it fails. */
export function createStderrTail({
  limit = TAIL_LENGTH,
  hide = (text) => text,
  onLine,
}: StderrTailOptions = {}): StderrTail {
  const lines: string[] = [];
  let size = 0;
  const toVisibleLine = (line: Buffer): string =>
    clip(escapeUnsafe(stripVTControlCharacters(hide(line.toString("utf8")))), limit);
  const addLine = (line: string): void => {
    lines.push(line);
    size += line.length + 1;
    while (size > limit && lines.length > 1) size -= (lines.shift()?.length ?? 0) + 1;
    onLine?.(line);
  };
  const reader = createLineReader({
    limit: MAX_LINE_BYTES,
    onLine: (line) => addLine(toVisibleLine(line)),
    onDropped: ({ bytes }) => addLine(`(a line of ${bytes} bytes)`),
  });

  return {
    push: reader.push,
    end: reader.end,
    text: () => [...lines, toVisibleLine(reader.pending())].join("\n").trim().slice(-limit),
  };
}

/** What a server wrote to stderr, in a file. */
interface ServerLog {
  /** Never throws, and never makes anybody wait. */
  write(line: string): void;
  /** Resolves when everything is written that can be. */
  close(): Promise<void>;
}

interface ServerLogOptions {
  readonly path: string;
  readonly now: () => Date;
  /** At this size the file becomes `<path>.1`, in place of the one before it: there is never more than about twice this. */
  readonly maxBytes?: number;
}

const MAX_BYTES = 1024 * 1024;
/** Lines that come faster than they can be written are counted and not kept. */
const MAX_WAITING = 256 * 1024;

export function openServerLog({ path, now, maxBytes = MAX_BYTES }: ServerLogOptions): ServerLog {
  let waiting: string[] = [];
  let size = 0;
  let lost = 0;
  let writing: Promise<void> | undefined;

  async function writeAll(): Promise<void> {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    while (waiting.length > 0) {
      const lines = waiting;
      waiting = [];
      size = 0;
      if (lost > 0) lines.push(`${now().toISOString()} (${lost} lines were lost: they came too fast)\n`);
      lost = 0;
      await rotateLog(path, maxBytes);
      await appendFile(path, lines.join(""), { mode: 0o600 });
    }
  }

  function flush(): void {
    writing ??= writeAll()
      // A disk that is full must not stop a server: its log ends here.
      .catch(() => {
        waiting = [];
        size = 0;
      })
      .finally(() => {
        writing = undefined;
        if (waiting.length > 0) flush();
      });
  }

  return {
    write(line) {
      const stamped = `${now().toISOString()} ${line}\n`;
      if (size + stamped.length > MAX_WAITING) {
        lost++;
        return;
      }
      waiting.push(stamped);
      size += stamped.length;
      flush();
    },
    async close() {
      while (writing !== undefined) await writing;
    },
  };
}

async function rotateLog(path: string, maxBytes: number): Promise<void> {
  const there = await stat(path).catch(() => undefined);
  if (there === undefined) return;
  if (there.size >= maxBytes) await rename(path, `${path}.1`);
  else if ((there.mode & 0o077) !== 0) await chmod(path, 0o600);
}

/** The last lines of a log, oldest first. Reads no more of it than `maxBytes` from its end. */
export async function readServerLog(path: string, lines: number, maxBytes = MAX_BYTES): Promise<readonly string[]> {
  let found: readonly string[] = [];
  for (const file of [path, `${path}.1`]) {
    if (found.length >= lines) break;
    found = [...(await readLogTail(file, maxBytes)), ...found];
  }
  return found.slice(-lines);
}

async function readLogTail(path: string, maxBytes: number): Promise<readonly string[]> {
  const file = await open(path, "r").catch(() => undefined);
  if (file === undefined) return [];
  try {
    const { size } = await file.stat();
    const from = Math.max(0, size - maxBytes);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(Math.min(size, maxBytes)), { position: from });
    const lines = buffer.toString("utf8", 0, bytesRead).split("\n").slice(0, -1);
    // The first of them is whole only where nothing stands before it.
    return from > 0 ? lines.slice(1) : lines;
  } finally {
    await file.close();
  }
}
