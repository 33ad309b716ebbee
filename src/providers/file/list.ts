import { z } from "zod";
import type { Action } from "../../core/action.ts";
import { defineFileAction } from "./file-action.ts";
import { type FileRoot, resolveFilePath } from "./file-root.ts";
import { type EntryKind, type FolderEntry, FolderWalker, joinRelative, skippedFolders } from "./folder-walker.ts";
import { pathNotFoundError, statEntry, withFolder } from "./open-file.ts";

const input = z.lazy(() =>
  z.strictObject({
    path: z.string().min(1).default(".").describe("Folder, relative to the root."),
    depth: z.int().min(1).max(20).default(1).describe("How many levels to list."),
    limit: z.int().min(1).max(5000).default(200).describe("Maximum number of entries."),
  }),
);

export const listAction = (root: FileRoot): Action =>
  defineFileAction(root, {
    entry: "list",
    description:
      "List the entries of a folder with their sizes. .git and node_modules are listed but not entered. To find files by name, use glob; by content, grep.",
    effect: "read",
    input,
    examples: [{ args: {} }, { args: { path: "src", depth: 2 } }],
    run: (args, { signal }) => list(root, args, signal),
  });

async function list(root: FileRoot, { path, depth, limit }: z.output<typeof input>, signal: AbortSignal) {
  const place = await resolveFilePath(root, path);
  if (place.missing.length > 0) throw await pathNotFoundError(place);
  return withFolder(place, async (folder) => {
    const enter = (entry: FolderEntry) => !skippedFolders.has(entry.name) && entry.path.split("/").length < depth;
    const walk = new FolderWalker(folder, { signal, maxVisited: root.limits.maxVisited, enter });
    const entries: { path: string; kind: EntryKind; bytes?: number }[] = [];
    let total = 0;
    for await (const entry of walk.entries()) {
      total++;
      if (entries.length === limit) continue;
      entries.push({ path: joinRelative(place.path, entry.path), kind: entry.kind, ...(await readSize(entry)) });
    }
    const incomplete = walk.isIncomplete ? { incomplete: true } : {};
    return { path: place.path, entries, total, truncated: total > entries.length, ...incomplete };
  });
}

async function readSize({ kind, folder, name, path }: FolderEntry): Promise<{ bytes?: number }> {
  if (kind !== "file") return {};
  // An entry that was deleted in the meantime is listed without a size.
  const stats = await statEntry(folder, name, path).catch(() => undefined);
  return stats?.isFile() ? { bytes: stats.size } : {};
}
