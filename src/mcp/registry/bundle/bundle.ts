import { hash, randomUUID } from "node:crypto";
import { mkdir, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { QmError } from "../../../core/errors.ts";
import { quoted } from "../../../core/names.ts";
import { checkedUrl, type Fetch, getDocument, isLoopback, refused } from "../http.ts";
import type { BundleFile } from "../install-plan.ts";
import { readZip, type ZipEntry } from "./zip.ts";

export interface BundleSource {
  readonly fetch: Fetch;
  /** The registry that named the bundle: only one on this machine may name an address on it. */
  readonly registry?: string | undefined;
}

const ARCHIVE_BYTES = 256 * 2 ** 20;
const LIMITS = { entries: 50_000, bytes: 2 ** 30 };
const TIMEOUT_MS = 5 * 60_000;

/**
 * Fetches a bundle and answers its files, none of them unpacked. Throws `registry_failed` when it does not come, and
 * `conflict` when it is not what was promised.
 */
export async function fetchBundle(
  { url: text, sha256 }: Pick<BundleFile, "url" | "sha256">,
  { fetch, registry }: BundleSource,
  signal?: AbortSignal,
): Promise<readonly ZipEntry[]> {
  const url = checkedUrl(text, "the bundle's address");
  if (isLoopback(url) && !(registry !== undefined && isLoopback(new URL(registry)))) {
    throw new QmError("invalid_arguments", `the bundle's address ${quoted(text)} is on this machine`, {
      hint: "Choose another package of this server.",
    });
  }
  const limits = {
    fetch,
    what: "the bundle",
    timeoutMs: TIMEOUT_MS,
    bytes: ARCHIVE_BYTES,
    redirects: "https",
  } as const;
  const answer = await getDocument(url, limits, signal);
  if (answer.status !== 200) throw refused(url, limits, answer);
  const found = hash("sha256", answer.bytes, "hex");
  if (found !== sha256) {
    throw new QmError("conflict", `the bundle at ${url.origin}${url.pathname} is not the one that was published`, {
      hint: "Nothing was unpacked. Do not install it: somebody may have replaced it.",
      details: { expected_sha256: sha256, found_sha256: found },
    });
  }
  return readZip(answer.bytes, LIMITS);
}

/**
 * Fetches a bundle and unpacks it into its folder, or finds that this was done before. The folder is there with all its
 * files or not at all.
 */
export async function unpackBundle(file: BundleFile, source: BundleSource, signal?: AbortSignal): Promise<void> {
  if (await isThere(file.folder)) return;
  const entries = await fetchBundle(file, source, signal);
  const half = `${file.folder}.${randomUUID()}`;
  try {
    for (const entry of entries) {
      signal?.throwIfAborted();
      const path = join(half, entry.path);
      await mkdir(dirname(path), { recursive: true, mode: 0o700 });
      await writeFile(path, await entry.bytes(), { flag: "wx", mode: entry.isExecutable ? 0o700 : 0o600 });
    }
    await rename(half, file.folder);
  } catch (thrown) {
    await rm(half, { recursive: true, force: true });
    // Another process was faster, with the same files.
    if (!(await isThere(file.folder))) throw thrown;
  }
}

async function isThere(folder: string): Promise<boolean> {
  return stat(folder).then(
    (found) => found.isDirectory(),
    () => false,
  );
}
