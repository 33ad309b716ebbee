import { z } from "zod";
import type { Action } from "../../core/action.ts";
import { yieldToEventLoop } from "../../core/async.ts";
import { QmError } from "../../core/errors.ts";
import { clip, omitUndefined } from "../../core/json.ts";
import { CASE_INSENSITIVE, LinearPattern } from "../../core/linear-pattern.ts";
import { quoteName } from "../../core/names.ts";
import { WORK_LIMIT, WorkExceeded } from "../../core/work-budget.ts";
import { defineFileAction } from "./file-action.ts";
import { type FileRoot, type ResolvedPath, resolveFilePath } from "./file-root.ts";
import { type FolderEntry, joinRelative } from "./folder-walker.ts";
import { compileGlob, walkMatching } from "./glob.ts";
import { isFile, type OpenFile, openEntry, pathNotFoundError, withFile, withFolder } from "./open-file.ts";
import { readLineBlocks } from "./text-content.ts";

interface FileMatch {
  readonly path: string;
  /** Counted from 0, as in a read. */
  readonly line: number;
  readonly text: string;
  readonly before?: readonly string[];
  readonly after?: readonly string[];
}

const TEXT_LIMIT = 400;

class FileSearch {
  readonly matches: FileMatch[] = [];
  isTruncated = false;
  cutLines = 0;
  /** Lines on which the pattern exceeded its work limit. */
  skippedLines = 0;
  readonly #regex: LinearPattern;
  #budget = { left: WORK_LIMIT };
  readonly #context: number;
  readonly #limit: number;

  constructor(regex: LinearPattern, { context, limit }: { context: number; limit: number }) {
    this.#regex = regex;
    this.#context = context;
    this.#limit = limit;
  }

  async file(path: string, file: OpenFile, signal: AbortSignal): Promise<void> {
    const before: string[] = [];
    let waiting: string[][] = [];
    let number = 0;
    for await (const { lines, cut } of readLineBlocks(file, path, signal)) {
      this.cutLines += cut;
      for (const [index, line] of lines.entries()) {
        if (waiting.length > 0) {
          for (const after of waiting) after.push(clip(line, TEXT_LIMIT));
          waiting = waiting.filter((after) => after.length < this.#context);
        }
        if (this.#budget.left < WORK_LIMIT / 2) {
          await yieldToEventLoop();
          signal.throwIfAborted();
          this.#budget = { left: WORK_LIMIT };
        }
        if (!this.isTruncated && this.#matches(line)) {
          const after = this.#add(path, number + index, line, before);
          if (after !== undefined && this.#context > 0) waiting.push(after);
        }
        if (this.isTruncated && waiting.length === 0) return;
        if (this.#context > 0) before.push(clip(line, TEXT_LIMIT));
        if (before.length > this.#context) before.shift();
      }
      number += lines.length;
    }
  }

  #matches(line: string): boolean {
    try {
      return this.#regex.test(line, this.#budget);
    } catch (thrown) {
      if (!(thrown instanceof WorkExceeded)) throw thrown;
      this.skippedLines++;
      return false;
    }
  }

  /** Returns the list for the lines after the match, or undefined if the limit is reached. */
  #add(path: string, line: number, text: string, before: readonly string[]): string[] | undefined {
    if (this.matches.length === this.#limit) {
      this.isTruncated = true;
      return undefined;
    }
    const after: string[] = [];
    const around = this.#context > 0 ? { before: [...before], after } : {};
    this.matches.push({ path, line, text: this.#excerpt(text), ...around });
    return after;
  }

  /** The line, or the first part of a long line that matches by itself. */
  #excerpt(line: string): string {
    if (line.length <= TEXT_LIMIT) return line;
    try {
      for (let at = 0; at < line.length; at += TEXT_LIMIT / 2) {
        if (!this.#regex.test(line.slice(at, at + TEXT_LIMIT), this.#budget)) continue;
        if (at === 0) break;
        return clip(`…${line.slice(at).replace(/^[\uDC00-\uDFFF]/, "")}`, TEXT_LIMIT);
      }
    } catch (thrown) {
      if (!(thrown instanceof WorkExceeded)) throw thrown;
    }
    return clip(line, TEXT_LIMIT);
  }
}

const input = z.lazy(() =>
  z.strictObject({
    pattern: z.string().min(1).max(1000).describe("Regular expression (RE2), matched line by line."),
    path: z.string().min(1).default(".").describe("Folder or file to search, relative to the root."),
    glob: z.string().min(1).max(1000).optional().describe("Only files that match, such as *.ts or src/**/*.md."),
    case_sensitive: z.boolean().default(false),
    context: z.int().min(0).max(10).default(0).describe("Lines to show before and after."),
    limit: z.int().min(1).max(1000).default(100).describe("Maximum number of matches."),
  }),
);

export const grepAction = (root: FileRoot): Action =>
  defineFileAction(root, {
    entry: "grep",
    description:
      "Find text inside files: search their content for a pattern. Returns the lines, counted from 0 as in read. .git and node_modules are skipped unless glob names them. To find files by name, use glob.",
    effect: "read",
    input,
    examples: [
      { args: { pattern: "TODO|FIXME", glob: "*.ts" } },
      { args: { pattern: "^export function parse", path: "src", case_sensitive: true, context: 2 } },
    ],
    run: (args, { signal }) => grep(root, args, signal),
  });

async function grep(root: FileRoot, args: z.output<typeof input>, signal: AbortSignal) {
  const search = new FileSearch(compile(args), args);
  const place = await resolveFilePath(root, args.path);
  if (place.missing.length > 0) throw await pathNotFoundError(place);
  const { searched, skipped, isIncomplete } = (await isFile(place))
    ? await searchOneFile(place, search, signal)
    : await grepFolder(root, place, search, signal, args.glob);
  return omitUndefined({
    matches: search.matches,
    truncated: search.isTruncated,
    files_searched: searched,
    files_skipped: skipped || undefined,
    lines_cut: search.cutLines || undefined,
    lines_skipped: search.skippedLines || undefined,
    incomplete: isIncomplete || undefined,
  });
}

function compile({ pattern, case_sensitive }: z.output<typeof input>): LinearPattern {
  const compiled = LinearPattern.compile(pattern, case_sensitive ? 0 : CASE_INSENSITIVE);
  if (typeof compiled !== "string") return compiled;
  if (compiled === "too_large") {
    throw new QmError("invalid_arguments", `the pattern ${quoteName(pattern)} is too large`, {
      hint: "Use fewer alternatives and smaller counts, or search in several calls.",
    });
  }
  throw new QmError("invalid_arguments", `the pattern ${quoteName(pattern)} is not RE2 syntax`, {
    hint: "RE2 has no lookahead, lookbehind or backreferences. To search for literal text, put \\Q before it and \\E after it.",
  });
}

type Counts = { readonly searched: number; readonly skipped: number; readonly isIncomplete: boolean };

const searchOneFile = async (place: ResolvedPath, search: FileSearch, signal: AbortSignal): Promise<Counts> =>
  withFile(place, async (file) => {
    await search.file(place.path, file, signal);
    return { searched: 1, skipped: 0, isIncomplete: false };
  });

async function grepFolder(root: FileRoot, place: ResolvedPath, search: FileSearch, signal: AbortSignal, glob?: string) {
  // As in other tools, a pattern without a folder matches the name of a file at any depth.
  const filter = compileGlob(glob === undefined ? "**" : glob.includes("/") ? glob : `**/${glob}`);
  return withFolder(place, async (folder) => {
    const walk = walkMatching(folder, filter, root, signal);
    let [searched, skipped] = [0, 0];
    for await (const entry of walk.entries()) {
      if (entry.kind !== "file" || !filter.matches(entry.path)) continue;
      if (await searchEntry(entry, joinRelative(place.path, entry.path), search, signal)) searched++;
      else skipped++;
      if (search.isTruncated) break;
    }
    return { searched, skipped, isIncomplete: walk.isIncomplete };
  });
}

/** Returns whether the file was searched. A file that is binary or cannot be read does not end the search. */
async function searchEntry(entry: FolderEntry, path: string, search: FileSearch, signal: AbortSignal) {
  const file = await openEntry(entry.folder, entry.name, path).catch(() => undefined);
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
