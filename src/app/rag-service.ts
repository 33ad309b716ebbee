import { getErrorMessage, QmError } from "../core/errors.ts";
import { canonicalJson, type Json } from "../core/json.ts";
import type { TextChecks } from "../core/text-checks.ts";
import { toPlainQuery } from "../infospace/search/create-note-search.ts";
import type { DocumentSource } from "../infospace/search/documents.ts";
import { createNoteVectorIndex } from "../infospace/search/note-vectors.ts";
import { extractNoteText, type NoteDocument } from "../infospace/search/passage.ts";
import { createIndexCache, createPassageIndex, type PassageIndex } from "../infospace/search/passage-index.ts";
import { createRagProviders } from "../providers/rag/rag-provider.ts";
import type { RagStore } from "../providers/rag/rag-store.ts";
import type { ChunkScope, ChunkText, RagSearch, VectorOptions } from "../providers/rag/recall.ts";
import type { RagRights } from "../providers/rag/source-access.ts";
import type { EmbeddingSearchOptions } from "./discovery.ts";
import { createTextChecks, type SecretMasker } from "./text-checks.ts";

const LIMITS = { documents: 200_000, characters: 64_000_000 };
const TEXT_LIMIT = 2_000_000;
const NO_EMBEDDER = "no embedder is configured.";

export interface RagServiceOptions {
  readonly store: RagStore;
  /** Absent: sources are searched by words only. */
  readonly meaning?: EmbeddingSearchOptions | undefined;
  readonly rights: Omit<RagRights, "toText" | keyof TextChecks>;
  readonly mask: SecretMasker;
}

/** Indexes and recalls documents. Searches chunks with the index that notes are searched with. */
export function createRagService({ store, meaning, rights, mask }: RagServiceOptions) {
  const search = createChunkSearch(store, meaning);
  const toText = (value: Json): string => extractNoteText(value, TEXT_LIMIT).text;
  const { providers, live } = createRagProviders({
    store,
    search,
    rights: { ...rights, ...createTextChecks(mask), toText },
  });
  return { providers, live, close: search.close };
}

function createChunkSearch(store: RagStore, meaning: EmbeddingSearchOptions | undefined) {
  const indexes = createIndexCache<PassageIndex>(2 * LIMITS.characters);
  const closing = new AbortController();
  const linkSignal = (signal: AbortSignal) => AbortSignal.any([signal, closing.signal]);
  const createIndex = (source: DocumentSource): PassageIndex =>
    createPassageIndex(
      source,
      LIMITS,
      meaning && createNoteVectorIndex({ ...meaning, madeBy: "rag_operation__index" }),
    );

  /** Callers that may read all documents share an index. */
  function openIndex({ sources, hidden }: ChunkScope): Promise<PassageIndex> {
    const toIds = (list: readonly { readonly id: number }[]) => list.map(({ id }) => id).sort((a, b) => a - b);
    const [ids, without] = [toIds(sources), toIds(hidden)];
    return indexes.open(canonicalJson([ids, without]), undefined, () =>
      createIndex(createChunkSource(store, ids, new Set(without))),
    );
  }

  /** A source without vectors is still found by words. */
  async function makeVectors(index: PassageIndex, { signal, onProgress }: VectorOptions): Promise<string | undefined> {
    try {
      await index.make({ signal: linkSignal(signal), onProgress });
      return undefined;
    } catch (thrown) {
      signal.throwIfAborted();
      if (!(thrown instanceof QmError)) throw thrown;
      return getErrorMessage(thrown);
    }
  }

  const search: RagSearch = {
    async prepare(chunks, options) {
      if (meaning === undefined) return NO_EMBEDDER;
      if (chunks.length === 0) return undefined;
      const index = createIndex(createTextSource(chunks));
      try {
        return await makeVectors(index, options);
      } finally {
        await index.close();
      }
    },
    complete: async (source, options) =>
      meaning === undefined ? NO_EMBEDDER : makeVectors(await openIndex({ sources: [source], hidden: [] }), options),
    async search(scope, { query, type, limit, signal }) {
      const index = await openIndex(scope);
      const wanted = type ?? (meaning === undefined ? "keyword" : "hybrid");
      const request = { query: toPlainQuery(query), type: wanted, limit, signal: linkSignal(signal) };
      const { ranked, effective, unmatched, notes, left } = await index.search(request);
      const remarks = meaning === undefined ? [`Searched by words only: ${NO_EMBEDDER}`] : [];
      return { ranked, effective, unmatched, notes: [...remarks, ...notes], left };
    },
    async forget() {
      await Promise.all(indexes.all().map((index) => index.renew(true)));
    },
  };
  return {
    ...search,
    async close() {
      closing.abort(new QmError("cancelled", "the search was closed"));
      await Promise.all(indexes.all().map((index) => index.close()));
    },
  };
}

/** Each chunk is a document of one passage. Its vector depends on its text and its headings only. */
function createChunkSource(store: RagStore, sources: readonly number[], hidden: ReadonlySet<number>): DocumentSource {
  return {
    kind: "note",
    mark: () => store.mark(sources),
    async marks() {
      const chunks = await store.chunkMarks(sources);
      return new Map(chunks.filter((each) => !hidden.has(each.documentId)).map(({ id, mark }) => [id, mark]));
    },
    read: async (ids) => (await store.chunks(ids)).map(({ id, mark, ...chunk }) => toPassageDocument(id, mark, chunk)),
  };
}

function createTextSource(chunks: readonly ChunkText[]): DocumentSource {
  return {
    kind: "note",
    marks: async () => new Map(chunks.map((_chunk, id) => [id, ""])),
    read: async (ids) => ids.flatMap((id) => chunks.slice(id, id + 1).map((chunk) => toPassageDocument(id, "", chunk))),
  };
}

function toPassageDocument(id: number, hash: string, { heading, text, document }: ChunkText): NoteDocument {
  return { id, hash, name: heading, labels: [], place: document, text, whole: true };
}
