import { Mutex } from "../../core/async.ts";
import { QmError } from "../../core/errors.ts";
import type { Hit, HitOrder } from "../../search/hits.ts";
import { fuseHits } from "../../search/hits.ts";
import { createDocumentIndex, type DocumentSnapshot, type DocumentSource, type IndexLimits } from "./documents.ts";
import type { NoteIndexReport, NoteSearchType } from "./note-search.ts";
import { MAX_VECTORS, type NoteVectorIndex, type VectorBuildOptions } from "./note-vectors.ts";
import { type Passage, TextGone } from "./passage.ts";

/** A note or collection, and the number of its best passage. */
export type RankedNote = Readonly<{ id: number; score: number; at: number }>;
type NoteRanking = ReturnType<typeof toRanking>;
type RankQuery = Readonly<{ query: string; type: NoteSearchType; limit: number; signal: AbortSignal }>;
export type PassageIndex = ReturnType<typeof createPassageIndex>;

/** Lists to be fused need more hits than are shown: a document that is average in both may be the best. */
const MIN_FUSED = 50;
const PASSAGES_EACH = 4;
const ATTEMPTS = 3;

/** Equal scores: newest first. */
const order: HitOrder = (a, b) => b.score - a.score || getId(b) - getId(a) || getPosition(a) - getPosition(b);

/** Keyword and semantic search over the documents of one source, as they are at the time of the search. */
export function createPassageIndex(source: DocumentSource, limits: IndexLimits, meaning: NoteVectorIndex | undefined) {
  const documents = createDocumentIndex(source, limits, meaning !== undefined);
  let characters = 0;
  /** A search uses what the one before it has indexed. */
  const mutex = new Mutex();

  async function refresh(signal: AbortSignal): Promise<DocumentSnapshot> {
    const snapshot = await documents.refresh(signal);
    characters = snapshot.characters;
    return snapshot;
  }

  async function searchByMeaning(request: RankQuery, { passages, view }: DocumentSnapshot, vectors: NoteVectorIndex) {
    const { query, limit, signal } = request;
    const unavailable = await vectors.follow(passages, documents.recall, signal);
    if (unavailable !== undefined) return { unavailable };
    for (let count = limit * PASSAGES_EACH; ; count *= PASSAGES_EACH) {
      const found = await vectors.search(query, view, { limit: count, order, signal });
      if ("unavailable" in found) return found;
      const best = pickBest(found.hits);
      if (best.length >= limit || found.hits.length < count) return { hits: best.slice(0, limit) };
    }
  }

  async function rank(request: RankQuery, snapshot: DocumentSnapshot): Promise<NoteRanking> {
    const { query, type, limit } = request;
    const byWords = (...notes: readonly string[]): NoteRanking => {
      const { hits, unmatched } = searchByWords(query, limit, snapshot);
      return toRanking(snapshot, { effective: "keyword", hits, unmatched, notes });
    };
    if (type === "keyword" || meaning === undefined) return byWords();
    if (snapshot.passages.length === 0) return { ...byWords(), effective: type };
    const count = Math.max(limit, MIN_FUSED);
    const found = await searchByMeaning({ ...request, limit: count }, snapshot, meaning);
    if ("unavailable" in found) return byWords(`Searched by words only: ${found.unavailable}`);
    if (type === "semantic") return toRanking(snapshot, { effective: type, hits: found.hits.slice(0, limit) });
    const { hits, unmatched } = searchByWords(query, count, snapshot);
    // Both lists must name the same passage of a document: the one with the words.
    const shown = new Map([...found.hits, ...hits].map((hit) => [getId(hit), hit.action]));
    const toShown = (hit: Hit) => ({ action: shown.get(getId(hit)) ?? hit.action, score: hit.score });
    const lists = [hits.map(toShown), found.hits.map(toShown)];
    return toRanking(snapshot, { effective: type, hits: fuseHits(lists, { limit, order }), unmatched });
  }

  return {
    search: (query: RankQuery) => mutex.run(async () => rank(query, await refresh(query.signal))),
    /** Makes the missing vectors. Counts documents. */
    async make(options: VectorBuildOptions): Promise<NoteIndexReport> {
      for (let attempt = 1; ; attempt++) {
        const { snapshot, vectors } = await mutex.run(async () => {
          const snapshot = await refresh(options.signal);
          // Started under the mutex, but awaited outside, so that searches need not wait. Wrapped, or it would be awaited.
          return { snapshot, vectors: { done: meaning?.make(snapshot.passages, documents.recall, options) } };
        });
        try {
          await vectors.done;
          const { passages, searched: notes, left } = snapshot;
          const ready = new Set(passages.slice(0, MAX_VECTORS).map(({ id }) => id)).size;
          return { notes, ready, left: left + notes - ready };
        } catch (thrown) {
          if (!(thrown instanceof TextGone)) throw thrown;
          if (attempt === ATTEMPTS) throw new QmError("conflict", "the notes change faster than they can be read");
        }
      }
    },
    /** See `renew` of the document index. */
    renew: (all: boolean) => mutex.run(() => documents.renew(all)),
    characters: () => characters,
    close: async () => meaning?.close(),
  };
}

/** The best passage of each document. Reads more passages until there are enough documents. */
function searchByWords(query: string, limit: number, { words, view }: DocumentSnapshot) {
  for (let count = limit * PASSAGES_EACH; ; count *= PASSAGES_EACH) {
    const { hits, unmatched } = words.search(query, view, { limit: count, order, inNotes: true });
    const best = pickBest(hits);
    if (best.length >= limit || hits.length < count) return { hits: best.slice(0, limit), unmatched };
  }
}

type Texts = readonly string[];
type FoundHits = Readonly<{ effective: NoteSearchType; hits: readonly Hit[]; unmatched?: Texts; notes?: Texts }>;

function toRanking({ searched, left, cut }: DocumentSnapshot, found: FoundHits) {
  const { hits, unmatched = [], notes = [], effective } = found;
  const cutNote = cut === 0 ? [] : [`Of ${cut} very long ones only the first part was searched.`];
  const ranked = hits.map((hit): RankedNote => ({ id: getId(hit), score: hit.score, at: getPosition(hit) }));
  return { ranked, effective, unmatched, notes: [...notes, ...cutNote], searched, left };
}

/** The hits are sorted, so the first of a document is its best. */
function pickBest(hits: readonly Hit[]): readonly Hit[] {
  const best = new Map<number, Hit>();
  for (const hit of hits) if (!best.has(getId(hit))) best.set(getId(hit), hit);
  return [...best.values()];
}

function getId({ action }: Hit): number {
  return (action as Passage).id;
}

function getPosition({ action }: Hit): number {
  return (action as Passage).at;
}

const MAX_INDEXES = 8;

/** The indexes that were used last: a few, within a total of characters. The last one is always kept. */
export function createIndexCache<Index extends Pick<PassageIndex, "renew" | "characters">>(maxCharacters: number) {
  const cache = new Map<string, { readonly index: Index; readonly rights: unknown }>();

  /** Does not close an index, because a search may still use it. */
  function evict(): void {
    let characters = [...cache.values()].reduce((sum, { index }) => sum + index.characters(), 0);
    for (const [key, { index }] of cache) {
      if (cache.size <= 1 || (cache.size <= MAX_INDEXES && characters <= maxCharacters)) return;
      cache.delete(key);
      characters -= index.characters();
    }
  }

  return {
    /** Makes the index if there is none. If `rights` has changed, the index drops all documents. */
    async open(key: string, rights: unknown, create: () => Index): Promise<Index> {
      const known = cache.get(key);
      const index = known?.index ?? create();
      cache.delete(key);
      cache.set(key, { index, rights });
      evict();
      if (known !== undefined && !Object.is(known.rights, rights)) await index.renew(true);
      return index;
    },
    all: () => [...cache.values()].map(({ index }) => index),
  };
}
