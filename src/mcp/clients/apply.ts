import { lstat, mkdir, rm, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { messageOf, QmError } from "../../core/errors.ts";
import type { Runtime } from "../../core/runtime.ts";
import { backUp } from "../../files/back-up.ts";
import { replaceFile } from "../../files/replace-file.ts";
import type { FileChange } from "./connect.ts";
import { readBytes } from "./read.ts";

/**
 * Makes a change: whole or not at all, with a copy of what was there beside it. Throws `conflict` when the file is not
 * any more what the change was thought through for, and `action_failed` when it cannot be written.
 */
export async function applyChange(
  change: FileChange,
  runtime: Pick<Runtime, "now" | "newId">,
): Promise<{ readonly backup?: string }> {
  const { path, before, after, restores } = change;
  if (after === before) return {};
  await requireWritable(path);
  const now = await readBytes(path);
  if ((now === undefined ? undefined : Buffer.from(now).toString("utf8")) !== before)
    throw new QmError("conflict", `${path} was changed meanwhile`, { hint: "Nothing was written. Try again." });
  try {
    if (after === undefined) {
      await rm(path);
      return {};
    }
    if (before === undefined) {
      await mkdir(dirname(path), { recursive: true });
      // It may come to hold a token.
      await replaceFile(path, after, { mode: 0o600, unique: runtime.newId() });
      return {};
    }
    const backup = restores === undefined ? await backUp(path, runtime.now()) : undefined;
    await replaceFile(path, after, { unique: runtime.newId() });
    if (restores !== undefined) await rm(restores, { force: true });
    return backup === undefined ? {} : { backup };
  } catch (thrown) {
    throw new QmError("action_failed", `${path} cannot be written: ${messageOf(thrown)}`, {
      hint: "It is as it was. --print shows the entry, so that you can write it there yourself.",
      cause: thrown,
    });
  }
}

/** A file that was made read-only is somebody's word, although its folder would let it be replaced. */
async function requireWritable(path: string): Promise<void> {
  const link = await lstat(path).catch(() => undefined);
  const file = await stat(path).catch(() => undefined);
  const why =
    link?.isSymbolicLink() && file === undefined
      ? "it is a link that leads nowhere"
      : file !== undefined && (file.mode & 0o222) === 0
        ? "it is read-only"
        : undefined;
  if (why === undefined) return;
  throw new QmError("action_failed", `${path} cannot be written: ${why}`, {
    hint: "Nothing was changed. --print shows the entry, so that you can write it where the file comes from.",
  });
}
