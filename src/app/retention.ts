import { join } from "node:path";
import { repeatEvery } from "../core/async.ts";
import { getErrorMessage, QmError } from "../core/errors.ts";
import { Lease } from "../core/lease.ts";
import { parseDuration, type Runtime } from "../core/runtime.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { type PruneOptions, type PruneReport, pruneLedger } from "../ledger/prune.ts";
import type { Store } from "../store/open-store.ts";
import type { QuartermasterOptions } from "./options.ts";
import { systemProcess } from "./system-runtime.ts";

const EVERY_MS = 60 * 60 * 1000;
const LEASE_MS = 10 * 60 * 1000;
const UNUSED_KEPT_MS = 90 * 24 * 60 * 60 * 1000;
const LOCK = "ledger retention";

/** Removes what is older than the configuration says, now and every hour. */
export function createRetention(parts: {
  readonly settings: QuartermasterOptions["ledger"];
  readonly ledger: Pick<Ledger, "flush">;
  readonly store: Pick<Store, "events" | "locks" | "usage" | "activation" | "sessions" | "memory">;
  readonly runtime: Runtime;
  readonly onProblem: (problem: string) => void;
}) {
  const { settings = {}, ledger, store, runtime, onProblem } = parts;
  const lease = new Lease({ runtime, self: systemProcess, durationMs: LEASE_MS });
  const closing = new AbortController();

  async function prune(options: PruneOptions): Promise<PruneReport> {
    const isFree = await store.locks.take(LOCK, lease.holder(), (other) => lease.hasEnded(other));
    if (!isFree)
      throw new QmError("conflict", "another process is removing events of this ledger", { hint: "Try again later." });
    try {
      await ledger.flush();
      return await pruneLedger(store.events, options, runtime.now);
    } finally {
      await store.locks.release(LOCK, lease.id);
    }
  }

  async function removeOld(): Promise<void> {
    const now = runtime.now();
    const unused = new Date(now.getTime() - UNUSED_KEPT_MS);
    await store.usage.prune(unused);
    await store.activation.prune(unused);
    await store.sessions.prune(unused);
    const keptMs = settings.keep === undefined ? undefined : parseDuration(settings.keep);
    if (keptMs === undefined) return;
    const archive = settings.archive && join(settings.archive, `ledger-${now.toISOString().slice(0, 7)}.jsonl`);
    const before = new Date(now.getTime() - keptMs);
    await store.memory.prune(before);
    await prune({ before, signal: closing.signal, ...(archive ? { archive } : {}) });
  }

  async function run(): Promise<void> {
    try {
      await removeOld();
    } catch (thrown) {
      const isOtherBusy = thrown instanceof QmError && thrown.code === "conflict";
      if (!closing.signal.aborted && !isOtherBusy)
        onProblem(`old events could not be removed: ${getErrorMessage(thrown)}`);
    }
  }

  const { start, close } = repeatEvery(EVERY_MS, run);
  return {
    prune,
    start,
    close(): Promise<void> {
      closing.abort();
      return close();
    },
  };
}
