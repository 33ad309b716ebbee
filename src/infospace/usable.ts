import type { Caller } from "../core/caller.ts";
import type { InfospaceParts } from "./infospace.ts";
import type { InfospaceStore, ResourceQuery } from "./infospace-store.ts";
import type { Collection, NoteFacts } from "./note.ts";
import { resourceAction } from "./resource.ts";

type UsableParts = Pick<InfospaceParts, "mayUse"> & { readonly store: Pick<InfospaceStore, "list"> };
type UsableQuery = Omit<ResourceQuery, "limit">;

const PAGE = 100;

/**
 * What the caller may use, the newest first. Reads on past what the caller may not use: how many of those there are must not
 * change what is found.
 */
export function usable(
  parts: UsableParts,
  query: UsableQuery & { readonly kind: "note" },
  caller: Caller | undefined,
  page?: number,
): AsyncGenerator<NoteFacts>;
export function usable(
  parts: UsableParts,
  query: UsableQuery & { readonly kind: "collection" },
  caller: Caller | undefined,
  page?: number,
): AsyncGenerator<Collection>;
export function usable(
  parts: UsableParts,
  query: UsableQuery,
  caller: Caller | undefined,
  page?: number,
): AsyncGenerator<NoteFacts | Collection>;
export async function* usable(
  { store, mayUse }: UsableParts,
  query: UsableQuery,
  caller: Caller | undefined,
  page = PAGE,
): AsyncGenerator<NoteFacts | Collection> {
  const { kind } = query;
  for (let { before } = query; ; ) {
    const asked = { ...query, before, limit: page };
    const found = await (kind === "note"
      ? store.list({ ...asked, kind: "note" })
      : store.list({ ...asked, kind: "collection" }));
    yield* found.filter((each) => caller === undefined || mayUse(resourceAction(kind, each), caller) === "allowed");
    before = found.at(-1)?.id;
    if (found.length < page) return;
  }
}
