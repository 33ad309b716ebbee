import { z } from "zod";
import { defineAction } from "../../catalog/define.ts";
import type { Action } from "../../core/action.ts";
import { locate, normalPath } from "./confine.ts";
import { inFolder } from "./folder.ts";
import { notFound } from "./nearby.ts";
import { statsIn } from "./open-file.ts";
import type { Root } from "./root.ts";
import { type Entry, joined, type Kind, passedOver, Walk } from "./walk.ts";

const input = z.strictObject({
  path: z.string().min(1).default(".").describe("Folder, relative to the root."),
  depth: z.int().min(1).max(20).default(1).describe("How many levels down."),
  limit: z.int().min(1).max(5000).default(200).describe("Most entries to answer with."),
});

export function listAction(root: Root): Action {
  return defineAction("file", {
    entry: "list",
    description:
      "List what is in a folder, with sizes. .git and node_modules are named but not entered. To find files by name, glob instead; by content, grep.",
    effect: "read",
    idempotent: true,
    tags: ["file", "read"],
    input,
    normalize: { path: (path) => normalPath(root, path) },
    examples: [{ args: {} }, { args: { path: "src", depth: 2 } }],
    run: (args, { signal }) => list(root, args, signal),
  });
}

async function list(root: Root, { path, depth, limit }: z.output<typeof input>, signal: AbortSignal) {
  const place = await locate(root, path);
  if (place.missing.length > 0) throw await notFound(place);
  return inFolder(place, async (folder) => {
    const enter = (entry: Entry) => !passedOver.has(entry.name) && entry.path.split("/").length < depth;
    const walk = new Walk(folder, { signal, maxVisited: root.limits.maxVisited, enter });
    const entries: { path: string; kind: Kind; bytes?: number }[] = [];
    let total = 0;
    for await (const entry of walk.entries()) {
      total++;
      if (entries.length === limit) continue;
      entries.push({ path: joined(place.path, entry.path), kind: entry.kind, ...(await sizeOf(entry)) });
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

async function sizeOf({ kind, folder, name, path }: Entry): Promise<{ bytes?: number }> {
  if (kind !== "file") return {};
  // Gone since it was listed: still listed, without a size.
  const stats = await statsIn(folder, name, path).catch(() => undefined);
  return stats?.isFile() ? { bytes: stats.size } : {};
}
