import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { readFile, rm } from "node:fs/promises";
import type { Config } from "../config/schema.ts";
import { getErrorMessage, QmError } from "../core/errors.ts";
import { isRecord } from "../core/json.ts";
import { createFileOnce, replaceTextFile } from "../files/safe-files.ts";

/** Where people reach us, as the configuration says. */
export function getPublicUrl({ approvals: { publicUrl } }: Pick<Config, "approvals">): URL | undefined {
  return publicUrl === undefined ? undefined : new URL(publicUrl);
}

/** The address of the page that a link leads to, below whatever stands in front of us. */
export function buildApprovalUrl(place: URL, token: string): string {
  const url = new URL(place);
  url.pathname = `${url.pathname.replace(/\/$/, "")}/approve`;
  url.search = new URLSearchParams({ t: token }).toString();
  return url.href;
}

/** Who listens, and whether they still do. */
export interface AnnouncingProcess {
  readonly pid: number;
  isAlive(pid: number): boolean;
}

interface AnnouncedServer {
  readonly url: URL;
  readonly pid: number;
}

/** Says in a file where this process listens, for whoever makes links, until the returned function is called. */
export async function announceServer(
  path: string,
  url: string,
  { pid, unique }: Pick<AnnouncingProcess, "pid"> & { readonly unique: string },
): Promise<() => Promise<void>> {
  await replaceTextFile(path, `${JSON.stringify({ url, pid })}\n`, { mode: 0o600, unique });
  return async () => {
    // Another one that began later has written its own.
    if ((await readAnnouncement(path))?.pid === pid) await rm(path, { force: true });
  };
}

/** Where a process listens that is still there. What one left behind that died is passed over. */
export async function findAnnouncedServer(
  path: string,
  { isAlive }: Pick<AnnouncingProcess, "isAlive">,
): Promise<URL | undefined> {
  const found = await readAnnouncement(path);
  return found !== undefined && isAlive(found.pid) ? found.url : undefined;
}

async function readAnnouncement(path: string): Promise<AnnouncedServer | undefined> {
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

const KEY_BYTES = 32;

/** What links are signed with, in a file that only its owner can read; made when there is none. */
export async function loadOrCreateLinkKey(path: string): Promise<Buffer> {
  try {
    if (!existsSync(path)) await createFileOnce(path, `${randomBytes(KEY_BYTES).toString("base64url")}\n`);
    const key = Buffer.from((await readFile(path, "utf8")).trim(), "base64url");
    if (key.length < KEY_BYTES) throw new Error("it is too short to be one");
    return key;
  } catch (thrown) {
    throw new QmError("store_failed", `there is no key for links in ${path}: ${getErrorMessage(thrown)}`, {
      hint: "Remove the file; a new one is made, and links from before are not valid any more.",
    });
  }
}
