import { Mutex } from "../../core/async.ts";
import { QmError } from "../../core/errors.ts";
import type { Hit, HitOrder } from "../../search/hits.ts";
import { fuseHits } from "../../search/hits.ts";
import { createDocumentIndex, type DocumentSnapshot, type DocumentSource, type IndexLimits } from "./documents.ts";
import type { NoteIndexReport, NoteSearchType } from "./note-search.ts";
import { MAX_VECTORS, type NoteVectorIndex, type VectorBuildOptions } from "./note-vectors.ts";
import { type Passage, TextGone } from "./passage.ts";

/** The best passage of a note or collection. */
export interface RankedNote {
  readonly id: number;
  readonly score: number;
  readonly at: number;
}

interface NoteRanking {
  readonly ranked: readonly RankedNote[];
  readonly effective: NoteSearchType;
  readonly unmatched: readonly string[];
  readonly notes: readonly string[];
  readonly searched: number;
  readonly left: number;
}

interface RankQuery {
  readonly query: string;
  readonly type: NoteSearchType;
  readonly limit: number;
  readonly signal: AbortSignal;
}

/** Documents of one scope, found by words and by meaning. Every search is over what there is when it is asked for. */
export interface PassageIndex {
  search(query: RankQuery): Promise<NoteRanking>;
  /** Makes the vectors that are missing. Counts are of documents. */
  make(how: VectorBuildOptions): Promise<NoteIndexReport>;
  /** What is there may have changed without a mark; with `all`, also who may find it. */
  renew(all: boolean): Promise<void>;
  /** How much text is in it. */
  characters(): number;
  close(): Promise<void>;
}

/** A list to be fused needs more than will be shown: what is middling in both may be best in all. */
const FUSED_FROM = 50;
const PASSAGES_EACH = 4;
const ATTEMPTS = 3;

/** Equal scores: the newest first. */
const order: HitOrder = (a, b) => b.score - a.score || getId(b) - getId(a) || getPosition(a) - getPosition(b);

export function createPassageIndex(
  source: DocumentSource,
  limits: IndexLimits,
  meaning: NoteVectorIndex | undefined,
): PassageIndex {
  const documents = createDocumentIndex(source, limits, meaning !== undefined);
  let characters = 0;
  /** Each search must find what the one before it has indexed. */
  const mutex = new Mutex();

  async function refresh(signal: AbortSignal): Promise<DocumentSnapshot> {
    const there = await documents.refresh(signal);
    characters = there.characters;
    return there;
  }

  /** What is found by meaning, or why that cannot be said. */
  async function searchByMeaning(
    { query, limit, signal }: RankQuery,
    { passages, view }: DocumentSnapshot,
    by: NoteVectorIndex,
  ) {
    const why = await by.follow(passages, documents.recall, signal);
    if (why !== undefined) return { unavailable: why };
    for (let many = limit * PASSAGES_EACH; ; many *= PASSAGES_EACH) {
      const found = await by.search(query, view, { limit: many, order, signal });
      if ("unavailable" in found) return found;
      const best = pickBest(found.hits);
      if (best.length >= limit || found.hits.length < many) return { hits: best.slice(0, limit) };
    }
  }

  async function rank(asked: RankQuery, there: DocumentSnapshot): Promise<NoteRanking> {
    const { query, type, limit } = asked;
    const byWords = (...notes: readonly string[]): NoteRanking => {
      const { hits, unmatched } = searchByWords(query, limit, there);
      return toRanking(there, { effective: "keyword", hits, unmatched, notes });
    };
    if (type === "keyword" || meaning === undefined) return byWords();
    if (there.passages.length === 0) return { ...byWords(), effective: type };
    const many = Math.max(limit, FUSED_FROM);
    const found = await searchByMeaning({ ...asked, limit: many }, there, meaning);
    if ("unavailable" in found) return byWords(`Searched by words only: ${found.unavailable}`);
    if (type === "semantic") return toRanking(there, { effective: type, hits: found.hits.slice(0, limit) });
    const { hits, unmatched } = searchByWords(query, many, there);
    // Two passages of a document speak for the same: the one with the words is shown.
    const shown = new Map([...found.hits, ...hits].map((hit) => [getId(hit), hit.action]));
    const lists = [hits, found.hits].map((list) =>
      list.map((hit) => ({ action: shown.get(getId(hit)) ?? hit.action, score: hit.score })),
    );
    return toRanking(there, { effective: type, hits: fuseHits(lists, { limit, order }), unmatched });
  }

  return {
    search: (query) => mutex.run(async () => rank(query, await refresh(query.signal))),
    async make(how) {
      for (let attempt = 1; ; attempt++) {
        const { there, making } = await mutex.run(async () => {
          const there = await refresh(how.signal);
          // Begun in turn, and waited for where it keeps no search waiting.
          return { there, making: { end: meaning?.make(there.passages, documents.recall, how) } };
        });
        try {
          await making.end;
          return countReady(there);
        } catch (thrown) {
          if (!(thrown instanceof TextGone)) throw thrown;
          if (attempt === ATTEMPTS) throw new QmError("conflict", "the notes change faster than they can be read");
        }
      }
    },
    renew: (all) => mutex.run(async () => documents.renew(all)),
    characters: () => characters,
    close: async () => meaning?.close(),
  };
}

/** The best passage of each document, of at least so many documents where there are. */
function searchByWords(query: string, limit: number, { words, view }: DocumentSnapshot) {
  for (let many = limit * PASSAGES_EACH; ; many *= PASSAGES_EACH) {
    const { hits, unmatched } = words.search(query, view, { limit: many, order });
    const best = pickBest(hits);
    if (best.length >= limit || hits.length < many) return { hits: best.slice(0, limit), unmatched };
  }
}

function toRanking(
  { searched, left, cut }: DocumentSnapshot,
  found: Pick<NoteRanking, "effective"> &
    Partial<Pick<NoteRanking, "unmatched" | "notes">> & { readonly hits: readonly Hit[] },
): NoteRanking {
  const { hits, unmatched = [], notes = [], effective } = found;
  const cutNote = cut === 0 ? [] : [`Of ${cut} very long ones only the first part was searched.`];
  return {
    ranked: hits.map((hit) => ({ id: getId(hit), score: hit.score, at: getPosition(hit) })),
    effective,
    unmatched,
    notes: [...notes, ...cutNote],
    searched,
    left,
  };
}

function countReady({ passages, searched: notes, left }: DocumentSnapshot): NoteIndexReport {
  const ready = countDocuments(passages.slice(0, MAX_VECTORS));
  return { notes, ready, left: left + notes - ready };
}

function countDocuments(passages: readonly Passage[]): number {
  return new Set(passages.map(({ id }) => id)).size;
}

/** They come best first. */
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

/** The indexes that were used last. */
interface IndexCache<Index> {
  /** That of a key, made where it is not there; where `rights` is another value than before, nothing of it is taken over. */
  open(key: string, rights: unknown, make: () => Index): Promise<Index>;
  all(): readonly Index[];
}

const KEPT = 8;

/** A few, and so that together they hold no more than so much text, but for the one that is wanted. */
export function createIndexCache<Index extends Pick<PassageIndex, "renew" | "characters">>(limits: {
  readonly characters: number;
}): IndexCache<Index> {
  const kept = new Map<string, { readonly index: Index; readonly rights: unknown }>();

  /** Not closed: whoever is at it gets to the end. */
  function evict(): void {
    let characters = [...kept.values()].reduce((sum, { index }) => sum + index.characters(), 0);
    for (const [key, { index }] of kept) {
      if (kept.size <= 1 || (kept.size <= KEPT && characters <= limits.characters)) return;
      kept.delete(key);
      characters -= index.characters();
    }
  }

  return {
    async open(key, rights, make) {
      const known = kept.get(key);
      const index = known?.index ?? make();
      kept.delete(key);
      kept.set(key, { index, rights });
      evict();
      if (known !== undefined && !Object.is(known.rights, rights)) await index.renew(true);
      return index;
    },
    all: () => [...kept.values()].map(({ index }) => index),
  };
}
