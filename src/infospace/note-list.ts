import type { Caller } from "../core/caller.ts";
import { QmError } from "../core/errors.ts";
import { quoteName } from "../core/names.ts";
import { toOwnerScope } from "./create-infospace.ts";
import type { InfospaceOptions } from "./infospace.ts";
import type { Collection, NoteFacts } from "./note.ts";
import { formatHandle, parseHandle, type ResourceKind } from "./note.ts";
import { listUsable } from "./resource-access.ts";

/** A note or a collection, without content. */
export type NoteEntry = (({ readonly kind: "note" } & NoteFacts) | ({ readonly kind: "collection" } & Collection)) & {
  readonly handle: string;
};

/** Which notes and collections. Everything that is given must fit. */
export interface NotesQuery {
  /** Absent: both. */
  readonly kind?: ResourceKind | undefined;
  readonly name?: string | undefined;
  readonly tenant?: string | undefined;
  readonly user?: string | undefined;
  readonly actor?: string | undefined;
  readonly session?: string | undefined;
  /** The action whose call made it. */
  readonly action?: string | undefined;
  readonly callId?: string | undefined;
  /** `true`: only what was saved; `false`: only what was not. */
  readonly saved?: boolean | undefined;
  /** Also the notes that were made for a collection. */
  readonly parts?: boolean | undefined;
}

export interface NotesPageQuery extends NotesQuery {
  /** The `next` of the page before. */
  readonly before?: string | undefined;
  /** 50 when absent. */
  readonly limit?: number | undefined;
}

export interface NotesPage {
  /** What was made last comes first. */
  readonly items: readonly NoteEntry[];
  /** There are more: give it as `before`. */
  readonly next?: string;
}

export interface NoteLister {
  page(query: NotesPageQuery, caller: Caller | undefined): Promise<NotesPage>;
  /** All of one kind, what was made last first. */
  every(kind: ResourceKind, query: NotesQuery, caller: Caller | undefined): AsyncGenerator<NoteEntry>;
}

const PAGE = 500;
const LIMIT = 50;
const MAX_LIMIT = 1_000;

export function createNoteLister({ store, mayUse }: Pick<InfospaceOptions, "store" | "mayUse">): NoteLister {
  async function* every(
    kind: ResourceKind,
    query: NotesQuery,
    caller: Caller | undefined,
    from?: number,
    portion = PAGE,
  ): AsyncGenerator<NoteEntry> {
    const { actor, user, ...rest } = query;
    const asked = { ...rest, kind, before: from, whose: caller && toOwnerScope(caller) };
    for await (const each of listUsable({ store, mayUse }, asked, caller, portion)) {
      const { origin } = each;
      if ((actor ?? origin.actor) === origin.actor && (user ?? origin.user) === origin.user)
        yield toNoteEntry(kind, each);
    }
  }

  return {
    every,
    async page({ before, limit = LIMIT, ...query }, caller) {
      if (!Number.isSafeInteger(limit) || limit < 1 || limit > MAX_LIMIT)
        throw new QmError("invalid_arguments", `limit must be a whole number from 1 to ${MAX_LIMIT}`);
      const after = new Map(parseCursor(before));
      const streams = await Promise.all(
        resourceKinds
          .filter((kind) => query.kind === undefined || query.kind === kind)
          .map(async (kind) => {
            const rest = every(kind, query, caller, after.get(kind), Math.min(PAGE, limit + 1));
            return { rest, head: (await rest.next()).value as NoteEntry | undefined };
          }),
      );
      const items: NoteEntry[] = [];
      for (;;) {
        const newest = streams.reduce((best, stream) => (isNewer(stream.head, best.head) ? stream : best));
        if (newest.head === undefined) return { items };
        if (items.length === limit) return { items, next: formatCursor(after) };
        items.push(newest.head);
        after.set(newest.head.kind, newest.head.id);
        newest.head = (await newest.rest.next()).value as NoteEntry | undefined;
      }
    },
  };
}

const resourceKinds: readonly ResourceKind[] = ["note", "collection"];

export function toNoteEntry(kind: ResourceKind, resource: NoteFacts | Collection): NoteEntry {
  return { kind, handle: formatHandle(kind, resource.id), ...resource } as NoteEntry;
}

function isNewer(one: NoteEntry | undefined, other: NoteEntry | undefined): boolean {
  return one !== undefined && (other === undefined || one.origin.at > other.origin.at);
}

/** The last of each kind that was shown, as `note__12,collection__7`. */
function formatCursor(after: ReadonlyMap<ResourceKind, number>): string {
  return [...after].map(([kind, id]) => formatHandle(kind, id)).join(",");
}

function parseCursor(text: string | undefined): readonly (readonly [ResourceKind, number])[] {
  if (text === undefined) return [];
  return text.split(",").map((part) => {
    const { kind, id } = parseHandle(part) ?? {};
    if (kind !== undefined && id !== undefined) return [kind, id];
    throw new QmError("invalid_arguments", `${quoteName(text)} is not where a page ends`, {
      hint: "Give the `next` of the page before as it is.",
    });
  });
}
