import { QmError } from "../core/errors.ts";
import { Lease, LeaseRenewal } from "../core/lease.ts";
import type { Outcome } from "../core/outcome.ts";
import type { ProcessInfo, Runtime } from "../core/runtime.ts";
import { type Approval, formatExpiryReason } from "./approval.ts";
import type { ApprovalStore, ClaimedApproval } from "./approval-store.ts";

/** The right to run one approved call, once, held by this process. */
export interface ExecutionPermit {
  readonly approval: Approval;
  readonly executor: string;
  /** Says for good that the handler is about to be entered. Throws where the call has been taken away meanwhile. */
  begin(): Promise<void>;
  /**
   * Keeps the outcome. A call that did not begin can be run later, where what stood in its way passes; where not, or where
   * whoever made it hears of it now, it never runs.
   */
  ended(outcome: Outcome, heard: boolean): Promise<"kept" | "released">;
  /** The outcome is in the ledger, too, and was given to whoever made the call, where they hear it now. */
  recorded(heard: boolean): Promise<void>;
  /** Nothing more is done with it here: what is still to be done is for whoever clears up. */
  leave(): void;
}

export interface PermitService {
  /** Undefined where it is not to be had: somebody else has it, or nobody agreed. */
  claim(approval: Approval): Promise<ExecutionPermit | undefined>;
  /** Tries again to keep outcomes that could not be kept. */
  storeRemaining(): Promise<void>;
  /** Whether nobody is at work on it any more: its process is gone, or this one has let go of it and could not say so. */
  isAbandoned(claimed: ClaimedApproval): boolean;
  /** Whether it is this process that writes down how a call ended whose own process is gone. */
  takeOver(left: ClaimedApproval): Promise<boolean>;
  close(): void;
}

const LEASE_MS = 20_000;

/** What says nothing about the call itself: it can be run as soon as that has passed. */
const TRANSIENT_CODES: ReadonlySet<string> = new Set([
  "cancelled",
  "internal",
  "ledger_failed",
  "overloaded",
  "store_failed",
  "timed_out",
]);
/** So much of a result is kept with its approval, in characters. */
const STORED_RESULT_LIMIT = 4 * 1024 * 1024;

export interface PermitServiceOptions {
  readonly store: ApprovalStore;
  readonly runtime: Runtime;
  readonly self: ProcessInfo;
  /** Whether the ledger has the decision that the row claims. Where it has not, this ends the approval. */
  isConfirmed(approval: Approval): Promise<boolean>;
}

export function createPermitService({
  store,
  runtime,
  self,
  isConfirmed: isBorneOut,
}: PermitServiceOptions): PermitService {
  const lease = new Lease({ runtime, self, durationMs: LEASE_MS });
  const executor = lease.id;
  const held = new LeaseRenewal(LEASE_MS / 4, () => store.renew(executor, lease.holder().leaseUntil));
  /** What ran here and could not be kept: as long as this process lives, it is not lost. */
  const unstored = new Map<string, { readonly at: Date; readonly outcome: Outcome }>();

  async function finish(id: string, ended: { readonly at: Date; readonly outcome: Outcome }): Promise<void> {
    unstored.set(id, ended);
    await store.finish(id, executor, ended);
    unstored.delete(id);
  }

  return {
    async storeRemaining() {
      // One that cannot be kept must not keep the others from it; it is tried again.
      for (const [id, ended] of unstored) await finish(id, ended).catch(() => {});
    },
    async claim(approval) {
      const { id } = approval;
      if (!(await isBorneOut(approval)) || !(await store.claim(id, lease.holder()))) return undefined;
      held.add(id);
      let begun = false;
      return {
        approval,
        executor,
        async begin() {
          if (!(await store.begin(id, executor, runtime.now()))) throw createTakenError(approval);
          begun = true;
        },
        async ended(outcome, heard) {
          const isReleased = !begun && !heard && isTransient(outcome);
          if (begun) await finish(id, { at: runtime.now(), outcome: limitOutcome(outcome) });
          else if (isReleased) await store.release(id, executor);
          else await store.void(id, executor, createVoidAnswer(approval, outcome, runtime.now()));
          return isReleased ? "released" : "kept";
        },
        async recorded(heard) {
          // What never began here may be another's by now.
          if (!begun) return;
          await store.markRecorded(id);
          if (heard) await store.deliver(id);
        },
        leave: () => held.delete(id),
      };
    },
    isAbandoned({ approval, executor: holder }) {
      if (holder.id === executor) return !held.has(approval.id) && !unstored.has(approval.id);
      return lease.hasEnded(holder);
    },
    takeOver: ({ approval, executor: gone }) => store.takeOver(approval.id, gone, lease.holder()),
    close: () => held.close(),
  };
}

function isTransient(outcome: Outcome): boolean {
  return "error" in outcome && TRANSIENT_CODES.has(outcome.error.code);
}

/** A result that is too long to be kept is told as far as a model would be. */
function limitOutcome(outcome: Outcome): Outcome {
  if (outcome.status !== "done" || (JSON.stringify(outcome)?.length ?? 0) <= STORED_RESULT_LIMIT) return outcome;
  const { content: _, forModel: _shown, ...rest } = outcome;
  return { ...rest, data: { cut: outcome.value } };
}

function createVoidAnswer({ answer }: Approval, outcome: Outcome, at: Date) {
  const why = outcome.status === "done" || outcome.status === "waiting" ? "it was not run" : outcome.reason;
  const reason = formatExpiryReason(answer, why);
  return { decision: "expired", by: "quartermaster", via: "resume", at: at.toISOString(), reason } as const;
}

function createTakenError({ action }: Approval): QmError {
  return new QmError("conflict", `${action} is run by another process, or may not be run any more`, {
    hint: "Nothing was run here.",
  });
}
