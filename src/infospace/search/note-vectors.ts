import { withTimeout } from "../../core/async.ts";
import { QmError } from "../../core/errors.ts";
import type { Hit, HitOrder, Searchable } from "../../search/hits.ts";
import { hashCatalog } from "../../search/semantic/action-text.ts";
import {
  createSemanticIndex,
  type SemanticIndex,
  type SemanticIndexOptions,
} from "../../search/semantic/semantic-index.ts";
import type { Passage } from "./passage.ts";

/** What vectors are made with and kept in: the same as the catalog's, so that the same text is embedded once. */
export type NoteVectorOptions = Pick<
  SemanticIndexOptions,
  "embedder" | "store" | "locks" | "runtime" | "self" | "queryLimitMs" | "onFailed"
>;

/** Has passages whose text is wanted remember it. */
export type RecallPassages = (passages: readonly Passage[]) => Promise<void>;

export interface VectorBuildOptions {
  readonly signal: AbortSignal;
  readonly onProgress?: ((step: { done: number; total: number }) => void) | undefined;
}

/** Search by meaning over passages that change. */
export interface NoteVectorIndex {
  /** Makes the few vectors that may be missing. Answers why there is no searching by meaning; undefined: there is. */
  follow(passages: readonly Passage[], recall: RecallPassages, signal: AbortSignal): Promise<string | undefined>;
  /** Makes all that are missing. Rejects as `SemanticIndex.build` does. */
  make(passages: readonly Passage[], recall: RecallPassages, how: VectorBuildOptions): Promise<void>;
  search(
    query: string,
    view: Searchable,
    how: { readonly limit: number; readonly order: HitOrder; readonly signal: AbortSignal },
  ): Promise<{ readonly hits: readonly Hit[] } | { readonly unavailable: string }>;
  close(): Promise<void>;
}

/** The most passages that have vectors, the newest of them: each is a few kilobytes of memory. */
export const MAX_VECTORS = 50_000;
/** So many are embedded unasked, while somebody waits for an answer. */
export const MAX_UNASKED = 64;
const FOLLOW_LIMIT_MS = 10_000;

const UNMADE = "the vectors could not be made.";
const UNPREPARED = "passages have no vectors. infospace__index makes them.";
const BUSY = "vectors are being made.";

export function createNoteVectorIndex({ embedder, store, ...parts }: NoteVectorOptions): NoteVectorIndex {
  const { fingerprint: model, floor } = embedder;
  // Without its end: it is everybody's.
  const shared = {
    fingerprint: model,
    ...(floor === undefined ? {} : { floor }),
    embed: embedder.embed.bind(embedder),
  } satisfies SemanticIndexOptions["embedder"];
  const semantic: SemanticIndex = createSemanticIndex({ ...parts, store, embedder: shared });
  let answering = new WeakSet<Passage>();
  let making = 0;

  /** Of several with the same text, the one whose text is embedded for all. */
  async function findMissing(passages: readonly Passage[]): Promise<readonly Passage[]> {
    const { samples } = hashCatalog(passages);
    const known = await store.known(model, samples.keys());
    return [...samples].filter(([hash]) => !known.has(hash)).map(([, passage]) => passage as Passage);
  }

  async function build(
    passages: readonly Passage[],
    missing: readonly Passage[],
    recall: RecallPassages,
    { signal, onProgress }: VectorBuildOptions,
  ): Promise<void> {
    try {
      await recall(missing);
      const progress = onProgress === undefined ? {} : { onProgress: scaleProgress(onProgress) };
      await semantic.build(passages, { signal, ...progress });
      answering = new WeakSet(passages);
    } finally {
      for (const passage of missing) passage.forget();
    }
  }

  return {
    async follow(all, recall, signal) {
      const passages = all.slice(0, MAX_VECTORS);
      // What is gone needs no vectors, and what is left has its own.
      if (passages.every((passage) => answering.has(passage))) return undefined;
      // Whoever makes them needs the texts that would be forgotten here.
      if (making > 0) return BUSY;
      const late = () => new QmError("embedder_failed", `the embedder did not answer within ${FOLLOW_LIMIT_MS} ms`);
      try {
        return await withTimeout({ ms: FOLLOW_LIMIT_MS, timeoutError: late, signal }, async (inner) => {
          const missing = await findMissing(passages);
          if (missing.length > MAX_UNASKED) return UNPREPARED;
          await build(passages, missing, recall, { signal: inner });
          return undefined;
        });
      } catch {
        signal.throwIfAborted();
        return UNMADE;
      }
    },
    async make(all, recall, how) {
      making++;
      try {
        const passages = all.slice(0, MAX_VECTORS);
        await build(passages, await findMissing(passages), recall, how);
      } finally {
        making--;
      }
    },
    search: (query, view, how) => semantic.search(query, view, how),
    close: () => semantic.close(),
  };
}

/** From none to all, also where some were there before: which texts others have is not to be told. */
function scaleProgress(
  onProgress: NonNullable<VectorBuildOptions["onProgress"]>,
): NonNullable<VectorBuildOptions["onProgress"]> {
  let before: number | undefined;
  return ({ done, total }) => {
    before ??= done;
    onProgress({ done: before === total ? total : Math.round((total * (done - before)) / (total - before)), total });
  };
}
