import { setTimeout as pause } from "node:timers/promises";
import { onAbort } from "../../core/async.ts";
import { Lease, type LeaseHolder } from "../../core/lease.ts";
import type { ProcessFacts, Runtime } from "../../core/runtime.ts";

/** Locks between processes. */
export interface LockStore {
  /** Whether it is `holder`'s now: nobody had it, or `isOver` said of who had it that he has it no longer. */
  take(name: string, holder: LeaseHolder, isOver: (other: LeaseHolder) => boolean): Promise<boolean>;
  /** Whether it still was the holder's. */
  renew(name: string, holder: LeaseHolder): Promise<boolean>;
  release(name: string, id: string): Promise<void>;
}

export interface LockOptions<T> {
  readonly locks: LockStore;
  readonly name: string;
  readonly runtime: Runtime;
  readonly self: ProcessFacts;
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
export async function underLock<T>(options: LockOptions<T>, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const { locks, name, runtime, self, signal, done } = options;
  const own = new Lease({ runtime, self, durationMs: LEASE_MS });

  for (;;) {
    signal.throwIfAborted();
    if (await locks.take(name, own.holder(), (other) => own.hasEnded(other))) {
      const lease = keepLease(() => locks.renew(name, own.holder()), signal);
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

function keepLease(renew: () => Promise<boolean>, outer: AbortSignal) {
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
