import { z } from "zod";
import { defineAction } from "../../catalog/define-action.ts";
import type { CallContext } from "../../core/action.ts";
import { clip, type JsonObject } from "../../core/json.ts";
import { formatHandle } from "../note.ts";
import { summarizeResource } from "../preview.ts";
import { INFOSPACE } from "../resource-access.ts";
import { type NoteSearchHit, type NoteSearchResult, noteSearchTypes } from "../search/note-search.ts";
import type { PrimitiveFactory, PrimitiveOptions } from "./derive.ts";
import { createPrimitiveAuthor, resultNameShape } from "./derive.ts";

const QUERY_LIMIT = 10_000;
const NAME_LIMIT = 80;
const MIN_PASSAGE = 80;

const queryFields = {
  query: z
    .string()
    .default("")
    .refine(({ length }) => length <= QUERY_LIMIT, `a query has at most ${QUERY_LIMIT} characters`)
    .describe("Words or a sentence. Empty: the newest."),
  type: z.enum(noteSearchTypes).optional(),
  limit: z.int().min(1).max(20).default(5),
};

const collectFields = {
  collect: z.boolean().default(false).describe("Also make a collection of them."),
  name: resultNameShape,
};

const collectionHandle = z.string().describe("Handle such as collection__7.");

export const searchActions: PrimitiveFactory = (parts) => {
  const { infospace, search } = parts;
  return [
    defineAction(INFOSPACE, {
      entry: "search-notes",
      description: "Find or list notes by what they say. Answers handles, each with the passage that fits best.",
      effect: "read",
      input: z.lazy(() => z.strictObject({ ...queryFields, ...collectFields })),
      examples: [{ args: { query: "overdue invoices" } }],
      async run({ query, type, limit, ...options }, context) {
        const found = await search.notes(context.caller, { query, type, limit, signal: context.signal });
        const answer = await formatNoteHits(parts, query, found, options, context, "search-notes");
        return found.hits.length > 0
          ? answer
          : { ...answer, ...(await suggestCollections(parts, context, found.note)) };
      },
    }),
    defineAction(INFOSPACE, {
      entry: "search-collections",
      description: "Find or list collections, by name, the action they come from and their first items.",
      aliases: ["infospace__list-collections"],
      effect: "read",
      idempotent: true,
      input: z.lazy(() => z.strictObject(queryFields)),
      examples: [{ args: { query: "invoices" } }],
      async run({ query, type, limit }, { caller, signal }) {
        const found = await search.collections(caller, { query, type, limit, signal });
        const hits = found.hits.map(({ collection, score }) => {
          return { ...summarizeResource(collection), from: collection.origin.action, ...formatScore(query, score) };
        });
        return { hits, ...formatSearchFacts(found) };
      },
    }),
    defineAction(INFOSPACE, {
      entry: "search-within-collection",
      description: "Find items of one collection by what they say. Answers handles, positions and passages.",
      effect: "read",
      handleArguments: ["target"],
      input: z.lazy(() => z.strictObject({ target: collectionHandle, ...queryFields, ...collectFields })),
      examples: [{ args: { target: "collection__7", query: "overdue invoices" } }],
      async run({ target, query, type, limit, ...options }, context) {
        const collection = await infospace.collection(target, context.caller);
        const found = await search.within(collection, { query, type, limit, signal: context.signal });
        return formatNoteHits(parts, query, found, options, context, "search-within-collection");
      },
    }),
    defineAction(INFOSPACE, {
      entry: "index",
      description:
        "Prepare a collection, or all your notes, for search by meaning. Search by words needs no preparation.",
      effect: "read",
      idempotent: true,
      timeoutMs: 600_000,
      handleArguments: ["target"],
      input: z.lazy(() => z.strictObject({ target: collectionHandle.optional().describe("Absent: all your notes.") })),
      examples: [{ args: { target: "collection__7" } }],
      async run({ target }, { caller, signal, dialogue }) {
        return search.index(target === undefined ? caller : await infospace.collection(target, caller), {
          signal,
          onProgress: ({ done, total }) => dialogue?.progress({ progress: done, total, message: "passages prepared" }),
        });
      },
    }),
  ];
};

async function formatNoteHits(
  { infospace, previewLimit }: PrimitiveOptions,
  query: string,
  found: NoteSearchResult<NoteSearchHit & { readonly position?: number }>,
  { collect, name }: { readonly collect: boolean; readonly name?: string | undefined },
  context: CallContext,
  entry: string,
): Promise<JsonObject> {
  const room = Math.max(MIN_PASSAGE, Math.floor(previewLimit / Math.max(1, found.hits.length)));
  const hits = found.hits.map(({ note, score, passage, position }) => ({
    handle: formatHandle("note", note.id),
    ...(note.name === undefined ? {} : { name: clip(note.name, NAME_LIMIT) }),
    format: note.format,
    from: note.origin.action,
    ...(position === undefined ? {} : { position }),
    ...formatScore(query, score),
    passage: extractExcerpt(passage, query, room),
  }));
  const answer = { hits, ...formatSearchFacts(found) };
  if (!collect && name === undefined) return answer;
  const members = found.hits.map(({ note: { id } }) => ({ id }));
  const options = { name, signal: context.signal };
  const collected = await infospace.collect(createPrimitiveAuthor(context, entry), members, options);
  return { ...answer, collected: summarizeResource(collected) };
}

function formatSearchFacts({ hits, limitReached, unmatched, note, ...facts }: NoteSearchResult<unknown>) {
  const { searched, left, effective } = facts;
  return {
    ...{ count: hits.length, limit_reached: limitReached, searched, left, effective },
    ...(unmatched.length === 0 ? {} : { unmatched }),
    ...(note === undefined ? {} : { note }),
  };
}

function formatScore(query: string, score: number): JsonObject {
  return query.trim() === "" ? {} : { score: Math.round(score * 1_000) / 1_000 };
}

async function suggestCollections({ search }: PrimitiveOptions, { caller, signal }: CallContext, note?: string) {
  const { hits } = await search.collections(caller, { query: "", limit: 3, signal });
  if (hits.length === 0) return {};
  const handles = hits.map(({ collection }) => formatHandle("collection", collection.id)).join(", ");
  const suggestion = `There are collections, such as ${handles}: infospace__search-collections finds them by name and origin, infospace__filter-structured by field.`;
  return { note: note === undefined ? suggestion : `${note} ${suggestion}` };
}

const ELLIPSIS = "…";
const MAX_WORDS = 32;
const MAX_MATCHES = 500;
/** Characters of context before the first word of the query. */
const LEAD = 40;

/** The part of a passage with the most words of a query, in at most `limit` characters. */
export function extractExcerpt(passage: string, query: string, limit: number): string {
  if (passage.length <= limit) return passage;
  const room = Math.max(1, limit - 2 * ELLIPSIS.length);
  const start = findWordStart(passage, Math.min(findBestStart(passage, query, room), passage.length - room));
  // Without half a surrogate pair at either end.
  const part = passage.slice(start, start + room).replace(/^[\uDC00-\uDFFF]|[\uD800-\uDBFF]$/g, "");
  return `${start > 0 ? ELLIPSIS : ""}${part}${start + part.length < passage.length ? ELLIPSIS : ""}`;
}

function findBestStart(passage: string, query: string, room: number): number {
  const matches = findWordPositions(passage.toLowerCase(), query);
  let best = { start: 0, words: 0 };
  for (const [index, { at }] of matches.entries()) {
    const words = new Set<string>();
    for (let next = index; next < matches.length; next++) {
      const match = matches[next];
      if (match === undefined || match.at + match.word.length > at + room - LEAD) break;
      words.add(match.word);
    }
    if (words.size > best.words) best = { start: Math.max(0, at - LEAD), words: words.size };
  }
  return best.start;
}

function findWordPositions(text: string, query: string): readonly { readonly at: number; readonly word: string }[] {
  const beginning = query.toLowerCase().slice(0, 2_000);
  const words = new Set(beginning.match(/[\p{L}\p{N}\p{M}]{2,}/gu)?.slice(0, MAX_WORDS));
  const found: { at: number; word: string }[] = [];
  for (const word of words) {
    for (let at = text.indexOf(word); at >= 0 && found.length < MAX_MATCHES; at = text.indexOf(word, at + word.length))
      found.push({ at, word });
  }
  return found.sort((a, b) => a.at - b.at);
}

function findWordStart(text: string, at: number): number {
  if (at === 0) return 0;
  const border = text.slice(at, at + LEAD).search(/\s\S/);
  return border < 0 ? at : at + border + 1;
}
