import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { link, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { messageOf, QmError } from "../../core/errors.ts";

/** The token in a file that only its owner can read; made when there is none. Two that make it at once get the same. */
export async function tokenIn(path: string): Promise<string> {
  try {
    await mkdir(dirname(path), { recursive: true });
    if (!existsSync(path)) await makeToken(path);
    const token = (await readFile(path, "utf8")).trim();
    if (token.length < 32) throw new Error("it is too short to be one");
    return token;
  } catch (thrown) {
    throw new QmError("store_failed", `there is no token in ${path}: ${messageOf(thrown)}`, {
      hint: "Remove the file; a new one is made at the next start.",
    });
  }
}

/** Whole or not at all, and never in the place of another: whoever is second takes the first one's. */
async function makeToken(path: string): Promise<void> {
  const token = randomBytes(32).toString("base64url");
  const beside = `${path}.${randomBytes(8).toString("hex")}`;
  await writeFile(beside, `${token}\n`, { flag: "wx", mode: 0o600 });
  try {
    await link(beside, path);
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code !== "EEXIST") throw thrown;
  } finally {
    await rm(beside, { force: true });
  }
}
