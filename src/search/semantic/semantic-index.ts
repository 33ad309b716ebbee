import type { Action } from "../../core/action.ts";
import { withTimeout } from "../../core/async.ts";
import { QmError } from "../../core/errors.ts";
import { embedderError } from "../embedders/embedder.ts";
import type { Hit, HitOrder, Searchable } from "../hits.ts";
import { type CatalogContents, hashCatalog } from "./action-text.ts";
import { createLatestRunner } from "./latest-runner.ts";
import { createQueryVectors } from "./query-vectors.ts";
import {
  type BuildContext,
  type BuildResult,
  type BuildRun,
  buildVectors,
  findVectors,
  recordVectorUse,
} from "./vector-build.ts";
import type { VectorSet } from "./vector-set.ts";
import { USE_RECORD_INTERVAL_MS } from "./vector-set.ts";

export interface SemanticStatus {
  /**
   * `waiting`: there is no catalog yet, or another process has its turn. While `building` or `failed`, what was
   * complete before goes on answering.
   */
  readonly state: "off" | "waiting" | "building" | "ready" | "failed";
  readonly model?: string;
  /** Vectors of the newest catalog that are there, of how many. */
  readonly done: number;
  readonly total: number;
  /** How many actions the vectors that answer now are for. Absent: nothing answers yet. */
  readonly rows?: number;
  readonly reason?: string;
  readonly hint?: string;
}

export interface BuildOptions {
  /** Whether everything is embedded anew. */
  readonly force?: boolean;
  readonly onProgress?: (progress: { readonly done: number; readonly total: number }) => void;
  readonly signal?: AbortSignal;
}

export interface BuildReport {
  /** The names whose vectors were made now. */
  readonly embedded: readonly string[];
  readonly reused: number;
  readonly durationMs: number;
  /** Fingerprints of what was built. */
  readonly catalog: string;
  readonly model: string;
}

export interface SemanticSearchOptions {
  readonly limit: number;
  readonly order: HitOrder;
  readonly accepts?: (action: Action) => boolean;
  readonly signal?: AbortSignal;
}

/** Search by meaning over one catalog. It answers from a complete set of vectors or not at all. */
export interface SemanticIndex {
  status(): SemanticStatus;
  /** The catalog has changed: its vectors are made in the background, once it has settled. The last one wins. */
  follow(actions: readonly Action[]): void;
  /** Resolves when it is known whether the vectors of what was followed last are there: then `status` can tell. */
  settled(): Promise<void>;
  /** Brings the index to these actions now. Rejects with `embedder_failed`, `cancelled` or `store_failed`. */
  build(actions: readonly Action[], options?: BuildOptions): Promise<BuildReport>;
  /** Forgets every vector, of every catalog and model in the store. They are made again when the next build is. */
  clear(): Promise<{ readonly rows: number }>;
  /**
   * Ranks what the view sees, or says why it cannot, within the limit. Never rejects. The sentence is one of a few that
   * tell nothing but the kind of trouble, because any caller may read it; `status` has the rest.
   */
  search(
    query: string,
    view: Searchable,
    options: SemanticSearchOptions,
  ): Promise<{ readonly hits: readonly Hit[] } | { readonly unavailable: string }>;
  /** Ends what is under way; vectors that are there stay. */
  close(): Promise<void>;
}

export interface SemanticIndexOptions extends BuildContext {
  /** How long a search waits for the vector of its query. */
  readonly queryLimitMs?: number;
  /** `false`: a catalog whose vectors are not all there is embedded anew, all of it. */
  readonly incremental?: boolean;
  /** Whether the first build embeds everything anew. Until it is done, what is there answers. */
  readonly rebuild?: boolean;
  /** `false`: a catalog that is followed gets the vectors that are there; only `build` makes any. */
  readonly background?: boolean;
  /** How long a catalog must have been the same before its vectors are made in the background. */
  readonly settleMs?: number;
  /** Called when vectors were made, and all of the catalog's are there. */
  readonly onBuilt?: (report: BuildReport) => void;
  /** Not called again while what is tried again, a build or the vector of a query, fails for the same reason. */
  readonly onFailed?: (reason: string) => void;
}

const DEFAULT_FLOOR = 0.25;
const MISSING = { state: "waiting", reason: "vectors are missing", hint: "Run: qm embeddings build" } as const;
const CLEARED = { state: "waiting", reason: "the vectors were cleared", hint: "Run: qm embeddings build" } as const;

type Progress = Pick<SemanticStatus, "state" | "done" | "total">;
type Trouble = Pick<SemanticStatus, "state" | "reason" | "hint"> & Partial<Progress>;
type RunOptions = BuildOptions & { readonly isOutdated?: () => boolean };

export function createSemanticIndex(options: SemanticIndexOptions): SemanticIndex {
  const { embedder, store, runtime, incremental = true, background = true } = options;
  const { queryLimitMs = 1_500, settleMs = 250, onBuilt = () => {}, onFailed = () => {} } = options;
  const model = embedder.fingerprint;
  const vectorFor = createQueryVectors({ embedder, runtime, limitMs: queryLimitMs, onTrouble: recordQueryTrouble });
  const closing = new AbortController();
  const running = new Map<number, Progress>();
  const underWay = new Set<Promise<unknown>>();
  const follower = createLatestRunner(settleMs, followCatalog);
  let answering: { readonly set: VectorSet; readonly turn: number } | undefined;
  let useNotedAt = 0;
  let trouble: Trouble | undefined;
  let queryFailed: Pick<SemanticStatus, "reason" | "hint"> | undefined;
  let wanted: readonly Action[] | undefined;
  let settling: Settlement | undefined;
  let rebuildDue = options.rebuild ?? false;
  let rebuilding: Promise<unknown> | undefined;
  let turns = 0;

  /** What was begun earlier does not take the place of another catalog's that was begun later. */
  function adoptVectors(set: VectorSet, turn: number): void {
    const { set: present, turn: newest } = answering ?? { turn: 0 };
    if (turn < newest && set.contents.fingerprint !== present?.contents.fingerprint) return;
    answering = { set, turn: Math.max(turn, newest) };
    useNotedAt = runtime.now().getTime();
    trouble = undefined;
  }

  function fail(thrown: unknown, progress?: Progress): QmError {
    const error = embedderError(thrown);
    if (trouble?.reason !== error.message) onFailed(error.message);
    trouble = { ...progress, state: "failed", ...toReason(error) };
    return error;
  }

  function recordQueryTrouble(error: QmError | undefined): void {
    if (error !== undefined && queryFailed?.reason !== error.message) onFailed(error.message);
    queryFailed = error && toReason(error);
  }

  /** Whoever waits wants to know about what was followed last. */
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
        trouble = { ...MISSING, done, total: contents.samples.size };
      }
    } finally {
      resolveSettling(actions);
    }
  }

  /** Takes over the catalog's vectors if they are all there. */
  async function adoptStoredVectors(contents: CatalogContents, turn: number): Promise<boolean> {
    try {
      const set = await findVectors(options, contents);
      if (set !== undefined) adoptVectors(set, turn);
      return set !== undefined;
    } catch (thrown) {
      throw fail(thrown);
    }
  }

  async function run(
    actions: readonly Action[],
    contents: CatalogContents,
    wishes: RunOptions,
  ): Promise<BuildReport | undefined> {
    const { force = false, onProgress, signal: wish, isOutdated = () => false } = wishes;
    const signal = wish === undefined ? closing.signal : AbortSignal.any([closing.signal, wish]);
    const turn = ++turns;
    const started = runtime.elapsed();
    const tell = (step: { readonly done: number; readonly total: number }): void => {
      running.set(turn, { state: "building", ...step });
      onProgress?.(step);
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
        await waitUntilSettled(rebuilding, signal);
        isThere = await adoptStoredVectors(contents, turn);
      }
      const all = force || rebuildDue;
      if (isThere && !all) return report([]);
      const how = { force: all, anew: all || !incremental, signal, isOutdated, onProgress: tell };
      const built = await (all ? rebuild(contents, how) : buildVectors(options, contents, how));
      if (built === "outdated") return undefined;
      adoptVectors(built.set, turn);
      const made = report(built.embedded);
      if (made.embedded.length > 0) onBuilt(made);
      return made;
    } catch (thrown) {
      if (!signal.aborted) throw fail(thrown, running.get(turn));
      throw new QmError("cancelled", "the build was cancelled", { hint: "What was embedded so far is kept." });
    } finally {
      running.delete(turn);
    }
  }

  /** The one that was wanted at the start, or on demand. It is due again when it does not get to its end. */
  async function rebuild(contents: CatalogContents, how: BuildRun): Promise<BuildResult | "outdated"> {
    const wasDue = rebuildDue;
    rebuildDue = false;
    const building = buildVectors(options, contents, how);
    const mine = building.catch(() => {});
    rebuilding = mine;
    let isDone = false;
    try {
      const built = await building;
      isDone = built !== "outdated";
      return built;
    } finally {
      rebuildDue ||= wasDue && !isDone;
      if (rebuilding === mine) rebuilding = undefined;
    }
  }

  async function track<T>(work: Promise<T>): Promise<T> {
    underWay.add(work);
    return work.finally(() => underWay.delete(work));
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
      ...(answered === undefined ? {} : { rows: answered.hashes.size }),
    };
  }

  /** No counts and no reasons: they tell of actions that the caller may not see. */
  function explainUnavailable(): string {
    if (running.size > 0 || trouble === undefined) return "the index is not ready yet.";
    return trouble.state === "failed" ? "the index could not be built." : "vectors are missing.";
  }

  /** A set that is searched for months is not built again, and must not be pruned either. */
  function recordSearch(set: VectorSet): void {
    const now = runtime.now().getTime();
    if (now - useNotedAt < USE_RECORD_INTERVAL_MS) return;
    useNotedAt = now;
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
    async build(actions, wishes = {}) {
      const report = await track(run(actions, hashCatalog(actions), wishes));
      if (report === undefined) throw new TypeError("nobody said that it was outdated");
      return report;
    },
    async clear() {
      void follower.cancel();
      resolveSettling(wanted);
      const cleared = await store.clear();
      answering = undefined;
      trouble = CLEARED;
      return cleared;
    },
    async search(query, view, { signal, ...wishes }) {
      if (query.trim() === "") return { hits: [] };
      // A program that has just started and asks at once finds what is there.
      if (answering === undefined)
        await withTimeout({ ms: queryLimitMs, timeoutError: () => new Error() }, async () => settling?.promise).catch(
          () => {},
        );
      if (answering === undefined) return { unavailable: explainUnavailable() };
      if (answering.set.dimensions === 0) return { hits: [] };
      const asked = await vectorFor(query, signal);
      if ("unavailable" in asked) return asked;
      if (answering === undefined) return { unavailable: explainUnavailable() };
      const { set } = answering;
      if (set.dimensions !== asked.vector.length) {
        return { unavailable: "the index is of another model." };
      }
      recordSearch(set);
      return { hits: set.rank(asked.vector, view, { ...wishes, floor: embedder.floor ?? DEFAULT_FLOOR }) };
    },
    async close() {
      closing.abort();
      resolveSettling(wanted);
      await follower.cancel();
      await Promise.allSettled(underWay);
      await embedder.close?.();
    },
  };
}

function toReason({ message: reason, hint }: QmError): Pick<SemanticStatus, "reason" | "hint"> {
  return { reason, ...(hint === undefined ? {} : { hint }) };
}

/** Until the work is over, whatever comes of it, or until there is a signal to stop. */
async function waitUntilSettled(work: Promise<unknown>, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const { promise: stopped, resolve: stop } = createSettlement();
  signal.addEventListener("abort", stop);
  await Promise.race([work, stopped]);
  signal.removeEventListener("abort", stop);
  signal.throwIfAborted();
}

interface Settlement {
  readonly promise: Promise<void>;
  readonly resolve: () => void;
}

function createSettlement(): Settlement {
  let resolve = (): void => {};
  const promise = new Promise<void>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}
