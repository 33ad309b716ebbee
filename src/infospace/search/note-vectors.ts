import { withTimeout } from "../../core/async.ts";
import { QmError } from "../../core/errors.ts";
import { omitUndefined } from "../../core/json.ts";
import { hashCatalog } from "../../search/semantic/action-text.ts";
import { createSemanticIndex, type SemanticIndexOptions } from "../../search/semantic/semantic-index.ts";
import type { Passage } from "./passage.ts";

/** The embedder and vector store of the catalog, so that equal texts are embedded once. */
export type NoteVectorOptions = Pick<
  SemanticIndexOptions,
  "embedder" | "store" | "locks" | "runtime" | "self" | "queryLimitMs" | "onFailed"
> & {
  /** The action that makes missing vectors. Absent: `infospace__index`. */
  readonly madeBy?: string;
};

type Passages = readonly Passage[];
export type RecallPassages = (passages: Passages) => Promise<void>;
type OnProgress = (step: { done: number; total: number }) => void;
export type VectorBuildOptions = Readonly<{ signal: AbortSignal; onProgress?: OnProgress | undefined }>;
export type NoteVectorIndex = ReturnType<typeof createNoteVectorIndex>;

/** Only this many passages, the newest, have vectors: each takes a few kilobytes of memory. */
export const MAX_VECTORS = 50_000;
/** How many passages a search embeds while its caller waits. */
const MAX_UNASKED = 64;
const FOLLOW_LIMIT_MS = 10_000;

/** Semantic search over passages that change. */
export function createNoteVectorIndex({ embedder, store, madeBy = "infospace__index", ...parts }: NoteVectorOptions) {
  const { fingerprint: model, floor } = embedder;
  // Without `close`, because the embedder is shared.
  const embed = embedder.embed.bind(embedder);
  const shared = omitUndefined({ fingerprint: model, floor, embed }) as SemanticIndexOptions["embedder"];
  const semantic = createSemanticIndex({ ...parts, store, embedder: shared });
  let indexed = new WeakSet<Passage>();
  let making = 0;

  async function findMissing(passages: readonly Passage[]): Promise<readonly Passage[]> {
    const { samples } = hashCatalog(passages);
    const known = await store.known(model, samples.keys());
    return [...samples].filter(([hash]) => !known.has(hash)).map(([, passage]) => passage as Passage);
  }

  async function build(passages: Passages, missing: Passages, recall: RecallPassages, options: VectorBuildOptions) {
    const { signal, onProgress } = options;
    try {
      await recall(missing);
      await semantic.build(passages, omitUndefined({ signal, onProgress: onProgress && scaleProgress(onProgress) }));
      indexed = new WeakSet(passages);
    } finally {
      for (const passage of missing) passage.forget();
    }
  }

  return {
    /** Makes a few missing vectors. Returns why there is no semantic search, or undefined. */
    async follow(all: readonly Passage[], recall: RecallPassages, signal: AbortSignal): Promise<string | undefined> {
      const passages = all.slice(0, MAX_VECTORS);
      // Removed passages need no vectors, and the others have theirs.
      if (passages.every((passage) => indexed.has(passage))) return undefined;
      // `build` would forget texts that the running `make` needs.
      if (making > 0) return "vectors are being made.";
      const late = `the embedder did not answer within ${FOLLOW_LIMIT_MS} ms`;
      const timeoutError = () => new QmError("embedder_failed", late);
      try {
        return await withTimeout({ ms: FOLLOW_LIMIT_MS, timeoutError, signal }, async (inner) => {
          const missing = await findMissing(passages);
          if (missing.length > MAX_UNASKED) return `passages have no vectors. ${madeBy} makes them.`;
          await build(passages, missing, recall, { signal: inner });
          return undefined;
        });
      } catch {
        signal.throwIfAborted();
        return "the vectors could not be made.";
      }
    },
    /** Makes all missing vectors. Rejects as `SemanticIndex.build` does. */
    async make(all: readonly Passage[], recall: RecallPassages, options: VectorBuildOptions): Promise<void> {
      making++;
      try {
        const passages = all.slice(0, MAX_VECTORS);
        await build(passages, await findMissing(passages), recall, options);
      } finally {
        making--;
      }
    },
    search: semantic.search.bind(semantic),
    close: semantic.close.bind(semantic),
  };
}

/** Reports progress from 0, also if some vectors existed: that would reveal which texts others have. */
function scaleProgress(onProgress: OnProgress): OnProgress {
  let before: number | undefined;
  return ({ done, total }) => {
    before ??= done;
    onProgress({ done: before === total ? total : Math.round((total * (done - before)) / (total - before)), total });
  };
}
