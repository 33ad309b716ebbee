import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { messageOf, QmError } from "../core/errors.ts";
import { madeOnce } from "../files/made-once.ts";

const KEY_BYTES = 32;

/** What links are signed with, in a file that only its owner can read; made when there is none. */
export async function linkKeyIn(path: string): Promise<Buffer> {
  try {
    if (!existsSync(path)) await madeOnce(path, `${randomBytes(KEY_BYTES).toString("base64url")}\n`);
    const key = Buffer.from((await readFile(path, "utf8")).trim(), "base64url");
    if (key.length < KEY_BYTES) throw new Error("it is too short to be one");
    return key;
  } catch (thrown) {
    throw new QmError("store_failed", `there is no key for links in ${path}: ${messageOf(thrown)}`, {
      hint: "Remove the file; a new one is made, and links from before are not valid any more.",
    });
  }
}
