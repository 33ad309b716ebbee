import { appendFile, chmod, mkdir, open, rename, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { escapeUnsafe } from "../../core/display-text.ts";
import { clip } from "../../core/json.ts";
import { createLineReader } from "../../core/line-reader.ts";

interface StderrTailOptions {
  readonly limit?: number;
  readonly hide?: (text: string) => string;
  readonly onLine?: ((line: string) => void) | undefined;
}

/** Keeps the end of a server's stderr, which usually says why it fails. `text` includes an unfinished line. */
export function createStderrTail({ limit = 4096, hide = (text) => text, onLine }: StderrTailOptions = {}) {
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
    // Long lines are read whole, so that a secret is not split before it is redacted.
    limit: 64 * 1024,
    onLine: (line) => addLine(toVisibleLine(line)),
    onDropped: ({ bytes }) => addLine(`(a line of ${bytes} bytes)`),
  });

  const text = () => [...lines, toVisibleLine(reader.pending())].join("\n").trim().slice(-limit);
  return { push: reader.push, end: reader.end, text };
}

interface ServerLogOptions {
  readonly path: string;
  readonly now: () => Date;
  /** At this size the file is renamed to `<path>.1`, replacing the former one. */
  readonly maxBytes?: number;
}

const MAX_BYTES = 1024 * 1024;
/** When more characters wait to be written, lines are dropped and counted. */
const MAX_WAITING = 256 * 1024;

export function openServerLog({ path, now, maxBytes = MAX_BYTES }: ServerLogOptions) {
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
      if (lost > 0) lines.push(`${now().toISOString()} (${lost} lines were dropped: they came too fast)\n`);
      lost = 0;
      await rotateLog(path, maxBytes);
      await appendFile(path, lines.join(""), { mode: 0o600 });
    }
  }

  function flush(): void {
    writing ??= writeAll()
      // A full disk must not stop a server. Its log ends here.
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
    /** Never throws or blocks. */
    write(line: string): void {
      const stamped = `${now().toISOString()} ${line}\n`;
      if (size + stamped.length > MAX_WAITING) return void lost++;
      waiting.push(stamped);
      size += stamped.length;
      flush();
    },
    async close(): Promise<void> {
      while (writing !== undefined) await writing;
    },
  };
}

async function rotateLog(path: string, maxBytes: number): Promise<void> {
  const file = await stat(path).catch(() => undefined);
  if (file === undefined) return;
  if (file.size >= maxBytes) await rename(path, `${path}.1`);
  else if ((file.mode & 0o077) !== 0) await chmod(path, 0o600);
}

/** The last lines of a log, oldest first. Reads at most `maxBytes` of each file. */
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
    return from > 0 ? lines.slice(1) : lines;
  } finally {
    await file.close();
  }
}
