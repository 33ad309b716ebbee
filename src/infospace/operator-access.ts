import type { Caller } from "../core/caller.ts";
import { SYSTEM_SESSION, type UnstampedEvent } from "../core/events.ts";
import { createInfospace } from "./create-infospace.ts";
import type { Infospace, InfospaceOptions } from "./infospace.ts";
import type { InfospaceStore, ResourceQuery } from "./infospace-store.ts";
import { createNoteSearch, type NoteSearchOptions } from "./search/create-note-search.ts";
import type { SearchableStore } from "./search/document-sources.ts";
import type { NoteSearch } from "./search/note-search.ts";

/** The infospace without access control, for operators. */
export type OperatorAccess = Readonly<{ infospace: Infospace; search: NoteSearch & { close(): Promise<void> } }>;

interface OperatorAccessOptions extends Pick<InfospaceOptions, "store" | "runtime" | "expiresInMs"> {
  readonly meaning?: NoteSearchOptions["meaning"];
  readonly note: (event: UnstampedEvent) => void;
}

/** The caller to pass to an operator's infospace. */
export const operatorCaller: Caller = { actor: "operator", session: SYSTEM_SESSION };

export function createOperatorAccess({ store, meaning, note, ...parts }: OperatorAccessOptions): OperatorAccess {
  const mayUse = () => "allowed" as const;
  return {
    infospace: createInfospace({ ...parts, store, mayUse, note: (_caller, event) => note(event) }),
    search: createNoteSearch({ store: createUnscopedStore(store), mayUse, meaning }),
  };
}

const PAGE = 1_000;

/** Ignores the scope of queries, so that they return the resources of all owners. */
function createUnscopedStore(store: InfospaceStore): SearchableStore {
  let mark = 0;
  async function listContents(): Promise<ReadonlyMap<number, string>> {
    const found = new Map<number, string>();
    for (let before: number | undefined; ; ) {
      const page = await store.list({ kind: "note", parts: true, before, limit: PAGE });
      for (const { id, hash, name, properties } of page) found.set(id, JSON.stringify([hash, name, properties]));
      before = page.at(-1)?.id;
      if (page.length < PAGE) return found;
    }
  }
  const list = (({ whose: _, ...query }: ResourceQuery & { readonly kind: "note" }) =>
    store.list(query)) as InfospaceStore["list"];
  return {
    ...store,
    list,
    count: (query) => store.count({ ...query, whose: undefined }),
    // The store has no mark across owners, so each search reads the contents again.
    mark: async () => String(++mark),
    contents: (of) => ("collection" in of ? store.contents(of) : listContents()),
  };
}
