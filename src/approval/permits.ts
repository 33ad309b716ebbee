import { QmError } from "../core/errors.ts";
import { Lease, LeaseRenewal } from "../core/lease.ts";
import type { Outcome } from "../core/outcome.ts";
import type { ProcessInfo, Runtime } from "../core/runtime.ts";
import { type Approval, formatExpiryReason } from "./approval.ts";
import type { ApprovalStore, ClaimedApproval } from "./approval-store.ts";

/** The right of this process to run one approved call, once. */
export interface ExecutionPermit {
  readonly approval: Approval;
  readonly executor: string;
  /** The bytes of a file that the approver could read. Undefined: there is no such file. */
  readFile(path: string): Promise<Uint8Array | undefined>;
  /** Stores that the handler is about to be called. Throws `conflict` if another process has taken the call away. */
  begin(): Promise<void>;
  /** Stores the outcome. A call that has not begun may run later if the error is transient and not `heard`. */
  ended(outcome: Outcome, heard: boolean): Promise<"kept" | "released">;
  /** Marks that the ledger has the outcome and, if `heard`, the caller, too. */
  recorded(heard: boolean): Promise<void>;
  /** Gives the permit up. Anything unfinished is left to the cleanup. */
  leave(): void;
}

export type PermitService = ReturnType<typeof createPermitService>;
const LEASE_MS = 20_000;
/** The longest result stored with an approval, in characters of JSON. */
const STORED_RESULT_LIMIT = 4 * 1024 * 1024;

/** Errors that say nothing about the call itself, so that it can run later. */
const TRANSIENT_CODES = new Set(["cancelled", "internal", "ledger_failed", "overloaded", "store_failed", "timed_out"]);

export function createPermitService(options: {
  readonly store: ApprovalStore;
  readonly runtime: Runtime;
  readonly self: ProcessInfo;
  /** Whether the ledger has the decision that the row claims. If not, this expires the approval. */
  isConfirmed(approval: Approval): Promise<boolean>;
}) {
  const { store, runtime, self, isConfirmed } = options;
  const lease = new Lease({ runtime, self, durationMs: LEASE_MS });
  const executor = lease.id;
  const held = new LeaseRenewal(LEASE_MS / 4, () => store.renew(executor, lease.holder().leaseUntil));
  const unstored = new Map<string, { readonly at: Date; readonly outcome: Outcome }>();

  async function finish(id: string, ended: { readonly at: Date; readonly outcome: Outcome }): Promise<void> {
    unstored.set(id, ended);
    await store.finish(id, executor, ended);
    unstored.delete(id);
  }

  return {
    async storeRemaining(): Promise<void> {
      for (const [id, ended] of unstored) await finish(id, ended).catch(() => {});
    },
    /** Undefined if it is not approved or another process has it. */
    async claim(approval: Approval): Promise<ExecutionPermit | undefined> {
      const { id, action } = approval;
      if (!(await isConfirmed(approval)) || !(await store.claim(id, lease.holder()))) return undefined;
      held.add(id);
      let begun = false;
      return {
        approval,
        executor,
        async readFile(path) {
          const file = approval.files?.find((each) => each.path === path);
          return file && store.getContent(file.digest);
        },
        async begin() {
          if (!(await store.begin(id, executor, runtime.now())))
            throw new QmError("conflict", `another process runs ${action}, or it may no longer run`, {
              hint: "Nothing was run here.",
            });
          begun = true;
        },
        async ended(outcome, heard) {
          const isReleased = !begun && !heard && "error" in outcome && TRANSIENT_CODES.has(outcome.error.code);
          if (begun) await finish(id, { at: runtime.now(), outcome: limitOutcome(outcome) });
          else if (isReleased) await store.release(id, executor);
          else await store.void(id, executor, createVoidAnswer(approval, outcome, runtime.now()));
          return isReleased ? "released" : "kept";
        },
        async recorded(heard) {
          // A call that did not begin here may belong to another process by now.
          if (!begun) return;
          await store.markRecorded(id);
          if (heard) await store.deliver(id);
        },
        leave: () => held.delete(id),
      };
    },
    /** Whether its process is gone, or this process gave it up without storing that. */
    isAbandoned({ approval, executor: holder }: ClaimedApproval): boolean {
      if (holder.id === executor) return !held.has(approval.id) && !unstored.has(approval.id);
      return lease.hasEnded(holder);
    },
    /** Whether this process is now responsible for recording the end of an abandoned call. */
    takeOver: ({ approval, executor: gone }: ClaimedApproval) => store.takeOver(approval.id, gone, lease.holder()),
    close: (): void => held.close(),
  };
}

/** Cuts a result that is too long to store down to the text a model sees. */
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
