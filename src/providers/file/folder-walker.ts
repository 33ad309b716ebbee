import type { Dirent } from "node:fs";
import { opendir } from "node:fs/promises";
import { join } from "node:path";
import { yieldToEventLoop } from "../../core/async.ts";
import { isTemporaryName } from "./file-root.ts";
import { type OpenFolder, openFolder } from "./open-file.ts";

export type EntryKind = "file" | "folder" | "link" | "other";

export interface FolderEntry {
  /** Relative to the start of the walk. */
  readonly path: string;
  readonly name: string;
  readonly kind: EntryKind;
  /** Its folder, open until the walk continues. */
  readonly folder: OpenFolder;
}

export interface WalkOptions {
  readonly signal: AbortSignal;
  readonly maxVisited: number;
  enter(entry: FolderEntry): boolean;
}

/** Folders with generated content. They are entered only if a pattern names them. */
export const skippedFolders: ReadonlySet<string> = new Set([".git", "node_modules"]);
const DEPTH_LIMIT = 64;
const ENTRIES_PER_TURN = 50;

/** Walks in order of path, folders as if their names ended in `/`. Does not follow links, so there are no cycles. */
export class FolderWalker {
  readonly #start: OpenFolder;
  readonly #options: WalkOptions;
  #left: number;
  #visited = 0;
  #isIncomplete = false;
  #isCut = false;

  constructor(start: OpenFolder, options: WalkOptions) {
    this.#start = start;
    this.#options = options;
    this.#left = options.maxVisited;
  }

  /** Whether entries are missing: too many, too deep, or in a folder that could not be opened. */
  get isIncomplete(): boolean {
    return this.#isIncomplete;
  }

  /** Whether there were more entries than may be visited. */
  get isCut(): boolean {
    return this.#isCut;
  }

  entries(): AsyncGenerator<FolderEntry> {
    return this.#below(this.#start, "", 0);
  }

  async *#below(folder: OpenFolder, prefix: string, depth: number): AsyncGenerator<FolderEntry> {
    for (const { name, kind } of await this.#listNames(folder)) {
      // Comparing an entry with long patterns takes up to a millisecond.
      if (++this.#visited % ENTRIES_PER_TURN === 0) await yieldToEventLoop();
      this.#options.signal.throwIfAborted();
      const entry = { path: prefix + name, name, kind, folder };
      yield entry;
      if (kind !== "folder" || !this.#options.enter(entry)) continue;
      const open = () => openFolder(join(folder.real, name), entry.path, folder.protectedPaths);
      const child = depth < DEPTH_LIMIT ? await open().catch(() => undefined) : undefined;
      if (child === undefined) {
        this.#isIncomplete = true;
        continue;
      }
      try {
        yield* this.#below(child, `${entry.path}/`, depth + 1);
      } finally {
        await child.close();
      }
    }
  }

  async #listNames(folder: OpenFolder): Promise<readonly { name: string; kind: EntryKind }[]> {
    const found: { name: string; kind: EntryKind; key: string }[] = [];
    try {
      for await (const entry of await opendir(folder.at(), { bufferSize: 256 })) {
        this.#options.signal.throwIfAborted();
        if (isTemporaryName(entry.name) || folder.protectedPaths.hides(folder.real, entry.name)) continue;
        if (this.#left-- <= 0) {
          this.#isIncomplete = true;
          this.#isCut = true;
          break;
        }
        const kind = getEntryKind(entry);
        found.push({ name: entry.name, kind, key: kind === "folder" ? `${entry.name}/` : entry.name });
      }
    } catch {
      this.#options.signal.throwIfAborted();
      this.#isIncomplete = true;
    }
    return found.sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
  }
}

function getEntryKind(entry: Dirent): EntryKind {
  if (entry.isFile()) return "file";
  if (entry.isDirectory()) return "folder";
  return entry.isSymbolicLink() ? "link" : "other";
}

export const joinRelative = (base: string, path: string): string => (base === "." ? path : `${base}/${path}`);
