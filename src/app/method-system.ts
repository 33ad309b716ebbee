import { type Approvals, isFinished } from "../approval/approval.ts";
import type { Caller } from "../core/caller.ts";
import type { UnstampedEvent } from "../core/events.ts";
import { createFailedOutcome, type Outcome, VALUE_LIMIT } from "../core/outcome.ts";
import type { CallFinder } from "../core/recover-call.ts";
import type { Runtime } from "../core/runtime.ts";
import type { Notes } from "../infospace/notes.ts";
import type { CallLineage } from "../infospace/provenance.ts";
import { findCall } from "../ledger/find-call.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { createMethodRuns } from "../providers/skill/method/method-runs.ts";
import type { MethodServices } from "../providers/skill/method/method-services.ts";
import { createMethodWorker, type MethodCallRequest } from "../providers/skill/method/method-worker.ts";
import type { Store } from "../store/open-store.ts";
import { systemProcess } from "./system-runtime.ts";
import { withdrawApproval } from "./withdraw-approval.ts";

/** Runs of methods: their store, the worker that continues them, and what they read of the ledger and approvals. */
export function createMethodSystem(parts: {
  readonly store: Pick<Store, "methodRuns" | "approvals">;
  readonly approvals: Pick<Approvals, "outcome" | "withdraw">;
  readonly ledger: Pick<Ledger, "read" | "flush">;
  readonly runtime: Runtime;
  readonly lineage: Pick<CallLineage, "hold" | "resume">;
  readonly notes: Pick<Notes, "read">;
  record(caller: Caller, event: UnstampedEvent): number;
  knows(action: string): boolean;
  call(request: MethodCallRequest): Promise<Outcome>;
  readonly onProblem: (problem: string) => void;
}) {
  const { store, approvals, ledger, runtime, lineage, notes } = parts;
  const record: MethodServices["record"] = (caller, event) => ledger.flush(parts.record(caller, event));
  const isAnswered = async (approvalId: string): Promise<boolean> => {
    const approval = await store.approvals.get(approvalId);
    return approval === undefined || isFinished(approval);
  };
  const runs = createMethodRuns({
    store: store.methodRuns,
    runtime,
    self: systemProcess,
    record,
    isAnswered,
    async withdraw(approvalId) {
      await withdrawApproval(parts, approvalId, "the method was cancelled");
      // No call gets its outcome any more: the same call of another run is a new one.
      await store.approvals.deliver(approvalId);
    },
  });
  const worker = createMethodWorker({
    ...parts,
    runs,
    isAnswered,
  });
  const services: MethodServices = {
    runs,
    newId: runtime.newId,
    record,
    ...createCallFinder(ledger, approvals),
    readNote: (handle, caller) => notes.read(handle, {}, caller),
    holdSources: (runId) => lineage.hold(runId),
    resumeSources: (runId) => lineage.resume(runId),
    isOwnCall: worker.isOwnCall,
  };
  return { services, worker, methods: { list: runs.list, cancel: runs.cancel }, close: runs.close };
}

/** Finds calls whose process ended, in the ledger and among the approvals. */
export function createCallFinder(
  ledger: Pick<Ledger, "read" | "flush">,
  approvals: Pick<Approvals, "outcome">,
): CallFinder {
  return {
    findCall: (callId) => findCall(ledger, callId),
    async findApprovalOutcome(approvalId, caller) {
      try {
        const outcome = await approvals.outcome(approvalId, { caller, timeoutMs: 0 });
        return outcome.status === "waiting" ? undefined : outcome;
      } catch (thrown) {
        // Removed long after its end: the call must not be made again as if it were new.
        const ending = { callId: approvalId, durationMs: 0, valueLimit: VALUE_LIMIT, action: undefined };
        return createFailedOutcome(ending, thrown);
      }
    },
  };
}
