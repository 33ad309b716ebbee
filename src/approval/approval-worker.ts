import { getErrorMessage } from "../core/errors.ts";
import type { Outcome } from "../core/outcome.ts";
import type { Approval } from "./approval.ts";
import type { ApprovalService, ApprovalServiceOptions } from "./approval-service.ts";
import type { ApprovalStore, ApprovalWatcher } from "./approval-store.ts";
import type { ExecutionPermit, PermitService } from "./permits.ts";

/** Runs what people have agreed to, and clears up after processes that are gone. */
export interface ApprovalWorker {
  /** Runs one approved call, or every one that is known here. Answers how many it ran. */
  run(id?: string): Promise<number>;
  /** Looks now, and goes on looking from time to time. */
  start(): void;
  /** Looks soon: something may have been agreed to. */
  nudge(): void;
  /** Waits for what it is doing. */
  close(): Promise<void>;
}

export interface ApprovalWorkerOptions extends Pick<ApprovalServiceOptions, "runtime"> {
  readonly store: ApprovalStore;
  readonly changes: ApprovalWatcher;
  readonly permits: PermitService;
  readonly service: Pick<ApprovalService, "expireOld">;
  /** Whether it is the policy in force here, or was. */
  hadPolicy(version: string): boolean;
  /** Whether the action is there, whoever may use it. What is not may be another process's. */
  knows(action: string): boolean;
  /** Runs the call through the one door. Never rejects. */
  resume(permit: ExecutionPermit): Promise<Outcome>;
  /** Removes what else is over and older than that. */
  prune(before: Date): Promise<unknown>;
  /** Writes the end of a call into the ledger, where it is missing. */
  restoreEnd(approval: Approval): Promise<void>;
  readonly onProblem: (problem: string) => void;
}

const BUSY_MS = 500;
const IDLE_MS = 3_000;
const PAGE_SIZE = 100;
const RETRY_MS = 5_000;
const OTHER_PROCESS_MS = 10_000;
const RETENTION_MS = 30 * 86_400_000;

export function createApprovalWorker(parts: ApprovalWorkerOptions): ApprovalWorker {
  const { store, changes, permits, service: desk, runtime } = parts;
  const running = new Map<string, Promise<Outcome>>();
  const notBefore = new Map<string, number>();
  let timer: NodeJS.Timeout | undefined;
  let looking: Promise<void> | undefined;
  let started = false;
  let closed = false;
  let prunedAt = 0;

  /** What processes that are gone have left behind. */
  async function cleanUpAbandoned(): Promise<void> {
    for (const { approval, executor } of await store.listClaimed()) {
      if (!permits.isAbandoned({ approval, executor })) continue;
      if (approval.state === "executing" && approval.begunAt === undefined) {
        // Nobody has entered its handler: it is as good as when it was agreed to.
        await store.release(approval.id, executor.id);
      } else {
        if (approval.state === "executing") await store.interrupt(approval.id, executor.id, runtime.now());
        // Whoever does it may be gone before it is done, too.
        if (await permits.takeOver({ approval, executor })) await restoreRecord(approval.id);
      }
      changes.notify(approval.id);
    }
  }

  async function restoreRecord(id: string): Promise<void> {
    const left = await store.get(id);
    if (left !== undefined) await parts.restoreEnd(left);
    await store.markRecorded(id);
  }

  /** Agreed to under another policy: a process that has it may be there, and this one could only say that it must not run. */
  function isForOtherProcess({ policyVersion, answer }: Approval, now: Date): boolean {
    if (parts.hadPolicy(policyVersion)) return false;
    return answer !== undefined && Date.parse(answer.at) + OTHER_PROCESS_MS > now.getTime();
  }

  /** `isAskedFor`: somebody wants this one run here, and has left others the time to. */
  async function startRun(approval: Approval, isAskedFor = false): Promise<boolean> {
    if (closed || running.has(approval.id) || !parts.knows(approval.action)) return false;
    const now = runtime.now();
    if (approval.expiresAt <= now.toISOString() || (notBefore.get(approval.id) ?? 0) > now.getTime()) return false;
    if (!isAskedFor && isForOtherProcess(approval, now)) return false;
    const permit = await permits.claim(approval);
    if (permit === undefined) return false;
    const work = parts.resume(permit).finally(() => {
      running.delete(approval.id);
      // Where it could not be run now, it is not tried again at once.
      notBefore.set(approval.id, runtime.now().getTime() + RETRY_MS);
      changes.notify(approval.id);
    });
    running.set(approval.id, work);
    return true;
  }

  async function runApproved(id?: string): Promise<readonly string[]> {
    const begun: string[] = [];
    if (id !== undefined) {
      const one = await store.get(id);
      if (one?.state === "approved" && (await startRun(one, true))) begun.push(one.id);
      return begun;
    }
    // Page by page: calls of actions that are not known here must not stand in the way of others.
    for (let after: string | undefined; ; ) {
      const page = await store.list({ state: "approved", limit: PAGE_SIZE, ...(after === undefined ? {} : { after }) });
      for (const approval of page) if (await startRun(approval)) begun.push(approval.id);
      after = page.at(-1)?.id;
      if (page.length < PAGE_SIZE) break;
    }
    for (const [each, at] of notBefore) if (at <= runtime.now().getTime()) notBefore.delete(each);
    return begun;
  }

  async function runOnce(): Promise<void> {
    await permits.storeRemaining();
    await cleanUpAbandoned();
    await desk.expireOld();
    await runApproved();
    const now = runtime.now().getTime();
    if (now - prunedAt > RETENTION_MS / 30) {
      prunedAt = now;
      await Promise.all([store.prune(new Date(now - RETENTION_MS)), parts.prune(new Date(now - RETENTION_MS))]);
    }
  }

  async function tick(): Promise<void> {
    let wait = IDLE_MS;
    try {
      await runOnce();
      const open = await store.list({ state: ["pending", "approved", "executing"], limit: 1 });
      if (open.length > 0) wait = BUSY_MS;
    } catch (thrown) {
      parts.onProblem(`approvals could not be looked after: ${getErrorMessage(thrown)}`);
    }
    looking = undefined;
    if (!closed) timer = setTimeout(begin, wait).unref();
  }

  function begin(): void {
    clearTimeout(timer);
    looking ??= tick();
  }

  return {
    async run(id) {
      await permits.storeRemaining();
      await cleanUpAbandoned();
      await desk.expireOld();
      const begun = await runApproved(id);
      await Promise.all(begun.map((each) => running.get(each)));
      return begun.length;
    },
    start() {
      started = true;
      begin();
    },
    nudge() {
      if (started && !closed) begin();
    },
    async close() {
      closed = true;
      clearTimeout(timer);
      await looking;
      await Promise.allSettled(running.values());
      permits.close();
    },
  };
}
