import type { Dirent } from "node:fs";
import { opendir } from "node:fs/promises";
import { join } from "node:path";
import { isTemporaryName } from "./file-root.ts";
import { type OpenFolder, openFolder } from "./open-file.ts";

export type EntryKind = "file" | "folder" | "link" | "other";

export interface FolderEntry {
  /** Relative to where the walk began. */
  readonly path: string;
  readonly name: string;
  readonly kind: EntryKind;
  /** The folder that holds it, open until the walk goes on. */
  readonly folder: OpenFolder;
}

export interface WalkOptions {
  readonly signal: AbortSignal;
  /** How many entries to look at before giving up. */
  readonly maxVisited: number;
  /** Whether to look into a folder. */
  enter(entry: FolderEntry): boolean;
}

/** Folders that hold what nobody wrote by hand: looked into only when asked for by name. */
export const skippedFolders: ReadonlySet<string> = new Set([".git", "node_modules"]);

const DEPTH_LIMIT = 64;

/**
 * Goes through a folder in order of path, a folder before what is in it and sorted as if its name ended in `/`. Links
 * are entries and never followed, so there are no cycles. What is kept is not there. Memory is bounded by `maxVisited`.
 */
export class FolderWalker {
  readonly #start: OpenFolder;
  readonly #options: WalkOptions;
  #left: number;
  #isIncomplete = false;

  constructor(start: OpenFolder, options: WalkOptions) {
    this.#start = start;
    this.#options = options;
    this.#left = options.maxVisited;
  }

  /** Whether entries were left out: too many, too deep, or in a folder that could not be opened. */
  get isIncomplete(): boolean {
    return this.#isIncomplete;
  }

  entries(): AsyncGenerator<FolderEntry> {
    return this.#below(this.#start, "", 0);
  }

  async *#below(folder: OpenFolder, prefix: string, depth: number): AsyncGenerator<FolderEntry> {
    for (const { name, kind } of await this.#namesIn(folder)) {
      this.#options.signal.throwIfAborted();
      const entry = { path: prefix + name, name, kind, folder };
      yield entry;
      if (kind !== "folder" || !this.#options.enter(entry)) continue;
      const child =
        depth < DEPTH_LIMIT
          ? await openFolder(join(folder.real, name), entry.path, folder.protectedPaths).catch(() => undefined)
          : undefined;
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

  async #namesIn(folder: OpenFolder): Promise<readonly { name: string; kind: EntryKind }[]> {
    const found: { name: string; kind: EntryKind; key: string }[] = [];
    try {
      for await (const entry of await opendir(folder.at(), { bufferSize: 256 })) {
        this.#options.signal.throwIfAborted();
        if (isTemporaryName(entry.name) || folder.protectedPaths.hides(folder.real, entry.name)) continue;
        if (this.#left-- <= 0) {
          this.#isIncomplete = true;
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

/** A path below `base`, relative to the root. */
export function joinRelative(base: string, path: string): string {
  return base === "." ? path : `${base}/${path}`;
}
