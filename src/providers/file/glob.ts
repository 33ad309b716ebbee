import { z } from "zod";
import { defineAction } from "../../catalog/define.ts";
import type { Action } from "../../core/action.ts";
import { locate, normalPath } from "./confine.ts";
import { inFolder } from "./folder.ts";
import { compileGlob, type GlobPattern } from "./glob-pattern.ts";
import { notFound } from "./nearby.ts";
import type { Root } from "./root.ts";
import { type Entry, joined, passedOver, Walk } from "./walk.ts";

const input = z.strictObject({
  pattern: z.string().min(1).max(1000).describe("Such as src/**/*.{ts,tsx}; ** crosses folders, * does not."),
  path: z.string().min(1).default(".").describe("Folder to look in, relative to the root."),
  limit: z.int().min(1).max(5000).default(200).describe("Most paths to answer with."),
});

export function globAction(root: Root): Action {
  return defineAction("file", {
    entry: "glob",
    description:
      "Find files by name pattern. .git and node_modules are passed over unless the pattern names them. To find files by content, grep instead.",
    effect: "read",
    idempotent: true,
    tags: ["file", "read"],
    input,
    normalize: { path: (path) => normalPath(root, path) },
    examples: [{ args: { pattern: "**/*.md" } }, { args: { pattern: "*.{test,spec}.ts", path: "src/core" } }],
    run: (args, { signal }) => glob(root, args, signal),
  });
}

async function glob(root: Root, { pattern, path, limit }: z.output<typeof input>, signal: AbortSignal) {
  const compiled = compileGlob(pattern);
  const place = await locate(root, path);
  if (place.missing.length > 0) throw await notFound(place);
  return inFolder(place, async (folder) => {
    const walk = new Walk(folder, { signal, maxVisited: root.limits.maxVisited, enter: entersFor(compiled) });
    const paths: string[] = [];
    let truncated = false;
    for await (const entry of walk.entries()) {
      if (entry.kind === "folder" || entry.kind === "other" || !compiled.matches(entry.path)) continue;
      truncated = paths.length === limit;
      if (truncated) break;
      paths.push(joined(place.path, entry.path));
    }
    return { paths, truncated, ...(walk.isIncomplete ? { incomplete: true } : {}) };
  });
}

/** Which folders a walk for this pattern looks into. */
export function entersFor(pattern: GlobPattern): (entry: Entry) => boolean {
  return ({ name, path }) => (!passedOver.has(name) || pattern.names(name)) && pattern.mayEnter(path);
}
