import { repeatEvery } from "../core/async.ts";
import { getErrorMessage } from "../core/errors.ts";
import { omitUndefined } from "../core/json.ts";
import type { Outcome } from "../core/outcome.ts";
import type { Runtime } from "../core/runtime.ts";
import type { Approval } from "./approval.ts";
import type { ApprovalService } from "./approval-service.ts";
import type { ApprovalStore, ApprovalWatcher } from "./approval-store.ts";
import type { ExecutionPermit, PermitService } from "./permits.ts";

export type ApprovalWorker = ReturnType<typeof createApprovalWorker>;
const BUSY_MS = 500;
const IDLE_MS = 3_000;
const PAGE_SIZE = 100;
const RETRY_MS = 5_000;
const OTHER_PROCESS_MS = 10_000;
const DAY_MS = 86_400_000;
const RETENTION_MS = 30 * DAY_MS;

/** Runs approved calls, and cleans up after processes that are gone. */
export function createApprovalWorker(options: {
  readonly store: ApprovalStore;
  readonly changes: ApprovalWatcher;
  readonly permits: PermitService;
  readonly service: Pick<ApprovalService, "expireOld">;
  readonly runtime: Runtime;
  hadPolicy(version: string): boolean;
  knows(action: string): boolean;
  resume(permit: ExecutionPermit): Promise<Outcome>;
  prune(before: Date): Promise<unknown>;
  /** Records the end of a call if the ledger lacks it. */
  restoreEnd(approval: Approval): Promise<void>;
  readonly onProblem: (problem: string) => void;
}) {
  const { store, changes, permits, service, runtime } = options;
  const running = new Map<string, Promise<Outcome>>();
  const notBefore = new Map<string, number>();
  let pauseMs = IDLE_MS;
  let closed = false;
  let prunedAt = 0;

  async function cleanUpAbandoned(): Promise<void> {
    for (const claimed of await store.listClaimed()) {
      if (!permits.isAbandoned(claimed)) continue;
      const { approval, executor } = claimed;
      // The handler was not called, so another process can run it.
      if (approval.state === "executing" && approval.begunAt === undefined)
        await store.release(approval.id, executor.id);
      else {
        if (approval.state === "executing") await store.interrupt(approval.id, executor.id, runtime.now());
        // One process records the end. If it dies meanwhile, another takes over.
        if (await permits.takeOver(claimed)) await restoreRecord(approval.id);
      }
      changes.notify(approval.id);
    }
  }

  async function restoreRecord(id: string): Promise<void> {
    const approval = await store.get(id);
    if (approval !== undefined) await options.restoreEnd(approval);
    await store.markRecorded(id);
  }

  /** Whether a process with the call's policy may still run it. This process could only expire it. */
  function isForOtherProcess({ policyVersion, answer }: Approval, now: number): boolean {
    if (options.hadPolicy(policyVersion)) return false;
    return answer !== undefined && Date.parse(answer.at) + OTHER_PROCESS_MS > now;
  }

  /** Starts a call if this process may run it now. `isRequested` skips the wait for other processes. */
  async function startRun(approval: Approval, isRequested: boolean): Promise<boolean> {
    const { id, action, expiresAt } = approval;
    if (closed || running.has(id) || !options.knows(action)) return false;
    const now = runtime.now();
    if (expiresAt <= now.toISOString() || (notBefore.get(id) ?? 0) > now.getTime()) return false;
    if (!isRequested && isForOtherProcess(approval, now.getTime())) return false;
    const permit = await permits.claim(approval);
    if (permit === undefined) return false;
    const work = options.resume(permit).finally(() => {
      running.delete(id);
      notBefore.set(id, runtime.now().getTime() + RETRY_MS);
      changes.notify(id);
    });
    running.set(id, work);
    return true;
  }

  async function startApproved(): Promise<readonly string[]> {
    const startedIds: string[] = [];
    // Reads all pages, because calls of unknown actions must not block others.
    for (let after: string | undefined, isLast = false; !isLast; ) {
      const page = await store.list(omitUndefined({ state: "approved", limit: PAGE_SIZE, after }));
      for (const approval of page) if (await startRun(approval, false)) startedIds.push(approval.id);
      after = page.at(-1)?.id;
      isLast = page.length < PAGE_SIZE;
    }
    for (const [id, at] of notBefore) if (at <= runtime.now().getTime()) notBefore.delete(id);
    return startedIds;
  }

  async function startOne(id: string): Promise<readonly string[]> {
    const approval = await store.get(id);
    return approval?.state === "approved" && (await startRun(approval, true)) ? [id] : [];
  }

  async function cleanUp(): Promise<void> {
    await permits.storeRemaining();
    await cleanUpAbandoned();
    await service.expireOld();
  }

  async function poll(): Promise<void> {
    pauseMs = IDLE_MS;
    try {
      await cleanUp();
      await startApproved();
      const now = runtime.now().getTime();
      if (now - prunedAt > DAY_MS) {
        prunedAt = now;
        await Promise.all([store.prune(new Date(now - RETENTION_MS)), options.prune(new Date(now - RETENTION_MS))]);
      }
      const open = await store.list({ state: ["pending", "approved", "executing"], limit: 1 });
      if (open.length > 0) pauseMs = BUSY_MS;
    } catch (thrown) {
      options.onProblem(`approvals could not be processed: ${getErrorMessage(thrown)}`);
    }
  }

  const polling = repeatEvery(() => pauseMs, poll);
  return {
    async run(id?: string): Promise<number> {
      await cleanUp();
      const ids = id === undefined ? await startApproved() : await startOne(id);
      await Promise.all(ids.map((each) => running.get(each)));
      return ids.length;
    },
    start: polling.start,
    /** Polls now, because a call may have been approved. */
    nudge: polling.nudge,
    async close(): Promise<void> {
      closed = true;
      await polling.close();
      await Promise.allSettled(running.values());
      permits.close();
    },
  };
}
