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
import { makerFor } from "./deriving.ts";
import type { PrimitiveParts, Primitives } from "./parts.ts";

const USUAL_HITS = 5;
const MOST_HITS = 50;
const QUERY_LIMIT = 10_000;
const NAME_LIMIT = 80;
const SHORTEST_PASSAGE = 80;
const INDEX_TIMEOUT_MS = 600_000;

const asked = {
  query: z.string().max(QUERY_LIMIT).describe("Words or a sentence about what is wanted."),
  type: z
    .enum(noteSearchTypes)
    .optional()
    .describe("By words, by meaning, or by both, which is usual where both can be done."),
  limit: z.int().min(1).max(MOST_HITS).default(USUAL_HITS),
};

const collecting = {
  collect: z.boolean().default(false).describe("Also make a collection of the notes that are found."),
  name: z.string().trim().min(1).max(200).optional().describe("What that collection is called."),
};

const collectionHandle = z.string().min(1).max(64).describe("A handle such as collection__7.");

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
    description: "Find notes by what they say. Answers handles with the passage that fits best.",
    effect: "read",
    input: z.object({ ...asked, ...collecting }),
    async run({ query, type, limit, ...keep }, context) {
      const found = await parts.search.notes(context.caller, { query, type, limit, signal: context.signal });
      return shownNotes(parts, query, found, keep, { context, entry: "search-notes" });
    },
  });
}

function searchWithin(parts: PrimitiveParts): Action {
  return defineAction(INFOSPACE, {
    entry: "search-within-collection",
    description:
      "Find notes of one collection by what they say. Answers handles, positions and the passage that fits best.",
    effect: "read",
    input: z.object({ target: collectionHandle, ...asked, ...collecting }),
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
    description: "Find collections by name, properties, the action they come from and their first notes.",
    effect: "read",
    idempotent: true,
    input: z.object(asked),
    async run({ query, type, limit }, { caller, signal }) {
      const found = await search.collections(caller, { query, type, limit, signal });
      const hits = found.hits.map(({ collection, score }) => ({ ...shownFacts(collection), score: rounded(score) }));
      return { hits, ...shownSearch(found) };
    },
  });
}

function indexing({ infospace, search }: PrimitiveParts): Action {
  return defineAction(INFOSPACE, {
    entry: "index",
    description:
      "Prepare a collection, or all your notes, for search by meaning. Search by words needs no preparation. Few notes need none either.",
    effect: "read",
    idempotent: true,
    timeoutMs: INDEX_TIMEOUT_MS,
    input: z.object({ target: collectionHandle.optional().describe("A collection's handle. Absent: all your notes.") }),
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
    ...(position === undefined ? {} : { position }),
    score: rounded(score),
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

function rounded(score: number): number {
  return Math.round(score * 1_000) / 1_000;
}
