import { z } from "zod";
import { defineAction } from "../../catalog/define-action.ts";
import type { Action } from "../../core/action.ts";
import type { FileRoot } from "./file-root.ts";
import { normalizeFilePath, resolveFilePath } from "./file-root.ts";
import { type EntryKind, type FolderEntry, FolderWalker, joinRelative, skippedFolders } from "./folder-walker.ts";
import { pathNotFoundError, statEntry, withFolder } from "./open-file.ts";

const input = z.strictObject({
  path: z.string().min(1).default(".").describe("Folder, relative to the root."),
  depth: z.int().min(1).max(20).default(1).describe("How many levels down."),
  limit: z.int().min(1).max(5000).default(200).describe("Most entries to answer with."),
});

export function listAction(root: FileRoot): Action {
  return defineAction("file", {
    entry: "list",
    description:
      "List what is in a folder, with sizes. .git and node_modules are named but not entered. To find files by name, glob instead; by content, grep.",
    effect: "read",
    idempotent: true,
    tags: ["file", "read"],
    input,
    normalize: { path: (path) => normalizeFilePath(root, path) },
    examples: [{ args: {} }, { args: { path: "src", depth: 2 } }],
    run: (args, { signal }) => list(root, args, signal),
  });
}

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
    return {
      path: place.path,
      entries,
      total,
      truncated: total > entries.length,
      ...(walk.isIncomplete ? { incomplete: true } : {}),
    };
  });
}

async function readSize({ kind, folder, name, path }: FolderEntry): Promise<{ bytes?: number }> {
  if (kind !== "file") return {};
  // Gone since it was listed: still listed, without a size.
  const stats = await statEntry(folder, name, path).catch(() => undefined);
  return stats?.isFile() ? { bytes: stats.size } : {};
}
