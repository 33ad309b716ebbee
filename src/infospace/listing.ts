import type { Caller } from "../core/caller.ts";
import { QmError } from "../core/errors.ts";
import { quoted } from "../core/names.ts";
import { whoseOf } from "./create-infospace.ts";
import { handleOf, parseHandle, type ResourceKind } from "./handle.ts";
import type { InfospaceParts } from "./infospace.ts";
import type { Collection, NoteFacts } from "./note.ts";
import { usable } from "./usable.ts";

/** A note or a collection, without content. */
export type Kept = (({ readonly kind: "note" } & NoteFacts) | ({ readonly kind: "collection" } & Collection)) & {
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

export interface PageQuery extends NotesQuery {
  /** The `next` of the page before. */
  readonly before?: string | undefined;
  /** 50 when absent. */
  readonly limit?: number | undefined;
}

export interface NotesPage {
  /** What was made last comes first. */
  readonly items: readonly Kept[];
  /** There are more: give it as `before`. */
  readonly next?: string;
}

export interface Listing {
  page(query: PageQuery, caller: Caller | undefined): Promise<NotesPage>;
  /** All of one kind, what was made last first. */
  every(kind: ResourceKind, query: NotesQuery, caller: Caller | undefined): AsyncGenerator<Kept>;
}

const PAGE = 500;
const LIMIT = 50;
const MOST = 1_000;

export function createListing({ store, mayUse }: Pick<InfospaceParts, "store" | "mayUse">): Listing {
  async function* every(
    kind: ResourceKind,
    query: NotesQuery,
    caller: Caller | undefined,
    from?: number,
    portion = PAGE,
  ): AsyncGenerator<Kept> {
    const { actor, user, ...rest } = query;
    const asked = { ...rest, kind, before: from, whose: caller && whoseOf(caller) };
    for await (const each of usable({ store, mayUse }, asked, caller, portion)) {
      const { origin } = each;
      if ((actor ?? origin.actor) === origin.actor && (user ?? origin.user) === origin.user) yield kept(kind, each);
    }
  }

  return {
    every,
    async page({ before, limit = LIMIT, ...query }, caller) {
      if (!Number.isSafeInteger(limit) || limit < 1 || limit > MOST)
        throw new QmError("invalid_arguments", `limit must be a whole number from 1 to ${MOST}`);
      const after = new Map(cursorOf(before));
      const streams = await Promise.all(
        kinds
          .filter((kind) => query.kind === undefined || query.kind === kind)
          .map(async (kind) => {
            const rest = every(kind, query, caller, after.get(kind), Math.min(PAGE, limit + 1));
            return { rest, head: (await rest.next()).value as Kept | undefined };
          }),
      );
      const items: Kept[] = [];
      for (;;) {
        const newest = streams.reduce((best, stream) => (isNewer(stream.head, best.head) ? stream : best));
        if (newest.head === undefined) return { items };
        if (items.length === limit) return { items, next: cursorText(after) };
        items.push(newest.head);
        after.set(newest.head.kind, newest.head.id);
        newest.head = (await newest.rest.next()).value as Kept | undefined;
      }
    },
  };
}

const kinds: readonly ResourceKind[] = ["note", "collection"];

export function kept(kind: ResourceKind, resource: NoteFacts | Collection): Kept {
  return { kind, handle: handleOf(kind, resource.id), ...resource } as Kept;
}

function isNewer(one: Kept | undefined, other: Kept | undefined): boolean {
  return one !== undefined && (other === undefined || one.origin.at > other.origin.at);
}

/** The last of each kind that was shown, as `note__12,collection__7`. */
function cursorText(after: ReadonlyMap<ResourceKind, number>): string {
  return [...after].map(([kind, id]) => handleOf(kind, id)).join(",");
}

function cursorOf(text: string | undefined): readonly (readonly [ResourceKind, number])[] {
  if (text === undefined) return [];
  return text.split(",").map((part) => {
    const { kind, id } = parseHandle(part) ?? {};
    if (kind !== undefined && id !== undefined) return [kind, id];
    throw new QmError("invalid_arguments", `${quoted(text)} is not where a page ends`, {
      hint: "Give the `next` of the page before as it is.",
    });
  });
}
