import { link, open, readFile, rename, rm, stat } from "node:fs/promises";

const WAIT_MS = 25;
/** Nobody holds a file for longer than it takes to write it. */
const STALE_MS = 10_000;
/** Longer than that: what somebody left who died is waited for, and then taken over. */
const TRIES = 600;

export interface FileLockOptions {
  readonly now: () => Date;
  readonly newId: () => string;
}

/**
 * Does `work` while nobody else does theirs under the same lock, in whichever process. The lock is the file at `path`; its
 * folder must be there. Throws when somebody else holds it for too long.
 */
export async function withFileLock<T>(path: string, options: FileLockOptions, work: () => Promise<T>): Promise<T> {
  const mine = options.newId();
  await acquireLock(path, mine, options);
  try {
    return await work();
  } finally {
    // Whoever was away for very long may have lost it to another.
    if ((await readFile(path, "utf8").catch(() => "")) === mine) await rm(path, { force: true });
  }
}

async function acquireLock(path: string, mine: string, options: FileLockOptions): Promise<void> {
  for (let tries = 0; tries < TRIES; tries++) {
    try {
      const file = await open(path, "wx", 0o600);
      await file.writeFile(mine).finally(() => file.close());
      return;
    } catch (thrown) {
      if ((thrown as NodeJS.ErrnoException).code !== "EEXIST") throw thrown;
      await clearStale(path, options);
      await new Promise((resolve) => setTimeout(resolve, WAIT_MS));
    }
  }
  throw new Error(`another process holds ${path}`);
}

/** Two who find the same stale lock must not take away the new one that the first of them has made. */
async function clearStale(path: string, { now, newId }: FileLockOptions): Promise<void> {
  const isStale = async (file: string) => now().getTime() - (await stat(file)).mtimeMs > STALE_MS;
  try {
    if (!(await isStale(path))) return;
    const aside = `${path}.${newId()}`;
    await rename(path, aside);
    if (!(await isStale(aside))) await link(aside, path);
    await rm(aside, { force: true });
  } catch {
    // It is gone: the next try will have it.
  }
}
