import type { Action } from "../../core/action.ts";
import { raceAbort, settlesWithin } from "../../core/async.ts";
import { QmError } from "../../core/errors.ts";
import { omitUndefined } from "../../core/json.ts";
import { embedderError } from "../embedders/embedder.ts";
import type { Hit, HitOptions, Searchable } from "../hits.ts";
import { type CatalogContents, hashCatalog } from "./action-text.ts";
import { createLatestRunner } from "./latest-runner.ts";
import { createQueryVectors } from "./query-vectors.ts";
import { type BuildContext, type BuildProgress, buildVectors, findVectors, recordVectorUse } from "./vector-build.ts";
import { USE_RECORD_INTERVAL_MS, type VectorSet } from "./vector-set.ts";

export interface SemanticStatus {
  /** `waiting`: no catalog yet, or another process builds. Until `ready`, searches use the last complete vectors. */
  readonly state: "off" | "waiting" | "building" | "ready" | "failed";
  readonly model?: string;
  readonly done: number;
  readonly total: number;
  /** The number of actions that can be searched. Absent: none yet. */
  readonly rows?: number;
  /** How many of them the last build embedded. The vectors of the others were in the store. */
  readonly embedded?: number;
  readonly reason?: string;
  readonly hint?: string;
}

export interface BuildOptions {
  readonly force?: boolean;
  readonly onProgress?: (progress: BuildProgress) => void;
  readonly signal?: AbortSignal;
}

export interface BuildReport {
  readonly embedded: readonly string[];
  readonly reused: number;
  readonly durationMs: number;
  readonly catalog: string;
  readonly model: string;
}

/** Search by meaning over one catalog. It uses a complete set of vectors or none. */
export interface SemanticIndex {
  status(): SemanticStatus;
  /** Builds the vectors of a changed catalog in the background, once it has settled. The last catalog wins. */
  follow(actions: readonly Action[]): void;
  /** Resolves when `status` is up to date for the catalog that was followed last. */
  settled(): Promise<void>;
  /** Builds the vectors of these actions now. Rejects with `embedder_failed`, `cancelled` or `store_failed`. */
  build(actions: readonly Action[], options?: BuildOptions): Promise<BuildReport>;
  /** Deletes all vectors in the store, of every catalog and model. */
  clear(): Promise<{ readonly rows: number }>;
  /** Never rejects. `unavailable` names only the kind of problem, because any caller may read it. */
  search(
    query: string,
    view: Searchable,
    options: HitOptions & { readonly signal?: AbortSignal | undefined },
  ): Promise<{ readonly hits: readonly Hit[] } | { readonly unavailable: string }>;
  close(): Promise<void>;
}

export interface SemanticIndexOptions extends BuildContext {
  readonly queryLimitMs?: number;
  /** `false`: a catalog with missing vectors is embedded again as a whole. */
  readonly incremental?: boolean;
  /** Whether the first build embeds everything again. Until then, searches use the stored vectors. */
  readonly rebuild?: boolean;
  /** `false`: `follow` only loads stored vectors, and only `build` embeds. */
  readonly background?: boolean;
  /** How long a catalog must stay the same before a background build starts. Default: 250, or 0 without builds. */
  readonly settleMs?: number;
  /** Called after a build that embedded something. */
  readonly onBuilt?: (report: BuildReport) => void;
  /** Called when a build or a query fails, but not again for the same reason. */
  readonly onFailed?: (reason: string) => void;
}

const DEFAULT_FLOOR = 0.25;
const BUILD_HINT = "Run: qm embeddings build";

type Progress = Pick<SemanticStatus, "state" | "done" | "total">;
type Trouble = Pick<SemanticStatus, "state" | "reason" | "hint"> & Partial<Progress>;

export function createSemanticIndex(options: SemanticIndexOptions): SemanticIndex {
  const { embedder, store, runtime, incremental = true, background = true } = options;
  const { queryLimitMs = 1_500, settleMs = background ? 250 : 0, onBuilt = () => {}, onFailed = () => {} } = options;
  const model = embedder.fingerprint;
  const embedQuery = createQueryVectors({ embedder, runtime, limitMs: queryLimitMs, onTrouble: recordQueryTrouble });
  const closing = new AbortController();
  const running = new Map<number, Progress>();
  const pending = new Set<Promise<unknown>>();
  const follower = createLatestRunner(settleMs, followCatalog);
  let answering: { readonly set: VectorSet; readonly turn: number; readonly embedded: number } | undefined;
  let useRecordedAt = 0;
  let trouble: Trouble | undefined;
  let queryFailed: Pick<SemanticStatus, "reason" | "hint"> | undefined;
  let wanted: readonly Action[] | undefined;
  let settling: Settlement | undefined;
  let rebuildDue = options.rebuild ?? false;
  let rebuilding: Promise<unknown> | undefined;
  let turns = 0;

  /** An earlier build does not replace the vectors of another catalog whose build began later. */
  function adoptVectors(set: VectorSet, turn: number, embedded: number): void {
    const { set: present, turn: newest } = answering ?? { turn: 0 };
    if (turn < newest && set.contents.fingerprint !== present?.contents.fingerprint) return;
    answering = { set, turn: Math.max(turn, newest), embedded };
    useRecordedAt = runtime.now().getTime();
    trouble = undefined;
  }

  function fail(thrown: unknown, progress?: Progress): QmError {
    const error = embedderError(thrown);
    if (trouble?.reason !== error.message) onFailed(error.message);
    trouble = { ...progress, state: "failed", ...omitUndefined({ reason: error.message, hint: error.hint }) };
    return error;
  }

  function recordQueryTrouble(error: QmError | undefined): void {
    if (error !== undefined && queryFailed?.reason !== error.message) onFailed(error.message);
    queryFailed = error && omitUndefined({ reason: error.message, hint: error.hint });
  }

  function resolveSettling(actions: readonly Action[] | undefined): void {
    if (actions !== wanted) return;
    settling?.resolve();
    settling = undefined;
  }

  async function followCatalog(actions: readonly Action[], isOutdated: () => boolean): Promise<void> {
    const contents = hashCatalog(actions);
    const isAnswering = answering?.set.contents.fingerprint === contents.fingerprint;
    try {
      if (isAnswering && !(background && rebuildDue)) trouble = undefined;
      else if (background) await track(run(actions, contents, { isOutdated }));
      else if (!(await adoptStoredVectors(contents, ++turns))) {
        const { size: done } = await store.known(model, contents.samples.keys());
        const total = contents.samples.size;
        trouble = { state: "waiting", reason: "vectors are missing", hint: BUILD_HINT, done, total };
      }
    } finally {
      resolveSettling(actions);
    }
  }

  async function adoptStoredVectors(contents: CatalogContents, turn: number): Promise<boolean> {
    try {
      const set = await findVectors(options, contents);
      if (set !== undefined) adoptVectors(set, turn, 0);
      return set !== undefined;
    } catch (thrown) {
      throw fail(thrown);
    }
  }

  async function run(
    actions: readonly Action[],
    contents: CatalogContents,
    { force = false, isOutdated = () => false, ...request }: BuildOptions & { readonly isOutdated?: () => boolean },
  ): Promise<BuildReport | undefined> {
    const signal = request.signal === undefined ? closing.signal : AbortSignal.any([closing.signal, request.signal]);
    const turn = ++turns;
    const started = runtime.elapsed();
    const onProgress = (progress: BuildProgress): void => {
      running.set(turn, { state: "building", ...progress });
      request.onProgress?.(progress);
    };
    const report = (embedded: readonly string[]): BuildReport => ({
      embedded,
      reused: contents.hashes.size - embedded.length,
      durationMs: Math.round(runtime.elapsed() - started),
      catalog: contents.fingerprint,
      model,
    });
    running.set(turn, { state: "waiting", done: 0, total: contents.samples.size });
    try {
      signal.throwIfAborted();
      let isThere = await adoptStoredVectors(contents, turn);
      resolveSettling(actions);
      while (rebuilding !== undefined && !force) {
        await raceAbort(rebuilding, signal);
        isThere = await adoptStoredVectors(contents, turn);
      }
      const all = force || rebuildDue;
      if (isThere && !all) return report([]);
      const how = { force: all, anew: all || !incremental, signal, isOutdated, onProgress };
      const building = buildVectors(options, contents, how);
      const built = await (all ? trackRebuild(building) : building);
      if (built === "outdated") return undefined;
      adoptVectors(built.set, turn, built.embedded.length);
      const made = report(built.embedded);
      if (made.embedded.length > 0) onBuilt(made);
      return made;
    } catch (thrown) {
      if (!signal.aborted) throw fail(thrown, running.get(turn));
      throw new QmError("cancelled", "the build was cancelled", { hint: "The vectors made so far are kept." });
    } finally {
      running.delete(turn);
    }
  }

  /** Other builds wait for a rebuild. It is due again if it does not complete. */
  async function trackRebuild<T>(building: Promise<T>): Promise<T> {
    const wasDue = rebuildDue;
    rebuildDue = false;
    const settled = building.catch(() => "outdated");
    rebuilding = settled;
    const result = await settled;
    rebuildDue ||= wasDue && result === "outdated";
    if (rebuilding === settled) rebuilding = undefined;
    return building;
  }

  async function track<T>(work: Promise<T>): Promise<T> {
    pending.add(work);
    return work.finally(() => pending.delete(work));
  }

  function status(): SemanticStatus {
    const answered = answering?.set.contents;
    const size = answered?.samples.size ?? 0;
    const runs = [...running.values()];
    const run = runs.findLast(({ state }) => state === "building") ?? runs.at(-1);
    return {
      state: answered === undefined ? "waiting" : "ready",
      done: size,
      total: size,
      ...(run ?? trouble ?? queryFailed),
      model,
      ...(answering === undefined ? {} : { rows: answering.set.contents.hashes.size, embedded: answering.embedded }),
    };
  }

  /** Without counts and reasons, which would tell about actions that the caller may not see. */
  function explainUnavailable(): string {
    // Also while another build is running, so that the answer does not depend on its moment.
    if (trouble?.state === "failed") return "the index could not be built.";
    return running.size > 0 || trouble === undefined ? "the index is not ready yet." : "vectors are missing.";
  }

  /** Keeps a set that is searched, but not rebuilt, from being pruned. */
  function recordSearch(set: VectorSet): void {
    const now = runtime.now().getTime();
    if (now - useRecordedAt < USE_RECORD_INTERVAL_MS) return;
    useRecordedAt = now;
    void track(recordVectorUse(store, { catalog: set.contents.fingerprint, model }, set)).catch(() => {});
  }

  return {
    status,
    follow(actions) {
      if (closing.signal.aborted) return;
      wanted = actions;
      settling ??= createSettlement();
      follower.schedule(actions);
    },
    settled: async () => settling?.promise,
    async build(actions, request = {}) {
      const report = await track(run(actions, hashCatalog(actions), request));
      if (report === undefined) throw new TypeError("a build on demand cannot be outdated");
      return report;
    },
    async clear() {
      void follower.cancel();
      resolveSettling(wanted);
      const cleared = await store.clear();
      answering = undefined;
      trouble = { state: "waiting", reason: "the vectors were cleared", hint: BUILD_HINT };
      return cleared;
    },
    async search(query, view, { signal, ...hitOptions }) {
      if (query.trim() === "") return { hits: [] };
      // A search right after the start waits for the stored vectors.
      if (answering === undefined && settling !== undefined) await settlesWithin(settling.promise, queryLimitMs);
      if (answering === undefined) return { unavailable: explainUnavailable() };
      if (answering.set.dimensions === 0) return { hits: [] };
      const embedded = await embedQuery(query, signal);
      if ("unavailable" in embedded) return embedded;
      if (answering === undefined) return { unavailable: explainUnavailable() };
      const { set } = answering;
      if (set.dimensions !== embedded.vector.length) return { unavailable: "the index was built with another model." };
      recordSearch(set);
      return { hits: set.rank(embedded.vector, view, { ...hitOptions, floor: embedder.floor ?? DEFAULT_FLOOR }) };
    },
    async close() {
      closing.abort();
      resolveSettling(wanted);
      await follower.cancel();
      await Promise.allSettled(pending);
      await embedder.close?.();
    },
  };
}

type Settlement = { readonly promise: Promise<void>; readonly resolve: () => void };

function createSettlement(): Settlement {
  let resolve = (): void => {};
  const promise = new Promise<void>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}
