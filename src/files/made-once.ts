import { randomBytes } from "node:crypto";
import { link, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { makePrivateFolder } from "./private-folder.ts";

/**
 * Makes a file that only its owner can read, whole or not at all, and never in the place of another: of two that make it at
 * the same time, the second finds the first one's.
 */
export async function madeOnce(path: string, text: string): Promise<void> {
  makePrivateFolder(dirname(path));
  const beside = `${path}.${randomBytes(8).toString("hex")}`;
  await writeFile(beside, text, { flag: "wx", mode: 0o600 });
  try {
    await link(beside, path);
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code !== "EEXIST") throw thrown;
  } finally {
    await rm(beside, { force: true });
  }
}
