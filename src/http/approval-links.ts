import { readFile, rm } from "node:fs/promises";
import type { Config } from "../config/schema.ts";
import { isRecord } from "../core/json.ts";
import { replaceTextFile } from "../files/safe-files.ts";
import { loadOrCreateSecret } from "../workspace/secret-file.ts";

/** The configured address that people use to reach us. */
export function getPublicUrl({ approvals: { publicUrl } }: Pick<Config, "approvals">): URL | undefined {
  return publicUrl === undefined ? undefined : new URL(publicUrl);
}

/** The address of an approval page. The base may have a path, when a proxy is in front of us. */
export function buildApprovalUrl(base: URL, token: string): string {
  const url = new URL(base);
  url.pathname = `${url.pathname.replace(/\/$/, "")}/approve`;
  url.search = new URLSearchParams({ t: token }).toString();
  return url.href;
}

/** The key that approval links are signed with. */
export function loadOrCreateLinkKey(path: string): Promise<Buffer> {
  const hint = "Remove the file; a new one is made, and links from before are not valid any more.";
  return loadOrCreateSecret(path, (text) => Buffer.from(text, "base64url"), { what: "key for links", hint });
}

export type AnnouncingProcess = { readonly pid: number; isAlive(pid: number): boolean };

/** Writes the address of this process into a file, for commands that create links. Returns a function that removes it. */
export async function announceServer(
  path: string,
  url: string,
  { pid, unique }: Pick<AnnouncingProcess, "pid"> & { readonly unique: string },
): Promise<() => Promise<void>> {
  await replaceTextFile(path, `${JSON.stringify({ url, pid })}\n`, { mode: 0o600, unique });
  return async () => {
    // A process that started later has written its own address.
    if ((await readAnnouncement(path))?.pid === pid) await rm(path, { force: true });
  };
}

/** The announced address, if its process is still running. */
export async function findAnnouncedServer(path: string, { isAlive }: Pick<AnnouncingProcess, "isAlive">) {
  const found = await readAnnouncement(path);
  return found !== undefined && isAlive(found.pid) ? found.url : undefined;
}

async function readAnnouncement(path: string): Promise<{ readonly url: URL; readonly pid: number } | undefined> {
  try {
    const value: unknown = JSON.parse(await readFile(path, "utf8"));
    const { url, pid } = isRecord(value) ? value : {};
    if (typeof url !== "string" || !/^https?:/.test(url)) return undefined;
    // Zero and negative numbers mean process groups.
    if (typeof pid !== "number" || !Number.isSafeInteger(pid) || pid < 1) return undefined;
    return { url: new URL(url), pid };
  } catch {
    return undefined;
  }
}
