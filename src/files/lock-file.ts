import { link, open, readFile, rename, rm, stat } from "node:fs/promises";
import { setTimeout } from "node:timers/promises";

const WAIT_MS = 25;
/** A lock is held only while a file is written, so an older one belongs to a dead process. */
const STALE_MS = 10_000;
/** Waits longer than `STALE_MS`, so that the lock of a dead process is taken over. */
const TRIES = 600;

export interface FileLockOptions {
  readonly now: () => Date;
  readonly newId: () => string;
}

/** Runs `work` while holding the lock file at `path`. Throws if another process holds it for too long. */
export async function withFileLock<T>(path: string, options: FileLockOptions, work: () => Promise<T>): Promise<T> {
  const id = options.newId();
  await acquireLock(path, id, options);
  try {
    return await work();
  } finally {
    // After a very long pause, another process may have taken the lock over.
    if ((await readFile(path, "utf8").catch(() => "")) === id) await rm(path, { force: true });
  }
}

async function acquireLock(path: string, id: string, options: FileLockOptions): Promise<void> {
  for (let tries = 0; tries < TRIES; tries++) {
    try {
      const file = await open(path, "wx", 0o600);
      await file.writeFile(id).finally(() => file.close());
      return;
    } catch (thrown) {
      if ((thrown as NodeJS.ErrnoException).code !== "EEXIST") throw thrown;
      await clearStale(path, options);
      await setTimeout(WAIT_MS);
    }
  }
  throw new Error(`another process holds ${path}`);
}

/** Removes a stale lock. If another process has replaced it meanwhile, the new lock is put back. */
async function clearStale(path: string, { now, newId }: FileLockOptions): Promise<void> {
  const isStale = async (file: string) => now().getTime() - (await stat(file)).mtimeMs > STALE_MS;
  try {
    if (!(await isStale(path))) return;
    const aside = `${path}.${newId()}`;
    await rename(path, aside);
    if (!(await isStale(aside))) await link(aside, path);
    await rm(aside, { force: true });
  } catch {}
}
