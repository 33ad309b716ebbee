import type { Caller } from "../core/caller.ts";
import { QmError } from "../core/errors.ts";
import { quoteName } from "../core/names.ts";
import { toOwnerScope } from "./create-infospace.ts";
import type { InfospaceOptions } from "./infospace.ts";
import type { ResourceQuery } from "./infospace-store.ts";
import type { Collection, NoteFacts, Resource } from "./note.ts";
import { formatHandle, getResourceKind, parseHandle, type ResourceKind } from "./note.ts";
import { listUsable } from "./resource-access.ts";

/** A note or a collection, without content. */
export type NoteEntry = (({ readonly kind: "note" } & NoteFacts) | ({ readonly kind: "collection" } & Collection)) & {
  readonly handle: string;
};

export interface NotesQuery extends Omit<ResourceQuery, "kind" | "whose" | "before" | "limit"> {
  /** Absent: both. */
  readonly kind?: ResourceKind | undefined;
  readonly user?: string | undefined;
  readonly actor?: string | undefined;
}

/** `before`: the `next` of the previous page; `limit`: by default 50. */
export type NotesPageQuery = NotesQuery & Readonly<{ before?: string | undefined; limit?: number | undefined }>;

/** Newest first. `next`: the `before` of the next page. Absent: this is the last. */
export type NotesPage = Readonly<{ items: readonly NoteEntry[]; next?: string }>;
const PAGE = 500;
const MAX_LIMIT = 1_000;

export function createNoteLister({ store, mayUse }: Pick<InfospaceOptions, "store" | "mayUse">) {
  /** All resources of one kind, newest first. */
  async function* every(kind: ResourceKind, query: NotesQuery, caller?: Caller, before?: number, pageSize = PAGE) {
    const { actor, user, ...rest } = query;
    const request = { ...rest, kind, before, whose: caller && toOwnerScope(caller) };
    for await (const each of listUsable({ store, mayUse }, request, caller, pageSize)) {
      const { origin } = each;
      if ((actor ?? origin.actor) === origin.actor && (user ?? origin.user) === origin.user) yield toNoteEntry(each);
    }
  }

  /** Merges notes and collections by age. */
  async function page({ before, limit = 50, ...query }: NotesPageQuery, caller: Caller | undefined) {
    if (!Number.isSafeInteger(limit) || limit < 1 || limit > MAX_LIMIT)
      throw new QmError("invalid_arguments", `limit must be a whole number from 1 to ${MAX_LIMIT}`);
    const last = new Map(parseCursor(before));
    const kinds: readonly ResourceKind[] = query.kind === undefined ? ["note", "collection"] : [query.kind];
    const streams = await Promise.all(
      kinds.map(async (kind) => {
        const rest = every(kind, query, caller, last.get(kind), Math.min(PAGE, limit + 1));
        return { rest, head: (await rest.next()).value as NoteEntry | undefined };
      }),
    );
    const items: NoteEntry[] = [];
    for (;;) {
      const newest = streams.reduce((best, stream) => (isNewer(stream.head, best.head) ? stream : best));
      if (newest.head === undefined) return { items };
      // The last resource of each kind, such as `note__12,collection__7`.
      if (items.length === limit)
        return { items, next: [...last].map(([kind, id]) => formatHandle(kind, id)).join(",") };
      items.push(newest.head);
      last.set(newest.head.kind, newest.head.id);
      newest.head = (await newest.rest.next()).value as NoteEntry | undefined;
    }
  }

  return { every, page };
}

export function toNoteEntry(resource: Resource): NoteEntry {
  const kind = getResourceKind(resource);
  return { kind, handle: formatHandle(kind, resource.id), ...resource } as NoteEntry;
}

function isNewer(one: NoteEntry | undefined, other: NoteEntry | undefined): boolean {
  return one !== undefined && (other === undefined || one.origin.at > other.origin.at);
}

function parseCursor(text: string | undefined): readonly (readonly [ResourceKind, number])[] {
  if (text === undefined) return [];
  return text.split(",").map((part) => {
    const { kind, id } = parseHandle(part) ?? {};
    if (kind !== undefined && id !== undefined) return [kind, id];
    const hint = "Give the `next` of the previous page unchanged.";
    throw new QmError("invalid_arguments", `${quoteName(text)} is not the end of a page`, { hint });
  });
}
