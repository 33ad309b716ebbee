import { setTimeout as pause } from "node:timers/promises";
import type { Action } from "../../core/action.ts";
import { withTimeout } from "../../core/async.ts";
import { QmError } from "../../core/errors.ts";
import { Lease, type LeaseHolder, LeaseRenewal } from "../../core/lease.ts";
import type { ProcessInfo, Runtime } from "../../core/runtime.ts";
import { type Embedder, toUnitVectors } from "../embedders/embedder.ts";
import { type CatalogContents, toEmbeddedText } from "./action-text.ts";
import {
  readVectorSet,
  USE_RECORD_INTERVAL_MS,
  type VectorSet,
  type VectorSetKey,
  type VectorStore,
} from "./vector-set.ts";

export interface LockStore {
  /** Takes a free lock, or one whose holder `isOver`. Returns whether it did. */
  take(name: string, holder: LeaseHolder, isOver: (other: LeaseHolder) => boolean): Promise<boolean>;
  /** Returns false if the holder has lost the lock. */
  renew(name: string, holder: LeaseHolder): Promise<boolean>;
  release(name: string, id: string): Promise<void>;
}

interface BuildLock<T> extends Pick<BuildContext, "locks" | "runtime" | "self"> {
  readonly name: string;
  readonly signal: AbortSignal;
  readonly done: () => Promise<T | undefined>;
}

const LEASE_MS = 15_000;
const POLL_MS = 200;

/** Runs the work under a lock, or returns `done` of another process. Its signal aborts when the lease is lost. */
export async function withBuildLock<T>(lock: BuildLock<T>, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const { locks, name, runtime, self, signal, done } = lock;
  const own = new Lease({ runtime, self, durationMs: LEASE_MS });
  for (;;) {
    signal.throwIfAborted();
    if (await locks.take(name, own.holder(), (other) => own.hasEnded(other))) {
      const lost = new AbortController();
      const renewal = new LeaseRenewal(LEASE_MS / 3, async () => {
        if (!(await locks.renew(name, own.holder()))) lost.abort(new Error("the lock was taken over"));
      });
      renewal.add(name);
      try {
        return await work(AbortSignal.any([signal, lost.signal]));
      } catch (thrown) {
        if (!lost.signal.aborted) throw thrown;
      } finally {
        renewal.close();
        // A lock that cannot be released ends with its lease.
        await locks.release(name, own.id).catch(() => {});
      }
    }
    const result = await done();
    if (result !== undefined) return result;
    await pause(POLL_MS, undefined, { signal }).catch(() => {});
  }
}

export interface BuildContext {
  readonly embedder: Embedder;
  readonly store: VectorStore;
  readonly locks: LockStore;
  readonly runtime: Runtime;
  readonly self: ProcessInfo;
}

export type BuildProgress = { readonly done: number; readonly total: number };

interface BuildRun {
  /** Whether to build even if all vectors exist. */
  readonly force: boolean;
  /** Whether to embed existing texts again. */
  readonly anew: boolean;
  readonly signal: AbortSignal;
  readonly onProgress: (progress: BuildProgress) => void;
  /** Asked before each batch. `true` ends the build; the vectors made so far are kept. */
  readonly isOutdated: () => boolean;
}

type BuildResult = { readonly set: VectorSet; readonly embedded: readonly string[] } | "outdated";

const BATCH = 32;
/** Longer than any embedder retries. */
const BATCH_LIMIT_MS = 600_000;
const UNUSED_FOR_MS = 30 * 24 * 60 * 60 * 1000;

/** Reads the vectors of the catalog if they are complete. Records once a day that they are used. */
export async function findVectors({ embedder, store, runtime }: BuildContext, contents: CatalogContents) {
  const key = { catalog: contents.fingerprint, model: embedder.fingerprint };
  const used = await store.lastUse(key);
  if (used === undefined) return undefined;
  const set = await readVectorSet(store, key.model, contents);
  const isRecorded = runtime.now().getTime() - used.getTime() <= USE_RECORD_INTERVAL_MS;
  if (set !== undefined && !isRecorded) await recordVectorUse(store, key, set);
  return set;
}

/** Keeps used vectors from being pruned. */
export async function recordVectorUse(store: VectorStore, key: VectorSetKey, { contents }: VectorSet): Promise<void> {
  // The rows first: a set must not be newer than its rows.
  await store.touch(key.model, contents.samples.keys());
  await store.complete(key);
}

/** One process builds for a model at a time. Each batch is stored at once, so a crash loses little. */
export async function buildVectors(building: BuildContext, contents: CatalogContents, run: BuildRun) {
  const { embedder, locks, runtime, self } = building;
  const findFinished = async (): Promise<BuildResult | undefined> => {
    if (run.isOutdated()) return "outdated";
    const set = run.force ? undefined : await findVectors(building, contents);
    return set && { set, embedded: [] };
  };
  const name = `embeddings ${embedder.fingerprint}`;
  const lock = { locks, name, runtime, self, signal: run.signal, done: findFinished };
  // Another process may have finished just before the lock was free.
  return withBuildLock(
    lock,
    async (signal) => (await findFinished()) ?? completeSet(building, contents, { ...run, signal }),
  );
}

async function completeSet(building: BuildContext, contents: CatalogContents, run: BuildRun): Promise<BuildResult> {
  const { embedder, store, runtime } = building;
  const model = embedder.fingerprint;
  const made = await embedMissing(building, contents, run);
  if (made === undefined) return "outdated";
  const set = await readVectorSet(store, model, contents);
  if (set !== undefined) {
    await store.complete({ catalog: contents.fingerprint, model });
    await store.prune(new Date(runtime.now().getTime() - UNUSED_FOR_MS));
    return { set, embedded: [...contents.hashes].filter(([, hash]) => made.has(hash)).map(([name]) => name) };
  }
  // The lengths differ: the new vectors of the model do not fit the stored ones.
  if (!run.anew) return completeSet(building, contents, { ...run, anew: true });
  throw new QmError("embedder_failed", "the new vectors are missing, or their lengths differ", {
    hint: "Another process may have cleared them. Build again.",
  });
}

/** Returns the hashes of the embedded texts, or undefined if the build became outdated. */
async function embedMissing({ embedder, store }: BuildContext, contents: CatalogContents, run: BuildRun) {
  const model = embedder.fingerprint;
  // Touch first, so that another process does not prune the known vectors during the build.
  await store.touch(model, contents.samples.keys());
  const known = await store.known(model, contents.samples.keys());
  const missing = [...contents.samples].filter(([hash]) => run.anew || !known.has(hash));
  const total = contents.samples.size;
  const made = new Set<string>();
  const progress = (): void => run.onProgress({ done: total - missing.length + made.size, total });
  progress();
  for (let from = 0; from < missing.length; from += BATCH) {
    run.signal.throwIfAborted();
    if (run.isOutdated()) return undefined;
    const batch = missing.slice(from, from + BATCH);
    const rows = await embedBatch(embedder, batch, run.signal);
    await store.write(model, rows);
    for (const hash of rows.keys()) made.add(hash);
    progress();
  }
  return made;
}

/** Returns vectors by hash. The time limit also ends the wait for an embedder that ignores its signal. */
async function embedBatch(embedder: Embedder, batch: readonly (readonly [string, Action])[], signal: AbortSignal) {
  const texts = batch.map(([, action]) => toEmbeddedText(action));
  const timeoutError = () =>
    new QmError("embedder_failed", `the embedder did not answer within ${BATCH_LIMIT_MS / 60_000} min`);
  const answer = await withTimeout({ ms: BATCH_LIMIT_MS, timeoutError, signal }, (inner) =>
    embedder.embed(texts, "document", inner),
  );
  const read = toUnitVectors(answer, texts.length);
  if ("problem" in read) throw new QmError("embedder_failed", `the embedder answered with ${read.problem}`);
  return new Map(batch.map(([hash], at) => [hash, read.vectors[at] as Float32Array]));
}
