import { setTimeout as pause } from "node:timers/promises";
import type { Action } from "../../core/action.ts";
import { onAbort, withTimeout } from "../../core/async.ts";
import { QmError } from "../../core/errors.ts";
import { Lease, type LeaseHolder } from "../../core/lease.ts";
import type { ProcessInfo, Runtime } from "../../core/runtime.ts";
import type { Embedder } from "../embedders/embedder.ts";
import { toUnitVectors } from "../embedders/embedder.ts";
import { type CatalogContents, toEmbeddedText } from "./action-text.ts";
import {
  readVectorSet,
  USE_RECORD_INTERVAL_MS,
  type VectorSet,
  type VectorSetKey,
  type VectorStore,
} from "./vector-set.ts";

/** Locks between processes. */
export interface LockStore {
  /** Whether it is `holder`'s now: nobody had it, or `isOver` said of who had it that he has it no longer. */
  take(name: string, holder: LeaseHolder, isOver: (other: LeaseHolder) => boolean): Promise<boolean>;
  /** Whether it still was the holder's. */
  renew(name: string, holder: LeaseHolder): Promise<boolean>;
  release(name: string, id: string): Promise<void>;
}

interface BuildLockOptions<T> {
  readonly locks: LockStore;
  readonly name: string;
  readonly runtime: Runtime;
  readonly self: ProcessInfo;
  readonly signal: AbortSignal;
  /** Asked while another has the lock: whether he has done the work already. */
  readonly done: () => Promise<T | undefined>;
}

const LEASE_MS = 15_000;
const POLL_MS = 200;

/**
 * Does the work while this process alone has the lock, or answers what another made of it meanwhile. A holder that has
 * died, or does not renew its lease, loses the lock; its signal aborts then, and it waits like everybody else.
 */
export async function withBuildLock<T>(
  options: BuildLockOptions<T>,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const { locks, name, runtime, self, signal, done } = options;
  const own = new Lease({ runtime, self, durationMs: LEASE_MS });

  for (;;) {
    signal.throwIfAborted();
    if (await locks.take(name, own.holder(), (other) => own.hasEnded(other))) {
      const lease = renewLease(() => locks.renew(name, own.holder()), signal);
      try {
        return await work(lease.signal);
      } catch (thrown) {
        if (!lease.isLost()) throw thrown;
      } finally {
        lease.end();
        // A lock that cannot be given back is over when its lease is.
        await locks.release(name, own.id).catch(() => {});
      }
    }
    const made = await done();
    if (made !== undefined) return made;
    await pause(POLL_MS, undefined, { signal }).catch(() => {});
  }
}

function renewLease(renew: () => Promise<boolean>, outer: AbortSignal) {
  const controller = new AbortController();
  let lost = false;
  const timer = setInterval(() => {
    renew().then(
      (kept) => {
        if (kept) return;
        lost = true;
        controller.abort(new Error("the lock was taken over"));
      },
      // Not renewed is not lost: somebody has to want it first.
      () => {},
    );
  }, LEASE_MS / 3);
  timer.unref();
  const stopListening = onAbort(outer, (reason) => controller.abort(reason));
  return {
    signal: controller.signal,
    isLost: () => lost,
    end() {
      clearInterval(timer);
      stopListening();
    },
  };
}

/** What a build needs. */
export interface BuildContext {
  readonly embedder: Embedder;
  readonly store: VectorStore;
  readonly locks: LockStore;
  readonly runtime: Runtime;
  readonly self: ProcessInfo;
}

export interface BuildRun {
  /** Whether a build is made even where all vectors are there. */
  readonly force: boolean;
  /** Whether a build embeds everything, also what is there. */
  readonly anew: boolean;
  readonly signal: AbortSignal;
  /** How many of the catalog's vectors are there. */
  readonly onProgress: (progress: { readonly done: number; readonly total: number }) => void;
  /** Asked before each batch. `true` ends the build there; what was embedded is kept. */
  readonly isOutdated: () => boolean;
}

export interface BuildResult {
  readonly set: VectorSet;
  /** The names whose vectors were made now. */
  readonly embedded: readonly string[];
}

const BATCH = 32;
/** Longer than any embedder tries on its own. */
const BATCH_LIMIT_MS = 600_000;
const UNUSED_FOR_MS = 30 * 24 * 60 * 60 * 1000;

/** The catalog's vectors if they are all there. Writes nothing, but for the note once a day that they are in use. */
export async function findVectors(
  { embedder, store, runtime }: BuildContext,
  contents: CatalogContents,
): Promise<VectorSet | undefined> {
  const key = { catalog: contents.fingerprint, model: embedder.fingerprint };
  const used = await store.lastUse(key);
  if (used === undefined) return undefined;
  const set = await readVectorSet(store, key.model, contents);
  if (set !== undefined && runtime.now().getTime() - used.getTime() > USE_RECORD_INTERVAL_MS)
    await recordVectorUse(store, key, set);
  return set;
}

/** So that what is used is not pruned. */
export async function recordVectorUse(store: VectorStore, key: VectorSetKey, { contents }: VectorSet): Promise<void> {
  // The rows first: a set must not seem younger than what it is made of.
  await store.touch(key.model, contents.samples.keys());
  await store.complete(key);
}

/**
 * Makes the vectors that a catalog lacks. One process at a time does so for a model; another that wants the same finds
 * them made. Each batch is kept as it comes, so that after a crash the rest is made, not all of it.
 */
export async function buildVectors(
  building: BuildContext,
  contents: CatalogContents,
  run: BuildRun,
): Promise<BuildResult | "outdated"> {
  const { embedder, locks, runtime, self } = building;
  const findFinished = async (): Promise<BuildResult | "outdated" | undefined> => {
    if (run.isOutdated()) return "outdated";
    const set = run.force ? undefined : await findVectors(building, contents);
    return set && { set, embedded: [] };
  };
  const lock = {
    locks,
    name: `embeddings ${embedder.fingerprint}`,
    runtime,
    self,
    signal: run.signal,
    done: findFinished,
  };
  // Another may have made them just before the lock was free.
  return withBuildLock(
    lock,
    async (signal) => (await findFinished()) ?? completeSet(building, contents, { ...run, signal }),
  );
}

async function completeSet(
  building: BuildContext,
  contents: CatalogContents,
  run: BuildRun,
): Promise<BuildResult | "outdated"> {
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
  // Vectors of several lengths: what the model makes today does not go with what it made before.
  if (!run.anew) return completeSet(building, contents, { ...run, anew: true });
  throw new QmError("embedder_failed", "the vectors that were made are not there, or not of one length", {
    hint: "Another process may have cleared them meanwhile: build again.",
  });
}

/** The hashes of what was embedded; undefined when the build was outdated before the end. */
async function embedMissing({ embedder, store }: BuildContext, contents: CatalogContents, run: BuildRun) {
  const model = embedder.fingerprint;
  // In this order: what is known now is not pruned by another before the end.
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

/** By hash. Also an embedder that does not listen to its signal can be given up. */
async function embedBatch(embedder: Embedder, batch: readonly (readonly [string, Action])[], signal: AbortSignal) {
  const texts = batch.map(([, action]) => toEmbeddedText(action));
  const late = () =>
    new QmError("embedder_failed", `the embedder did not answer within ${BATCH_LIMIT_MS / 60_000} min`);
  const limits = { ms: BATCH_LIMIT_MS, timeoutError: late, signal };
  const read = toUnitVectors(
    await withTimeout(limits, (inner) => embedder.embed(texts, "document", inner)),
    texts.length,
  );
  if ("problem" in read) throw new QmError("embedder_failed", `the embedder answered with ${read.problem}`);
  const rows = new Map<string, Float32Array>();
  for (const [at, vector] of read.vectors.entries()) {
    const [hash] = batch[at] ?? [];
    if (hash !== undefined) rows.set(hash, vector);
  }
  return rows;
}
