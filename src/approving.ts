import type { Approval } from "./approval/approval.ts";
import type { ApprovalStore } from "./approval/approval-store.ts";
import type { Approvals, AskPerson } from "./approval/approvals.ts";
import { createChanges } from "./approval/changes.ts";
import { type ApprovalEvent, aboutOf, createDesk } from "./approval/desk.ts";
import { outcomeOf } from "./approval/ending.ts";
import { createGatekeeper, type Gatekeeper } from "./approval/gatekeeper.ts";
import { createPermits, type Permit } from "./approval/permits.ts";
import { createWorker, type Worker } from "./approval/worker.ts";
import type { Caller } from "./core/caller.ts";
import type { EventType, NewEvent } from "./core/events.ts";
import { isRecord, type Json } from "./core/json.ts";
import type { Masked } from "./core/known-secret.ts";
import type { Outcome } from "./core/outcome.ts";
import type { Runtime } from "./core/runtime.ts";
import { followApprovals } from "./follow-approvals.ts";
import { callerStamp, summary } from "./invoke/record.ts";
import { lineHash } from "./ledger/chain.ts";
import type { Ledger } from "./ledger/ledger.ts";
import { REDACTED } from "./ledger/secret-text.ts";
import type { Policy } from "./policy/policy.ts";
import { systemProcess } from "./system-runtime.ts";

export interface ApprovingParts {
  readonly store: ApprovalStore;
  readonly ledger: Ledger;
  readonly runtime: Runtime;
  readonly policy: () => Policy;
  /** Whether it is the policy in force here, or was. */
  hadPolicy(version: string): boolean;
  /** Hides known secrets from whoever is shown a call. */
  readonly mask: (value: Json) => Masked;
  readonly ask?: AskPerson | undefined;
  knows(action: string): boolean;
  /** Removes what else is over and older than that. */
  prune(before: Date): Promise<unknown>;
  /** Runs a call that was agreed to, through the one door. */
  resume(permit: Permit): Promise<Outcome>;
  readonly onProblem: (problem: string) => void;
}

export interface Approving {
  readonly approvals: Approvals;
  readonly gatekeeper: Gatekeeper & { close(): void };
  readonly worker: Worker;
}

/** Everything about calls that wait for a person, put together. */
export function createApproving(parts: ApprovingParts): Approving {
  const { store, ledger, runtime, mask, onProblem } = parts;
  const settings = () => parts.policy().approvals;
  const changes = createChanges(store);
  const stamped = (caller: Caller, event: ApprovalEvent) =>
    ({ ...event, at: runtime.now(), ...callerStamp(caller) }) as NewEvent;

  async function note(caller: Caller, event: ApprovalEvent): Promise<void> {
    await ledger.flushed(ledger.record(stamped(caller, event)));
  }

  const desk = createDesk({
    store,
    changes,
    runtime,
    settings,
    mask,
    note,
    prepare: (caller, event) => ledger.prepare(stamped(caller, event)),
  });
  const permits = createPermits({
    store,
    runtime,
    self: systemProcess,
    async isBorneOut(approval) {
      const objection = await ledgerObjection(ledger, approval);
      if (objection === undefined) return true;
      onProblem(`approval ${approval.id} does not run: ${objection}`);
      // Whoever is named in the row has not agreed to anything, as far as the ledger knows.
      const { answer: _, ...unanswered } = approval;
      await desk.expire(unanswered, objection, { by: "quartermaster", via: "ledger" });
      return false;
    },
  });
  const worker = createWorker({
    store,
    changes,
    permits,
    desk,
    runtime,
    hadPolicy: parts.hadPolicy,
    knows: parts.knows,
    resume: parts.resume,
    restoreEnd,
    prune: parts.prune,
    onProblem,
  });
  const gatekeeper = createGatekeeper({
    store,
    permits,
    changes,
    settings,
    newId: runtime.newId,
    now: runtime.now,
    ask: parts.ask,
    shown: desk.shown,
    answer: desk.answer,
    async expired(approval, reason) {
      await desk.expire(approval, reason, { by: approval.caller.actor, via: approval.via });
    },
    requested: (approval) => note(approval.caller, { type: "approval.requested", data: requestOf(approval) }),
    onProblem,
  });

  async function isWritten(callId: string, type: NewEvent["type"]): Promise<boolean> {
    return (await ledger.read({ callId, type, limit: 1 })).length > 0;
  }

  /** The end of a call whose process was gone before it could write it. */
  async function restoreEnd(approval: Approval): Promise<void> {
    const { callId, caller, state } = approval;
    if (state === "interrupted" && !(await isWritten(callId, "approval.interrupted"))) {
      await note(caller, { type: "approval.interrupted", data: aboutOf(approval) });
    }
    const outcome = outcomeOf(approval);
    if (outcome.status === "waiting" || (await isWritten(callId, "call.ended"))) return;
    const data = { callId, ...summary(outcome, undefined) };
    const number = ledger.record({ type: "call.ended", at: runtime.now(), ...callerStamp(caller), data });
    await ledger.flushed(number);
  }

  return {
    gatekeeper,
    worker,
    approvals: {
      list: desk.list,
      get: desk.get,
      reveal: desk.reveal,
      async answer(id, answer, approver) {
        const answered = await desk.answer(id, answer, approver);
        worker.nudge();
        return answered;
      },
      withdraw: desk.withdraw,
      outcome: desk.outcome,
      look: desk.look,
      run: worker.run,
      onChange: (listener) => followApprovals({ ledger, store, shown: desk.shown, onProblem }, listener),
    },
  };
}

/**
 * Why an approval may not run although its row says approved: the ledger has no such decision about this very call, or
 * says that it is over. A row can be edited by whoever can write the store; its event is hashed into the session's chain.
 */
async function ledgerObjection(ledger: Pick<Ledger, "read">, approval: Approval): Promise<string | undefined> {
  const { id, callId, binding, answer } = approval;
  const about = async (type: EventType) =>
    (await ledger.read({ callId, type })).flatMap((event) => {
      const data = isRecord(event.data) ? event.data : {};
      const isAbout = type === "call.ended" || data.approvalId === id;
      return isAbout && lineHash(event) === event.hash ? [{ id: event.id, data }] : [];
    });
  const [decided] = (await about("approval.decided")).filter(({ data }) => data.decision === "approved");
  if (decided === undefined) return "the ledger has no approval of it";
  const by = String(decided.data.by);
  if (by !== answer?.by && !by.includes(REDACTED)) return "the ledger says that somebody else approved it";
  // Events from before they had the binding: the question has it.
  const bound = decided.data.binding ?? (await about("approval.requested"))[0]?.data.binding;
  if (bound !== binding) return "the ledger has a question about another call";
  const over = [...(await about("approval.expired")), ...(await about("approval.interrupted"))];
  // A caller that went away while the question stood has ended, too, and what it asked for still runs.
  const ended = (await about("call.ended")).filter(({ id, data }) => id > decided.id && data.code !== "cancelled");
  return over.length > 0 || ended.length > 0 ? "the ledger says that it is over" : undefined;
}

function requestOf(approval: Approval) {
  const { definition, level, rule, binding, policyVersion, expiresAt } = approval;
  return { ...aboutOf(approval), definition, level, rule, binding, policyVersion, expiresAt };
}
