import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { getErrorMessage, QmError } from "../core/errors.ts";
import { createFileOnce } from "../files/safe-files.ts";

/** Reads or creates an owner-only file; racing processes agree. `store_failed`: fewer than 32 bytes decoded. */
export async function loadOrCreateSecret<T extends string | Buffer>(
  path: string,
  decode: (text: string) => T,
  messages: { readonly what: string; readonly hint: string },
): Promise<T> {
  try {
    if (!existsSync(path)) await createFileOnce(path, `${randomBytes(32).toString("base64url")}\n`);
    const secret = decode((await readFile(path, "utf8")).trim());
    if (secret.length < 32) throw new Error("it is too short");
    return secret;
  } catch (thrown) {
    const message = `cannot read the ${messages.what} in ${path}: ${getErrorMessage(thrown)}`;
    throw new QmError("store_failed", message, { hint: messages.hint });
  }
}
