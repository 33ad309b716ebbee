import { messageOf } from "../core/errors.ts";
import type { Outcome } from "../core/outcome.ts";
import type { Approval } from "./approval.ts";
import type { ApprovalStore } from "./approval-store.ts";
import type { Changes } from "./changes.ts";
import type { Desk, DeskParts } from "./desk.ts";
import type { Permit, Permits } from "./permits.ts";

/** Runs what people have agreed to, and clears up after processes that are gone. */
export interface Worker {
  /** Runs one approved call, or every one that is known here. Answers how many it ran. */
  run(id?: string): Promise<number>;
  /** Looks now, and goes on looking from time to time. */
  start(): void;
  /** Looks soon: something may have been agreed to. */
  nudge(): void;
  /** Waits for what it is doing. */
  close(): Promise<void>;
}

export interface WorkerParts extends Pick<DeskParts, "runtime"> {
  readonly store: ApprovalStore;
  readonly changes: Changes;
  readonly permits: Permits;
  readonly desk: Pick<Desk, "expireOld">;
  /** Whether it is the policy in force here, or was. */
  hadPolicy(version: string): boolean;
  /** Whether the action is there, whoever may use it. What is not may be another process's. */
  knows(action: string): boolean;
  /** Runs the call through the one door. Never rejects. */
  resume(permit: Permit): Promise<Outcome>;
  /** Removes what else is over and older than that. */
  prune(before: Date): Promise<unknown>;
  /** Writes the end of a call into the ledger, where it is missing. */
  restoreEnd(approval: Approval): Promise<void>;
  readonly onProblem: (problem: string) => void;
}

const BUSY_MS = 500;
const IDLE_MS = 3_000;
const AT_ONCE = 100;
const AGAIN_MS = 5_000;
const OTHERS_MS = 10_000;
const KEPT_MS = 30 * 86_400_000;

export function createWorker(parts: WorkerParts): Worker {
  const { store, changes, permits, desk, runtime } = parts;
  const running = new Map<string, Promise<Outcome>>();
  const notBefore = new Map<string, number>();
  let timer: NodeJS.Timeout | undefined;
  let looking: Promise<void> | undefined;
  let started = false;
  let closed = false;
  let prunedAt = 0;

  /** What processes that are gone have left behind. */
  async function clearUp(): Promise<void> {
    for (const { approval, executor } of await store.claimed()) {
      if (!permits.isLeft({ approval, executor })) continue;
      if (approval.state === "executing" && approval.begunAt === undefined) {
        // Nobody has entered its handler: it is as good as when it was agreed to.
        await store.release(approval.id, executor.id);
      } else {
        if (approval.state === "executing") await store.interrupt(approval.id, executor.id, runtime.now());
        // Whoever does it may be gone before it is done, too.
        if (await permits.takeOver({ approval, executor })) await restored(approval.id);
      }
      changes.made(approval.id);
    }
  }

  async function restored(id: string): Promise<void> {
    const left = await store.get(id);
    if (left !== undefined) await parts.restoreEnd(left);
    await store.recorded(id);
  }

  /** Agreed to under another policy: a process that has it may be there, and this one could only say that it must not run. */
  function isAnothers({ policyVersion, answer }: Approval, now: Date): boolean {
    if (parts.hadPolicy(policyVersion)) return false;
    return answer !== undefined && Date.parse(answer.at) + OTHERS_MS > now.getTime();
  }

  /** `isAskedFor`: somebody wants this one run here, and has left others the time to. */
  async function claimed(approval: Approval, isAskedFor = false): Promise<boolean> {
    if (closed || running.has(approval.id) || !parts.knows(approval.action)) return false;
    const now = runtime.now();
    if (approval.expiresAt <= now.toISOString() || (notBefore.get(approval.id) ?? 0) > now.getTime()) return false;
    if (!isAskedFor && isAnothers(approval, now)) return false;
    const permit = await permits.claim(approval);
    if (permit === undefined) return false;
    const work = parts.resume(permit).finally(() => {
      running.delete(approval.id);
      // Where it could not be run now, it is not tried again at once.
      notBefore.set(approval.id, runtime.now().getTime() + AGAIN_MS);
      changes.made(approval.id);
    });
    running.set(approval.id, work);
    return true;
  }

  async function runApproved(id?: string): Promise<readonly string[]> {
    const begun: string[] = [];
    if (id !== undefined) {
      const one = await store.get(id);
      if (one?.state === "approved" && (await claimed(one, true))) begun.push(one.id);
      return begun;
    }
    // Page by page: calls of actions that are not known here must not stand in the way of others.
    for (let after: string | undefined; ; ) {
      const page = await store.list({ state: "approved", limit: AT_ONCE, ...(after === undefined ? {} : { after }) });
      for (const approval of page) if (await claimed(approval)) begun.push(approval.id);
      after = page.at(-1)?.id;
      if (page.length < AT_ONCE) break;
    }
    for (const [each, at] of notBefore) if (at <= runtime.now().getTime()) notBefore.delete(each);
    return begun;
  }

  async function look(): Promise<void> {
    await permits.keepRest();
    await clearUp();
    await desk.expireOld();
    await runApproved();
    const now = runtime.now().getTime();
    if (now - prunedAt > KEPT_MS / 30) {
      prunedAt = now;
      await Promise.all([store.prune(new Date(now - KEPT_MS)), parts.prune(new Date(now - KEPT_MS))]);
    }
  }

  async function tick(): Promise<void> {
    let wait = IDLE_MS;
    try {
      await look();
      const open = await store.list({ state: ["pending", "approved", "executing"], limit: 1 });
      if (open.length > 0) wait = BUSY_MS;
    } catch (thrown) {
      parts.onProblem(`approvals could not be looked after: ${messageOf(thrown)}`);
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
      await permits.keepRest();
      await clearUp();
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
