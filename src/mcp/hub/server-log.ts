import { appendFile, chmod, mkdir, open, rename, stat } from "node:fs/promises";
import { dirname } from "node:path";

/** What a server wrote to stderr, in a file. */
export interface ServerLog {
  /** Never throws, and never makes anybody wait. */
  write(line: string): void;
  /** Resolves when everything is written that can be. */
  close(): Promise<void>;
}

export interface ServerLogOptions {
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
      await makeRoom(path, maxBytes);
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

async function makeRoom(path: string, maxBytes: number): Promise<void> {
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
    found = [...(await endOf(file, maxBytes)), ...found];
  }
  return found.slice(-lines);
}

async function endOf(path: string, maxBytes: number): Promise<readonly string[]> {
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
