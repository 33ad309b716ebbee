import type { Caller } from "../../core/caller.ts";
import { QmError } from "../../core/errors.ts";
import { canonicalJson, clip } from "../../core/json.ts";
import type { InfospaceOptions } from "../infospace.ts";
import type { Collection, NoteFacts, NoteOrigin } from "../note.ts";
import { toResourceAction } from "../resource-access.ts";
import {
  createCollectionSource,
  createItemSource,
  createNoteSource,
  type DocumentSourceOptions,
  getNoteText,
  listNewest,
  type SearchableStore,
} from "./document-sources.ts";
import type { DocumentSource, IndexLimits } from "./documents.ts";
import type { NoteQuery, NoteSearch, NoteSearchHit, NoteSearchResult } from "./note-search.ts";
import { createNoteVectorIndex, type NoteVectorOptions } from "./note-vectors.ts";
import { splitPassages } from "./passage.ts";
import { createIndexCache, createPassageIndex, type PassageIndex, type RankedNote } from "./passage-index.ts";

export interface NoteSearchOptions {
  readonly store: SearchableStore;
  readonly mayUse: InfospaceOptions["mayUse"];
  /** Whether a caller may know of what came from there. Asked before anything is counted. Absent: yes. */
  readonly allows?: DocumentSourceOptions["allows"];
  /** Told where what is answered came from. */
  readonly onFound?: ((origin: NoteOrigin) => void) | undefined;
  /**
   * Another value whenever `mayUse` may answer differently than it did. Absent: it never does by itself, and what is found
   * is asked about once more all the same.
   */
  readonly rights?: (() => unknown) | undefined;
  /** Absent: search by words alone. */
  readonly meaning?: NoteVectorOptions | undefined;
  readonly limits?: Partial<IndexLimits> | undefined;
}

const LIMITS: IndexLimits = { documents: 200_000, characters: 64_000_000 };
/** No single note may crowd out all others. */
const LARGEST_SHARE = 4;
const NO_EMBEDDER = "no embedder is configured";
const UNMATCHED_SHOWN = 10;
const WORD_SHOWN = 40;

/** What is answered: a note, a collection, or what is found of one. */
interface HitSource {
  readonly note: NoteFacts;
  readonly collection: Collection;
  readonly origin: NoteOrigin;
}

/** What may not be shown after all: it is not there any more, or the caller may not use it any more. */
type MissingReason = "gone" | "revoked";

export function createNoteSearch(parts: NoteSearchOptions): NoteSearch & { close(): Promise<void> } {
  const { store, mayUse, allows, onFound, rights, meaning } = parts;
  const limits = { ...LIMITS, ...parts.limits };
  const sources = { store, mayUse, allows, textLimit: Math.floor(limits.characters / LARGEST_SHARE) };
  const scopes = createIndexCache<PassageIndex>({ characters: 2 * limits.characters });
  const closing = new AbortController();

  const createIndex = (source: () => DocumentSource): PassageIndex =>
    createPassageIndex(source(), limits, meaning && createNoteVectorIndex(meaning));

  function openScope(of: string, caller: Caller, source: (parts: typeof sources, caller: Caller) => DocumentSource) {
    const { turn: _, ...who } = caller;
    return scopes.open(`${of} ${canonicalJson(who)}`, rights?.(), () => createIndex(() => source(sources, caller)));
  }

  const openNotes = (caller: Caller) => openScope("notes", caller, createNoteSource);
  const openCollections = (caller: Caller) => openScope("collections", caller, createCollectionSource);
  const openCollectionItems = ({ id }: Collection) =>
    scopes.open(`collection ${id}`, undefined, () => createIndex(() => createItemSource(sources, { id })));

  function linkSignal(signal: AbortSignal | undefined): AbortSignal {
    return signal === undefined ? closing.signal : AbortSignal.any([closing.signal, signal]);
  }

  /** What is found has to be there still: where it is not, it is looked once more, over what there is now. */
  async function find<Hit extends object>(
    index: PassageIndex,
    { query, type, limit, signal: wish }: NoteQuery,
    /** Given all of them, answers how each is shown; `at` says how many are shown before it. */
    resolving: (
      all: readonly RankedNote[],
    ) => Promise<(ranked: RankedNote, at: number) => Promise<Hit | MissingReason>>,
  ): Promise<NoteSearchResult<Hit>> {
    const signal = linkSignal(wish);
    const wanted = type ?? (meaning === undefined ? "keyword" : "hybrid");
    const off = meaning === undefined && wanted !== "keyword" ? [`Searched by words only: ${NO_EMBEDDER}.`] : [];
    for (let attempt = 1; ; attempt++) {
      signal.throwIfAborted();
      const found = await index.search({ query: toPlainQuery(query), type: wanted, limit: limit + 1, signal });
      const resolve = await resolving(found.ranked);
      const hits: Hit[] = [];
      let missing: MissingReason | undefined;
      for (const ranked of found.ranked) {
        const hit = await resolve(ranked, hits.length);
        if (typeof hit === "string") missing = missing === "revoked" ? missing : hit;
        else hits.push(hit);
      }
      if (missing !== undefined && attempt === 1) {
        await index.renew(missing === "revoked");
        continue;
      }
      const notes = [...off, ...found.notes];
      return {
        hits: reportHits(hits.slice(0, limit)),
        limitReached: hits.length > limit,
        searched: found.searched,
        left: found.left,
        effective: found.effective,
        unmatched: found.unmatched.slice(0, UNMATCHED_SHOWN).map((word) => clip(word, WORD_SHOWN)),
        ...(notes.length === 0 ? {} : { note: notes.join(" ") }),
      };
    }
  }

  function reportHits<Hit extends object>(hits: readonly Hit[]): readonly Hit[] {
    for (const hit of hits as readonly Partial<HitSource>[]) {
      const { origin } = hit.note ?? hit.collection ?? hit;
      if (origin !== undefined) onFound?.(origin);
    }
    return hits;
  }

  async function loadHit(
    { id, score, at }: RankedNote,
    isShown: boolean,
    allows: (note: NoteFacts) => boolean,
  ): Promise<NoteSearchHit | MissingReason> {
    const facts = await store.noteFacts(id);
    if (facts === undefined) return "gone";
    if (!allows(facts)) return "revoked";
    if (!isShown) return { note: facts, score, passage: "" };
    const whole = await store.note(id);
    if (whole === undefined) return "gone";
    const { content, ...note } = whole;
    const passages = [...splitPassages(getNoteText(whole, sources.textLimit).text)];
    return { note, score, passage: passages[at] ?? passages[0] ?? "" };
  }

  /** One more than are wanted tells that there are more. */
  function toResults<Hit extends object>(all: readonly Hit[], limit: number): NoteSearchResult<Hit> {
    const hits = all.slice(0, limit);
    return {
      hits: reportHits(hits),
      limitReached: all.length > limit,
      searched: all.length,
      left: 0,
      effective: "keyword",
      unmatched: [],
    };
  }

  async function readFirstPassage(id: number): Promise<string> {
    const note = await store.note(id);
    if (note === undefined) return "";
    const [first = ""] = splitPassages(getNoteText(note, sources.textLimit).text);
    return first;
  }

  return {
    async notes(caller, query) {
      if (isBlank(query)) {
        const { hits, ...rest } = toResults(await listNewest(sources, "note", caller, query.limit + 1), query.limit);
        const shown = hits.map(async (note) => ({ note, score: 1, passage: await readFirstPassage(note.id) }));
        return { hits: await Promise.all(shown), ...rest };
      }
      const allows = (note: NoteFacts) => mayUse(toResourceAction("note", note), caller) === "allowed";
      return find(
        await openNotes(caller),
        query,
        async () => (ranked, at) => loadHit(ranked, at < query.limit, allows),
      );
    },
    async collections(caller, query) {
      if (isBlank(query)) {
        const all = await listNewest(sources, "collection", caller, query.limit + 1);
        return toResults(
          all.map((collection) => ({ collection, score: 1 })),
          query.limit,
        );
      }
      return find(await openCollections(caller), query, async () => async ({ id, score }) => {
        const collection = await store.collection(id);
        if (collection === undefined) return "gone";
        if (mayUse(toResourceAction("collection", collection), caller) !== "allowed") return "revoked";
        return { collection, score };
      });
    },
    async within(collection, query) {
      if (isBlank(query)) {
        const { id, version } = collection;
        const items = await store.items(id, { version, from: 0, limit: query.limit + 1 });
        const { hits, ...rest } = toResults(items, query.limit);
        const shown: (NoteSearchHit & { readonly position: number })[] = [];
        for (const { id, position } of hits) {
          const note = await store.noteFacts(id);
          if (note !== undefined) shown.push({ note, score: 1, passage: await readFirstPassage(id), position });
        }
        return { hits: shown, ...rest };
      }
      return find(await openCollectionItems(collection), query, async (all) => {
        const ids = all.map(({ id }) => id);
        const positions = await store.positions(collection.id, collection.version, ids);
        return async (ranked, at) => {
          const position = positions.get(ranked.id);
          if (position === undefined) return "gone";
          const found = await loadHit(ranked, at < query.limit, () => true);
          return typeof found === "string" ? found : { ...found, position };
        };
      });
    },
    async index(of, { signal: wish, onProgress }) {
      if (meaning === undefined) {
        throw new QmError("search_off", `no vectors can be made: ${NO_EMBEDDER}`, {
          hint: "Search by words works without. An operator can set search.embedder.",
        });
      }
      const signal = linkSignal(wish);
      if ("count" in of) return (await openCollectionItems(of)).make({ signal, onProgress });
      const made = await (await openNotes(of)).make({ signal, onProgress });
      // So that collections are found by meaning too; they are few.
      await (await openCollections(of)).make({ signal });
      return made;
    },
    async close() {
      closing.abort(new QmError("cancelled", "the search was closed"));
      await Promise.all(scopes.all().map((index) => index.close()));
    },
  };
}

function isBlank({ query }: NoteQuery): boolean {
  return query.trim() === "";
}

// All of them are words that say nothing, but an index of actions takes a question to be for whatever looks things up.
const QUESTION = /^(?:\P{L}*\b(?:what|which|how|who|where|when|is|are|do|does|did|has|have|show|tell|give)\b)+/iu;

/** A query without what an index of actions would take for more than words: questions, and names after `select:`. */
function toPlainQuery(query: string): string {
  const asked = query.trim().replace(/^select:/i, "select ");
  return asked.replace(QUESTION, "").trim() || asked;
}
