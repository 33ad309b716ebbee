import { z } from "zod";
import { defineAction } from "../../catalog/define.ts";
import type { Action } from "../../core/action.ts";
import { QmError } from "../../core/errors.ts";
import { CASE_INSENSITIVE, LinearPattern } from "../../core/linear-pattern.ts";
import { quoted } from "../../core/names.ts";
import { locate, normalPath, type Place } from "./confine.ts";
import { inFolder, inFolderOf } from "./folder.ts";
import { entersFor } from "./glob.ts";
import { compileGlob } from "./glob-pattern.ts";
import { notFound } from "./nearby.ts";
import { openIn, statsIn, withFile } from "./open-file.ts";
import type { Root } from "./root.ts";
import { Search } from "./search-file.ts";
import { type Entry, joined, Walk } from "./walk.ts";

const input = z.strictObject({
  pattern: z.string().min(1).max(1000).describe("Regular expression (RE2), matched line by line."),
  path: z.string().min(1).default(".").describe("Folder or file to search, relative to the root."),
  glob: z.string().min(1).max(1000).optional().describe("Only files that fit, such as *.ts or src/**/*.md."),
  case_sensitive: z.boolean().default(false),
  context: z.int().min(0).max(10).default(0).describe("Lines to show before and after."),
  limit: z.int().min(1).max(1000).default(100).describe("Most matches to answer with."),
});

export function grepAction(root: Root): Action {
  return defineAction("file", {
    entry: "grep",
    description:
      "Find text inside files: search their content for a pattern. Answers with the lines, counted from 0 as when reading. .git and node_modules are passed over unless glob names them. To find files by name, glob instead.",
    effect: "read",
    idempotent: true,
    tags: ["file", "read"],
    input,
    normalize: { path: (path) => normalPath(root, path) },
    examples: [
      { args: { pattern: "TODO|FIXME", glob: "*.ts" } },
      { args: { pattern: "^export function parse", path: "src", case_sensitive: true, context: 2 } },
    ],
    run: (args, { signal }) => grep(root, args, signal),
  });
}

async function grep(root: Root, args: z.output<typeof input>, signal: AbortSignal) {
  const search = new Search(compile(args), args);
  const place = await locate(root, args.path);
  if (place.missing.length > 0) throw await notFound(place);
  const counts = (await isFile(place))
    ? await oneFile(place, search, signal)
    : await folderOfFiles(root, place, args.glob, search, signal);
  return {
    matches: search.matches,
    truncated: search.isTruncated,
    files_searched: counts.searched,
    ...(counts.skipped > 0 ? { files_skipped: counts.skipped } : {}),
    ...(search.cutLines > 0 ? { lines_cut: search.cutLines } : {}),
    ...(search.skippedLines > 0 ? { lines_skipped: search.skippedLines } : {}),
    ...(counts.isIncomplete ? { incomplete: true } : {}),
  };
}

function compile({ pattern, case_sensitive }: z.output<typeof input>): LinearPattern {
  const compiled = LinearPattern.compile(pattern, case_sensitive ? 0 : CASE_INSENSITIVE);
  if (typeof compiled !== "string") return compiled;
  if (compiled === "too_large") {
    throw new QmError("invalid_arguments", `the pattern ${quoted(pattern)} is too large`, {
      hint: "Use fewer alternatives and smaller counts, or search in several calls.",
    });
  }
  throw new QmError("invalid_arguments", `the pattern ${quoted(pattern)} is not RE2 syntax`, {
    hint: "RE2 has no lookahead, lookbehind or backreferences. To search for text as it is, put \\Q before it and \\E after.",
  });
}

interface Counts {
  readonly searched: number;
  /** Binary, or not to be opened. */
  readonly skipped: number;
  readonly isIncomplete: boolean;
}

async function isFile(place: Place): Promise<boolean> {
  if (place.isRoot) return false;
  return inFolderOf(place, async (folder, name) => !(await statsIn(folder, name, place.path))?.isDirectory());
}

async function oneFile(place: Place, search: Search, signal: AbortSignal): Promise<Counts> {
  return withFile(place, async (file) => {
    await search.file(place.path, file, signal);
    return { searched: 1, skipped: 0, isIncomplete: false };
  });
}

async function folderOfFiles(
  root: Root,
  place: Place,
  glob: string | undefined,
  search: Search,
  signal: AbortSignal,
): Promise<Counts> {
  // As with other searchers, a pattern without a folder means the file's name, wherever it is.
  const filter = compileGlob(glob === undefined ? "**" : glob.includes("/") ? glob : `**/${glob}`);
  return inFolder(place, async (folder) => {
    const walk = new Walk(folder, { signal, maxVisited: root.limits.maxVisited, enter: entersFor(filter) });
    let searched = 0;
    let skipped = 0;
    for await (const entry of walk.entries()) {
      if (entry.kind !== "file" || !filter.matches(entry.path)) continue;
      if (await searchEntry(entry, joined(place.path, entry.path), search, signal)) searched++;
      else skipped++;
      if (search.isTruncated) break;
    }
    return { searched, skipped, isIncomplete: walk.isIncomplete };
  });
}

/** Whether it was searched. One file that is binary or cannot be read does not end the search. */
async function searchEntry(entry: Entry, path: string, search: Search, signal: AbortSignal): Promise<boolean> {
  const file = await openIn(entry.folder, entry.name, path).catch(() => undefined);
  if (file === undefined) return false;
  try {
    await search.file(path, file, signal);
    return true;
  } catch {
    signal.throwIfAborted();
    return false;
  } finally {
    await file.handle.close();
  }
}
