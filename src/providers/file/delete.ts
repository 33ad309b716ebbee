import { readdir, rm, rmdir, unlink } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import type { Action } from "../../core/action.ts";
import { QmError } from "../../core/errors.ts";
import { quoteName } from "../../core/names.ts";
import { defineFileAction } from "./file-action.ts";
import { type FileRoot, isTemporaryName, resolveFileEntry } from "./file-root.ts";
import { explainFsErrors, getErrno } from "./fs-errors.ts";
import { type OpenFolder, openFolder, pathNotFoundError, statEntry, withFolder } from "./open-file.ts";

const input = z.lazy(() =>
  z.strictObject({ path: z.string().min(1).describe("File or empty folder, relative to the root.") }),
);

export const deleteAction = (root: FileRoot): Action =>
  defineFileAction(root, {
    entry: "delete",
    description:
      "Delete a file or an empty folder permanently. Of a link, only the link is deleted. To remove part of a file, use edit.",
    effect: "write",
    tags: ["destructive"],
    input,
    examples: [{ args: { path: "notes/old.md" } }],
    run: ({ path }) => remove(root, path),
  });

async function remove(root: FileRoot, requested: string) {
  const { folder: place, name, path } = await resolveFileEntry(root, requested);
  const missing = () => pathNotFoundError({ ...place, path, missing: [...place.missing, name] });
  if (place.missing.length > 0) throw await missing();
  return withFolder(place, async (folder) => {
    const stats = await statEntry(folder, name, path);
    if (stats === undefined) throw await missing();
    if (!stats.isDirectory() && !stats.isFile() && !stats.isSymbolicLink()) {
      throw new QmError("path_refused", `${quoteName(path)} is a device or a pipe`);
    }
    await explainFsErrors(path, "delete", () =>
      stats.isDirectory() ? removeFolder(folder, name, path) : unlink(folder.at(name)),
    );
    return { path, kind: stats.isDirectory() ? "folder" : stats.isFile() ? "file" : "link" };
  });
}

async function removeFolder(above: OpenFolder, name: string, shown: string): Promise<void> {
  try {
    await rmdir(above.at(name));
  } catch (thrown) {
    const errno = getErrno(thrown);
    if (errno !== "ENOTEMPTY" && errno !== "EEXIST") throw thrown;
    await removeLeftovers(above, name, shown);
    await rmdir(above.at(name));
  }
}

/** A folder with only the temporary files of killed writes looks empty to callers, so it can be deleted. */
async function removeLeftovers(above: OpenFolder, name: string, shown: string): Promise<void> {
  const folder = await openFolder(join(above.real, name), shown, above.protectedPaths);
  try {
    const names = await readdir(folder.at());
    const inside = names.filter((entry) => !isTemporaryName(entry)).length;
    if (inside > 0) {
      const about = { details: { entries: inside }, hint: "Delete its entries first." };
      throw new QmError("conflict", `the folder ${quoteName(shown)} is not empty: ${inside} entries`, about);
    }
    for (const entry of names) await rm(folder.at(entry), { force: true });
  } finally {
    await folder.close();
  }
}
