import { readFile, rm } from "node:fs/promises";
import { isRecord } from "../core/json.ts";
import { replaceFile } from "../files/replace-file.ts";

/** Who listens, and whether they still do. */
export interface ServingProcess {
  readonly pid: number;
  isAlive(pid: number): boolean;
}

interface Serving {
  readonly url: URL;
  readonly pid: number;
}

/** Says in a file where this process listens, for whoever makes links, until the returned function is called. */
export async function announce(
  path: string,
  url: string,
  { pid, unique }: Pick<ServingProcess, "pid"> & { readonly unique: string },
): Promise<() => Promise<void>> {
  await replaceFile(path, `${JSON.stringify({ url, pid })}\n`, { mode: 0o600, unique });
  return async () => {
    // Another one that began later has written its own.
    if ((await written(path))?.pid === pid) await rm(path, { force: true });
  };
}

/** Where a process listens that is still there. What one left behind that died is passed over. */
export async function servingAt(path: string, { isAlive }: Pick<ServingProcess, "isAlive">): Promise<URL | undefined> {
  const found = await written(path);
  return found !== undefined && isAlive(found.pid) ? found.url : undefined;
}

async function written(path: string): Promise<Serving | undefined> {
  try {
    const value: unknown = JSON.parse(await readFile(path, "utf8"));
    if (!isRecord(value)) return undefined;
    const { url, pid } = value;
    // Zero and less would ask about whole groups of processes.
    if (typeof url !== "string" || !/^https?:/.test(url) || !Number.isSafeInteger(pid) || Number(pid) < 1)
      return undefined;
    return { url: new URL(url), pid: Number(pid) };
  } catch {
    return undefined;
  }
}
