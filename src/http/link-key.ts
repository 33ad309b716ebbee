import { randomBytes } from "node:crypto";
import { link, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { messageOf, QmError } from "../core/errors.ts";

const KEY_BYTES = 32;

/** What links are signed with, in a file that only its owner can read; made when there is none. */
export async function linkKeyIn(path: string): Promise<Buffer> {
  try {
    const text = await readFile(path, "utf8").catch((thrown: unknown) => {
      if ((thrown as NodeJS.ErrnoException).code === "ENOENT") return made(path);
      throw thrown;
    });
    const key = Buffer.from(text.trim(), "base64url");
    if (key.length < KEY_BYTES) throw new Error("it is too short to be one");
    return key;
  } catch (thrown) {
    throw new QmError("store_failed", `there is no key for links in ${path}: ${messageOf(thrown)}`, {
      hint: "Remove the file; a new one is made, and links from before are not valid any more.",
    });
  }
}

/** Whole or not at all, and never in the place of another: whoever is second takes the first one's. */
async function made(path: string): Promise<string> {
  await mkdir(dirname(path), { recursive: true });
  const beside = `${path}.${randomBytes(8).toString("hex")}`;
  await writeFile(beside, `${randomBytes(KEY_BYTES).toString("base64url")}\n`, { flag: "wx", mode: 0o600 });
  try {
    await link(beside, path);
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code !== "EEXIST") throw thrown;
  } finally {
    await rm(beside, { force: true });
  }
  return readFile(path, "utf8");
}
