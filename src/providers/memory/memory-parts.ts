import type { Action } from "../../core/action.ts";
import type { Caller } from "../../core/caller.ts";
import type { MemoryScope } from "./memory-entry.ts";
import type { MemoryStore } from "./memory-store.ts";

export interface MemorySearchQuery {
  readonly query: string;
  readonly limit: number;
  readonly signal: AbortSignal;
}

/** The ids of the versions that were found, the best first, and a remark on how. */
export interface MemorySearchResult {
  readonly ids: readonly number[];
  readonly note?: string;
}

/** Everything that the actions on memory need from outside. */
export interface MemoryParts {
  readonly store: MemoryStore;
  readonly now: () => Date;
  /** The policy's decision on an entry, besides that on the operation. */
  access(entry: Action, caller: Caller): "allowed" | "hidden" | { readonly refused: string };
  /** Searches the current entries of these scopes. */
  search(scopes: readonly MemoryScope[], query: MemorySearchQuery): Promise<MemorySearchResult>;
  /** The signs that a text misleads models. */
  scan(texts: { readonly name: string; readonly description: string }): readonly string[];
  /** Whether one of the texts holds a secret that the configuration knows. */
  holdsSecret(texts: readonly string[]): boolean;
}
