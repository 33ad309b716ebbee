import type { MemoryFacts, MemoryScope, MemoryVersion } from "./memory-entry.ts";
import type { MemoryText } from "./memory-text.ts";

export type MemoryChange = "created" | "replaced" | "unchanged";
/** The actor and user that change an entry, and the time. */
export type MemoryAuthor = { readonly actor: string; readonly user?: string | undefined; readonly at: Date };

/** Entries with their earlier versions. Several processes may use it at once. */
export interface MemoryStore {
  /** Ends the current version and adds a new one. Rejects with `quota_exceeded` if the layer is full. */
  put(
    scope: MemoryScope,
    text: MemoryText,
    author: MemoryAuthor,
  ): Promise<{ readonly version: number; readonly change: MemoryChange }>;
  /** Ends the current version. Returns whether there was one. */
  forget(scope: MemoryScope, slug: string, author: MemoryAuthor): Promise<boolean>;
  get(scope: MemoryScope, slug: string): Promise<MemoryVersion | undefined>;
  /** The current entries of a layer, the last changed first. */
  list(scope: MemoryScope): Promise<readonly MemoryFacts[]>;
  /** The versions of an entry, also of a forgotten one, the newest first. */
  history(
    scope: MemoryScope,
    slug: string,
    page: { readonly offset: number; readonly limit: number },
  ): Promise<{ readonly versions: readonly MemoryVersion[]; readonly total: number }>;
  getVersion(scope: MemoryScope, slug: string, version: number): Promise<MemoryVersion | undefined>;
  /** Current versions by their ids. */
  read(ids: readonly number[]): Promise<readonly MemoryVersion[]>;
  /** Removes versions that ended before this time. */
  prune(before: Date): Promise<void>;
}
