import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { messageOf, QmError } from "../../core/errors.ts";
import { madeOnce } from "../../files/made-once.ts";

/** The token in a file that only its owner can read; made when there is none. Two that make it at once get the same. */
export async function tokenIn(path: string): Promise<string> {
  try {
    if (!existsSync(path)) await madeOnce(path, `${randomBytes(32).toString("base64url")}\n`);
    const token = (await readFile(path, "utf8")).trim();
    if (token.length < 32) throw new Error("it is too short to be one");
    return token;
  } catch (thrown) {
    throw new QmError("store_failed", `there is no token in ${path}: ${messageOf(thrown)}`, {
      hint: "Remove the file; a new one is made at the next start.",
    });
  }
}
