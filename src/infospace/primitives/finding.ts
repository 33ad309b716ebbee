import { z } from "zod";
import { defineAction } from "../../catalog/define.ts";
import type { Action, CallContext } from "../../core/action.ts";
import { clip, type JsonObject } from "../../core/json.ts";
import { handleOf } from "../handle.ts";
import type { Collection } from "../note.ts";
import { INFOSPACE } from "../resource.ts";
import { excerpt } from "../search/excerpt.ts";
import { type FoundNote, type NotesFound, noteSearchTypes } from "../search/note-search.ts";
import { shownFacts } from "../shown.ts";
import { makerFor, resultName } from "./deriving.ts";
import type { PrimitiveParts, Primitives } from "./parts.ts";

const USUAL_HITS = 5;
const MOST_HITS = 20;
const QUERY_LIMIT = 10_000;
const NAME_LIMIT = 80;
const SHORTEST_PASSAGE = 80;
const NAMED_COLLECTIONS = 3;
const INDEX_TIMEOUT_MS = 600_000;

const asked = {
  query: z
    .string()
    .default("")
    .refine(({ length }) => length <= QUERY_LIMIT, `a query has at most ${QUERY_LIMIT} characters`)
    .describe("Words or a sentence. Empty: the newest."),
  type: z.enum(noteSearchTypes).optional(),
  limit: z.int().min(1).max(MOST_HITS).default(USUAL_HITS),
};

const collecting = {
  collect: z.boolean().default(false).describe("Also make a collection of them."),
  name: resultName,
};

const collectionHandle = z.string().describe("Handle such as collection__7.");

/** Searching what is kept by what it says. */
export const finding: Primitives = (parts) => [
  searchNotes(parts),
  searchCollections(parts),
  searchWithin(parts),
  indexing(parts),
];

function searchNotes(parts: PrimitiveParts): Action {
  return defineAction(INFOSPACE, {
    entry: "search-notes",
    description: "Find or list notes by what they say. Answers handles, each with the passage that fits best.",
    effect: "read",
    input: z.strictObject({ ...asked, ...collecting }),
    examples: [{ args: { query: "overdue invoices" } }],
    async run({ query, type, limit, ...keep }, context) {
      const found = await parts.search.notes(context.caller, { query, type, limit, signal: context.signal });
      const shown = await shownNotes(parts, query, found, keep, { context, entry: "search-notes" });
      return found.hits.length > 0 ? shown : { ...shown, ...(await elsewhere(parts, context, found)) };
    },
  });
}

function searchWithin(parts: PrimitiveParts): Action {
  return defineAction(INFOSPACE, {
    entry: "search-within-collection",
    description: "Find items of one collection by what they say. Answers handles, positions and passages.",
    effect: "read",
    handleArguments: ["target"],
    input: z.strictObject({ target: collectionHandle, ...asked, ...collecting }),
    examples: [{ args: { target: "collection__7", query: "overdue invoices" } }],
    async run({ target, query, type, limit, ...keep }, context) {
      const collection = await parts.infospace.collection(target, context.caller);
      const found = await parts.search.within(collection, { query, type, limit, signal: context.signal });
      return shownNotes(parts, query, found, keep, { context, entry: "search-within-collection" });
    },
  });
}

function searchCollections({ search }: PrimitiveParts): Action {
  return defineAction(INFOSPACE, {
    entry: "search-collections",
    description: "Find or list collections, by name, the action they come from and their first items.",
    aliases: ["infospace__list-collections"],
    effect: "read",
    idempotent: true,
    input: z.strictObject(asked),
    examples: [{ args: { query: "invoices" } }],
    async run({ query, type, limit }, { caller, signal }) {
      const found = await search.collections(caller, { query, type, limit, signal });
      const hits = found.hits.map(({ collection, score }) => ({
        ...shownFacts(collection),
        from: collection.origin.action,
        ...shownScore(query, score),
      }));
      return { hits, ...shownSearch(found) };
    },
  });
}

function indexing({ infospace, search }: PrimitiveParts): Action {
  return defineAction(INFOSPACE, {
    entry: "index",
    description:
      "Prepare a collection, or all your notes, for search by meaning. Search by words needs no preparation.",
    effect: "read",
    idempotent: true,
    timeoutMs: INDEX_TIMEOUT_MS,
    handleArguments: ["target"],
    input: z.strictObject({ target: collectionHandle.optional().describe("Absent: all your notes.") }),
    examples: [{ args: { target: "collection__7" } }],
    async run({ target }, { caller, signal, dialogue }) {
      const of: Collection | typeof caller = target === undefined ? caller : await infospace.collection(target, caller);
      const onProgress = ({ done, total }: { done: number; total: number }): void =>
        dialogue?.progress({ progress: done, total, message: "passages prepared" });
      return search.index(of, { signal, onProgress });
    },
  });
}

type Shown = FoundNote & { readonly position?: number };

async function shownNotes(
  { infospace, previewLimit }: PrimitiveParts,
  query: string,
  found: NotesFound<Shown>,
  { collect, name }: { readonly collect: boolean; readonly name?: string | undefined },
  { context, entry }: { readonly context: CallContext; readonly entry: string },
): Promise<JsonObject> {
  const room = Math.max(SHORTEST_PASSAGE, Math.floor(previewLimit / Math.max(1, found.hits.length)));
  const hits = found.hits.map(({ note, score, passage, position }) => ({
    handle: handleOf("note", note.id),
    ...(note.name === undefined ? {} : { name: clip(note.name, NAME_LIMIT) }),
    format: note.format,
    from: note.origin.action,
    ...(position === undefined ? {} : { position }),
    ...shownScore(query, score),
    passage: excerpt(passage, query, room),
  }));
  const answer = { hits, ...shownSearch(found) };
  if (!collect && name === undefined) return answer;
  const members = found.hits.map(({ note: { id } }) => ({ id }));
  const { signal } = context;
  const collected = await infospace.collect(makerFor(context, entry), members, { name, signal });
  return { ...answer, collected: shownFacts(collected) };
}

function shownSearch({ hits, limitReached, searched, left, effective, unmatched, note }: NotesFound<unknown>) {
  return {
    count: hits.length,
    limit_reached: limitReached,
    searched,
    left,
    effective,
    ...(unmatched.length === 0 ? {} : { unmatched }),
    ...(note === undefined ? {} : { note }),
  };
}

/** Where nothing was asked for nothing fits better than something else. */
function shownScore(query: string, score: number): JsonObject {
  return query.trim() === "" ? {} : { score: Math.round(score * 1_000) / 1_000 };
}

/** Where no note fits, what is looked for may be in a collection. */
async function elsewhere(
  { search }: PrimitiveParts,
  { caller, signal }: CallContext,
  { note }: NotesFound<unknown>,
): Promise<JsonObject> {
  const { hits } = await search.collections(caller, { query: "", limit: NAMED_COLLECTIONS, signal });
  if (hits.length === 0) return {};
  const named = hits.map(({ collection }) => handleOf("collection", collection.id)).join(", ");
  const told = `There are collections, such as ${named}: infospace__search-collections finds them by name and origin, infospace__filter-structured by field.`;
  return { note: note === undefined ? told : `${note} ${told}` };
}
