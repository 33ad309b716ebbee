import { Mutex } from "../../core/async.ts";
import { QmError } from "../../core/errors.ts";
import { fuse } from "../../search/fusion.ts";
import type { Hit, HitOrder } from "../../search/hit.ts";
import { type Analysed, createDocuments, type IndexLimits, type Source } from "./documents.ts";
import { type Making, type Meaning, VECTORS } from "./meaning.ts";
import type { Indexed, NoteSearchType } from "./note-search.ts";
import { type Passage, TextGone } from "./passage.ts";

/** The best passage of a note or collection. */
export interface Ranked {
  readonly id: number;
  readonly score: number;
  readonly at: number;
}

export interface Ranking {
  readonly ranked: readonly Ranked[];
  readonly effective: NoteSearchType;
  readonly unmatched: readonly string[];
  readonly notes: readonly string[];
  readonly searched: number;
  readonly left: number;
}

export interface RankedQuery {
  readonly query: string;
  readonly type: NoteSearchType;
  readonly limit: number;
  readonly signal: AbortSignal;
}

/** Documents of one scope, found by words and by meaning. Every search is over what there is when it is asked for. */
export interface PassageIndex {
  search(query: RankedQuery): Promise<Ranking>;
  /** Makes the vectors that are missing. Counts are of documents. */
  make(how: Making): Promise<Indexed>;
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
const order: HitOrder = (a, b) => b.score - a.score || idOf(b) - idOf(a) || atOf(a) - atOf(b);

export function createPassageIndex(source: Source, limits: IndexLimits, meaning: Meaning | undefined): PassageIndex {
  const documents = createDocuments(source, limits, meaning !== undefined);
  let characters = 0;
  /** Each search must find what the one before it has indexed. */
  const mutex = new Mutex();

  async function refreshed(signal: AbortSignal): Promise<Analysed> {
    const there = await documents.refreshed(signal);
    characters = there.characters;
    return there;
  }

  /** What is found by meaning, or why that cannot be said. */
  async function meant({ query, limit, signal }: RankedQuery, { passages, view }: Analysed, by: Meaning) {
    const why = await by.follow(passages, documents.recall, signal);
    if (why !== undefined) return { unavailable: why };
    for (let many = limit * PASSAGES_EACH; ; many *= PASSAGES_EACH) {
      const found = await by.search(query, view, { limit: many, order, signal });
      if ("unavailable" in found) return found;
      const best = bestOf(found.hits);
      if (best.length >= limit || found.hits.length < many) return { hits: best.slice(0, limit) };
    }
  }

  async function ranked(asked: RankedQuery, there: Analysed): Promise<Ranking> {
    const { query, type, limit } = asked;
    const byWords = (...notes: readonly string[]): Ranking => {
      const { hits, unmatched } = worded(query, limit, there);
      return answer(there, { effective: "keyword", hits, unmatched, notes });
    };
    if (type === "keyword" || meaning === undefined) return byWords();
    if (there.passages.length === 0) return { ...byWords(), effective: type };
    const many = Math.max(limit, FUSED_FROM);
    const found = await meant({ ...asked, limit: many }, there, meaning);
    if ("unavailable" in found) return byWords(`Searched by words only: ${found.unavailable}`);
    if (type === "semantic") return answer(there, { effective: type, hits: found.hits.slice(0, limit) });
    const { hits, unmatched } = worded(query, many, there);
    // Two passages of a document speak for the same: the one with the words is shown.
    const shown = new Map([...found.hits, ...hits].map((hit) => [idOf(hit), hit.action]));
    const lists = [hits, found.hits].map((list) =>
      list.map((hit) => ({ action: shown.get(idOf(hit)) ?? hit.action, score: hit.score })),
    );
    return answer(there, { effective: type, hits: fuse(lists, { limit, order }), unmatched });
  }

  return {
    search: (query) => mutex.run(async () => ranked(query, await refreshed(query.signal))),
    async make(how) {
      for (let attempt = 1; ; attempt++) {
        const { there, making } = await mutex.run(async () => {
          const there = await refreshed(how.signal);
          // Begun in turn, and waited for where it keeps no search waiting.
          return { there, making: { end: meaning?.make(there.passages, documents.recall, how) } };
        });
        try {
          await making.end;
          return counted(there);
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
function worded(query: string, limit: number, { words, view }: Analysed) {
  for (let many = limit * PASSAGES_EACH; ; many *= PASSAGES_EACH) {
    const { hits, unmatched } = words.search(query, view, { limit: many, order });
    const best = bestOf(hits);
    if (best.length >= limit || hits.length < many) return { hits: best.slice(0, limit), unmatched };
  }
}

function answer(
  { searched, left, cut }: Analysed,
  found: Pick<Ranking, "effective"> & Partial<Pick<Ranking, "unmatched" | "notes">> & { readonly hits: readonly Hit[] },
): Ranking {
  const { hits, unmatched = [], notes = [], effective } = found;
  const cutNote = cut === 0 ? [] : [`Of ${cut} very long ones only the first part was searched.`];
  return {
    ranked: hits.map((hit) => ({ id: idOf(hit), score: hit.score, at: atOf(hit) })),
    effective,
    unmatched,
    notes: [...notes, ...cutNote],
    searched,
    left,
  };
}

function counted({ passages, searched: notes, left }: Analysed): Indexed {
  const ready = documentsOf(passages.slice(0, VECTORS));
  return { notes, ready, left: left + notes - ready };
}

function documentsOf(passages: readonly Passage[]): number {
  return new Set(passages.map(({ id }) => id)).size;
}

/** They come best first. */
function bestOf(hits: readonly Hit[]): readonly Hit[] {
  const best = new Map<number, Hit>();
  for (const hit of hits) if (!best.has(idOf(hit))) best.set(idOf(hit), hit);
  return [...best.values()];
}

function idOf({ action }: Hit): number {
  return (action as Passage).id;
}

function atOf({ action }: Hit): number {
  return (action as Passage).at;
}
