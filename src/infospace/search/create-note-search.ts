import type { Caller } from "../../core/caller.ts";
import { QmError } from "../../core/errors.ts";
import { canonicalJson, clip } from "../../core/json.ts";
import { toOwnerScope } from "../create-infospace.ts";
import type { Collection, NoteFacts, NoteOrigin, ResourceKind } from "../note.ts";
import { listFirstUsable, toResourceAction } from "../resource-access.ts";
import type { DocumentSourceOptions } from "./document-sources.ts";
import { createCollectionSource, createItemSource, createNoteSource, getNoteText } from "./document-sources.ts";
import type { DocumentSource, IndexLimits } from "./documents.ts";
import type { ItemSearchHit, NoteQuery, NoteSearch } from "./note-search.ts";
import { createNoteVectorIndex, type NoteVectorOptions } from "./note-vectors.ts";
import { splitPassages } from "./passage.ts";
import { createIndexCache, createPassageIndex, type PassageIndex, type RankedNote } from "./passage-index.ts";

export interface NoteSearchOptions extends Pick<DocumentSourceOptions, "store" | "mayUse" | "allows"> {
  /** Called with the origin of each hit. */
  readonly onFound?: ((origin: NoteOrigin) => void) | undefined;
  /** A value that changes with the answers of `mayUse`. Absent: they never change. Hits are checked again in any case. */
  readonly rights?: (() => unknown) | undefined;
  /** Absent: keyword search only. */
  readonly meaning?: NoteVectorOptions | undefined;
  readonly limits?: Partial<IndexLimits> | undefined;
}

const LIMITS: IndexLimits = { documents: 200_000, characters: 64_000_000 };
/** A single note may fill at most this fraction of an index. */
const LARGEST_SHARE = 4;
const NO_EMBEDDER = "no embedder is configured";
const MAX_UNMATCHED = 10;
const WORD_LIMIT = 40;

/** Why a hit cannot be shown: it was removed, or the caller may no longer use it. */
type MissingReason = "gone" | "revoked";
type LoadHit<Hit> = (each: RankedNote, at: number) => Promise<Hit | MissingReason>;
type PrepareHits<Hit> = (ranked: readonly RankedNote[]) => Promise<LoadHit<Hit>>;

export function createNoteSearch(parts: NoteSearchOptions): NoteSearch & { close(): Promise<void> } {
  const { store, mayUse, allows, onFound, rights, meaning } = parts;
  const limits = { ...LIMITS, ...parts.limits };
  const sources = { store, mayUse, allows, textLimit: Math.floor(limits.characters / LARGEST_SHARE) };
  const indexes = createIndexCache<PassageIndex>(2 * limits.characters);
  const closing = new AbortController();

  function createIndex(source: DocumentSource): PassageIndex {
    return createPassageIndex(source, limits, meaning && createNoteVectorIndex(meaning));
  }

  function openIndex(name: string, caller: Caller, createSource: typeof createNoteSource) {
    const { turn: _, ...owner } = caller;
    const create = () => createIndex(createSource(sources, caller));
    return indexes.open(`${name} ${canonicalJson(owner)}`, rights?.(), create);
  }

  const openNotes = (caller: Caller) => openIndex("notes", caller, createNoteSource);
  const openCollections = (caller: Caller) => openIndex("collections", caller, createCollectionSource);
  const openCollectionItems = ({ id }: Collection) =>
    indexes.open(`collection ${id}`, undefined, () => createIndex(createItemSource(sources, id)));

  function linkSignal(signal: AbortSignal | undefined): AbortSignal {
    return signal === undefined ? closing.signal : AbortSignal.any([closing.signal, signal]);
  }

  /**
   * `prepare` gets all ranked documents and returns a function that loads each hit; `at` is the number of hits before it. If
   * one cannot be loaded, the index is renewed and searched once more.
   */
  async function find<Hit extends object>(index: PassageIndex, request: NoteQuery, prepare: PrepareHits<Hit>) {
    const { query, type, limit } = request;
    const signal = linkSignal(request.signal);
    const wanted = type ?? (meaning === undefined ? "keyword" : "hybrid");
    const remarks = meaning === undefined && wanted !== "keyword" ? [`Searched by words only: ${NO_EMBEDDER}.`] : [];
    for (let attempt = 1; ; attempt++) {
      signal.throwIfAborted();
      const found = await index.search({ query: toPlainQuery(query), type: wanted, limit: limit + 1, signal });
      const load = await prepare(found.ranked);
      const hits: Hit[] = [];
      let missing: MissingReason | undefined;
      for (const each of found.ranked) {
        const hit = await load(each, hits.length);
        if (typeof hit === "string") missing = missing === "revoked" ? missing : hit;
        else hits.push(hit);
      }
      if (missing !== undefined && attempt === 1) {
        await index.renew(missing === "revoked");
        continue;
      }
      const { searched, left, effective } = found;
      const unmatched = found.unmatched.slice(0, MAX_UNMATCHED).map((word) => clip(word, WORD_LIMIT));
      const note = [...remarks, ...found.notes].join(" ");
      const facts = { searched, left, effective, unmatched, ...(note === "" ? {} : { note }) };
      return { hits: reportHits(hits.slice(0, limit)), limitReached: hits.length > limit, ...facts };
    }
  }

  /** Hits are notes, collections or items, or contain one. */
  function reportHits<Hit extends object>(hits: readonly Hit[]): readonly Hit[] {
    type Source = Partial<Pick<NoteFacts, "origin"> & { readonly note: NoteFacts; readonly collection: Collection }>;
    for (const hit of hits as readonly Source[]) {
      const { origin } = hit.note ?? hit.collection ?? hit;
      if (origin !== undefined) onFound?.(origin);
    }
    return hits;
  }

  async function loadHit({ id, score, at }: RankedNote, isShown: boolean, allows: (note: NoteFacts) => boolean) {
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

  function listNewest<Kind extends ResourceKind>(kind: Kind, caller: Caller, limit: number) {
    return listFirstUsable({ store, mayUse }, { kind, whose: toOwnerScope(caller) }, caller, limit + 1);
  }

  /** `all` has one more than `limit` if there are more. */
  function toResult<Hit extends object>(all: readonly Hit[], limit: number) {
    const facts = { searched: all.length, left: 0, effective: "keyword" as const, unmatched: [] };
    return { hits: reportHits(all.slice(0, limit)), limitReached: all.length > limit, ...facts };
  }

  async function readFirstPassage(id: number): Promise<string> {
    const note = await store.note(id);
    if (note === undefined) return "";
    const [first = ""] = splitPassages(getNoteText(note, sources.textLimit).text);
    return first;
  }

  return {
    async notes(caller, query) {
      const { limit } = query;
      if (isBlank(query)) {
        const { hits, ...rest } = toResult(await listNewest("note", caller, limit), limit);
        const shown = hits.map(async (note) => ({ note, score: 1, passage: await readFirstPassage(note.id) }));
        return { hits: await Promise.all(shown), ...rest };
      }
      const allows = (note: NoteFacts) => mayUse(toResourceAction("note", note), caller) === "allowed";
      return find(await openNotes(caller), query, async () => (each, at) => loadHit(each, at < limit, allows));
    },
    async collections(caller, query) {
      if (isBlank(query)) {
        const all = await listNewest("collection", caller, query.limit);
        const hits = all.map((collection) => ({ collection, score: 1 }));
        return toResult(hits, query.limit);
      }
      return find(await openCollections(caller), query, async () => async ({ id, score }) => {
        const collection = await store.collection(id);
        if (collection === undefined) return "gone";
        if (mayUse(toResourceAction("collection", collection), caller) !== "allowed") return "revoked";
        return { collection, score };
      });
    },
    async within(collection, query) {
      const { id, version } = collection;
      if (isBlank(query)) {
        const items = await store.items(id, { version, from: 0, limit: query.limit + 1 });
        const { hits, ...rest } = toResult(items, query.limit);
        const shown: ItemSearchHit[] = [];
        for (const { id, position } of hits) {
          const note = await store.noteFacts(id);
          if (note !== undefined) shown.push({ note, score: 1, passage: await readFirstPassage(id), position });
        }
        return { hits: shown, ...rest };
      }
      return find(await openCollectionItems(collection), query, async (ranked) => {
        const ids = ranked.map((each) => each.id);
        const positions = await store.positions(id, version, ids);
        return async (each, at) => {
          const position = positions.get(each.id);
          if (position === undefined) return "gone";
          const hit = await loadHit(each, at < query.limit, () => true);
          return typeof hit === "string" ? hit : { ...hit, position };
        };
      });
    },
    async index(of, { signal: outer, onProgress }) {
      if (meaning === undefined) {
        const hint = "Search by words works without. An operator can set search.embedder.";
        throw new QmError("search_off", `no vectors can be made: ${NO_EMBEDDER}`, { hint });
      }
      const signal = linkSignal(outer);
      if ("count" in of) return (await openCollectionItems(of)).make({ signal, onProgress });
      const report = await (await openNotes(of)).make({ signal, onProgress });
      // The few collections get vectors too.
      await (await openCollections(of)).make({ signal });
      return report;
    },
    async close() {
      closing.abort(new QmError("cancelled", "the search was closed"));
      await Promise.all(indexes.all().map((index) => index.close()));
    },
  };
}

function isBlank({ query }: NoteQuery): boolean {
  return query.trim() === "";
}

const QUESTION = /^(?:\P{L}*\b(?:what|which|how|who|where|when|is|are|do|does|did|has|have|show|tell|give)\b)+/iu;

/** Removes what the index of actions does not take as words: the beginning of a question, and `select:` before names. */
export function toPlainQuery(query: string): string {
  const plain = query.trim().replace(/^select:/i, "select ");
  return plain.replace(QUESTION, "").trim() || plain;
}
