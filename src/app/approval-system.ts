import { type Approval, type Approvals, type AskPerson, toApprovalOutcome } from "../approval/approval.ts";
import { type ApprovalGate, createApprovalGate } from "../approval/approval-gate.ts";
import { type ApprovalEvent, createApprovalService, toEventFields } from "../approval/approval-service.ts";
import { type ApprovalStore, createApprovalWatcher } from "../approval/approval-store.ts";
import { type ApprovalWorker, createApprovalWorker } from "../approval/approval-worker.ts";
import { createPermitService, type ExecutionPermit } from "../approval/permits.ts";
import type { Caller } from "../core/caller.ts";
import { getErrorMessage } from "../core/errors.ts";
import type { EventType, NewEvent } from "../core/events.ts";
import { isRecord, type Json } from "../core/json.ts";
import type { MaskedValue } from "../core/known-secret.ts";
import { LruMap } from "../core/lru-map.ts";
import type { Outcome } from "../core/outcome.ts";
import type { Runtime } from "../core/runtime.ts";
import { summarizeEnd, toCallerFields } from "../invoke/call-record.ts";
import type { StoredEvent } from "../ledger/event-store.ts";
import { hashLine } from "../ledger/hash-chain.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { REDACTED_TEXT } from "../ledger/secret-text.ts";
import type { Policy } from "../policy/policy.ts";
import { systemProcess } from "./system-runtime.ts";

interface ApprovalSystemOptions {
  readonly store: ApprovalStore;
  readonly ledger: Ledger;
  readonly runtime: Runtime;
  readonly policy: () => Policy;
  /** Whether the policy is or was in force in this process. */
  hadPolicy(version: string): boolean;
  /** Masks known secrets in what approvers see. */
  readonly mask: (value: Json) => MaskedValue;
  readonly ask?: AskPerson | undefined;
  knows(action: string): boolean;
  /** Removes other finished records that are older. */
  prune(before: Date): Promise<unknown>;
  resume(permit: ExecutionPermit): Promise<Outcome>;
  readonly onProblem: (problem: string) => void;
}

export function createApprovalSystem(parts: ApprovalSystemOptions): {
  readonly approvals: Approvals;
  readonly gatekeeper: ApprovalGate & { close(): void };
  readonly worker: ApprovalWorker;
} {
  const { store, ledger, runtime, mask, onProblem } = parts;
  const settings = () => parts.policy().approvals;
  const changes = createApprovalWatcher(store);
  const stampEvent = (caller: Caller, event: ApprovalEvent) =>
    ({ ...event, at: runtime.now(), ...toCallerFields(caller) }) as NewEvent;

  async function note(caller: Caller, event: ApprovalEvent): Promise<void> {
    await ledger.flush(ledger.record(stampEvent(caller, event)));
  }

  const prepare = (caller: Caller, event: ApprovalEvent) => ledger.prepare(stampEvent(caller, event));
  const service = createApprovalService({ store, changes, runtime, settings, mask, note, prepare });
  const { toView, expire, expireOld: _, ...methods } = service;
  const permits = createPermitService({
    store,
    runtime,
    self: systemProcess,
    async isConfirmed(approval) {
      const objection = await findLedgerObjection(ledger, approval);
      if (objection === undefined) return true;
      onProblem(`approval ${approval.id} does not run: ${objection}`);
      // The ledger knows of no approval by the person in the row.
      const { answer: _answer, ...unanswered } = approval;
      await expire(unanswered, objection, { by: "quartermaster", via: "ledger" });
      return false;
    },
  });
  const worker = createApprovalWorker({ ...parts, changes, permits, service, restoreEnd });
  const waiting = { permits, changes, settings, toView, newId: runtime.newId, now: runtime.now };
  const gatekeeper = createApprovalGate({
    ...parts,
    ...waiting,
    answer: service.answer,
    readFiles: service.readFiles,
    async expire(approval, reason) {
      await expire(approval, reason, { by: approval.caller.actor, via: approval.via });
    },
    recordRequest(approval) {
      const { caller, definition, level, rule, binding, policyVersion, expiresAt } = approval;
      const data = { ...toEventFields(approval), definition, level, rule, binding, policyVersion, expiresAt };
      return note(caller, { type: "approval.requested", data });
    },
  });

  async function isRecorded(callId: string, type: NewEvent["type"]): Promise<boolean> {
    return (await ledger.read({ callId, type, limit: 1 })).length > 0;
  }

  /** Records the end of a call whose process died before it could. */
  async function restoreEnd(approval: Approval): Promise<void> {
    const { callId, caller, state } = approval;
    if (state === "interrupted" && !(await isRecorded(callId, "approval.interrupted"))) {
      await note(caller, { type: "approval.interrupted", data: toEventFields(approval) });
    }
    const outcome = toApprovalOutcome(approval);
    if (outcome.status === "waiting" || (await isRecorded(callId, "call.ended"))) return;
    const data = summarizeEnd(callId, outcome, undefined);
    await ledger.flush(ledger.record({ type: "call.ended", at: runtime.now(), ...toCallerFields(caller), data }));
  }

  return {
    gatekeeper,
    worker,
    approvals: {
      ...methods,
      async answer(id, answer, approver) {
        const answered = await service.answer(id, answer, approver);
        worker.nudge();
        return answered;
      },
      run: worker.run,
      onChange: (listener) => followApprovals(ledger, store, (approval) => listener(toView(approval)), onProblem),
    },
  };
}

const POLL_MS = 500;
const BATCH_LIMIT = 500;

/** Calls back with every approval that changes in any process, by polling the ledger. */
function followApprovals(
  ledger: Pick<Ledger, "read">,
  store: Pick<ApprovalStore, "get">,
  notify: (approval: Approval) => void,
  onProblem: (problem: string) => void,
): () => void {
  const running = new LruMap<string, string>(BATCH_LIMIT);
  let timer: NodeJS.Timeout | undefined;
  let after: number | undefined;
  let stopped = false;

  function findApprovalId({ type, data, callId }: StoredEvent): string | undefined {
    const id = isRecord(data) && typeof data.approvalId === "string" ? data.approvalId : undefined;
    if (type === "call.resumed" && callId !== null && id !== undefined) running.set(callId, id);
    if (type === "call.resumed" || type.startsWith("approval.")) return id;
    if (type !== "call.ended" || callId === null) return undefined;
    const ended = running.get(callId);
    running.delete(callId);
    return ended;
  }

  async function poll(): Promise<void> {
    try {
      after ??= (await ledger.read({ limit: 1 })).at(-1)?.id ?? 0;
      const events = await ledger.read({ after, limit: BATCH_LIMIT });
      after = events.at(-1)?.id ?? after;
      for (const id of new Set(events.map(findApprovalId).filter((id) => id !== undefined))) {
        const approval = await store.get(id);
        if (approval === undefined || stopped) continue;
        try {
          notify(approval);
        } catch (thrown) {
          onProblem(`a listener for approvals failed: ${getErrorMessage(thrown)}`);
        }
      }
    } catch (thrown) {
      onProblem(`changes of approvals could not be followed: ${getErrorMessage(thrown)}`);
    }
    if (!stopped) timer = setTimeout(poll, POLL_MS).unref();
  }

  void poll();
  return () => {
    stopped = true;
    clearTimeout(timer);
  };
}

/** Why an approved row may not run: anyone who can write the store can edit a row, but not the hashed ledger. */
async function findLedgerObjection(ledger: Pick<Ledger, "read">, approval: Approval): Promise<string | undefined> {
  const { id, callId, binding, answer } = approval;
  const about = async (type: EventType) =>
    (await ledger.read({ callId, type })).flatMap((event) => {
      const data = isRecord(event.data) ? event.data : {};
      const isAbout = type === "call.ended" || data.approvalId === id;
      return isAbout && hashLine(event) === event.hash ? [{ id: event.id, data }] : [];
    });
  const [decided] = (await about("approval.decided")).filter(({ data }) => data.decision === "approved");
  if (decided === undefined) return "the ledger has no approval of it";
  const by = String(decided.data.by);
  if (by !== answer?.by && !by.includes(REDACTED_TEXT)) return "the ledger names another approver";
  // Older events lack the binding; the request has it.
  const bound = decided.data.binding ?? (await about("approval.requested"))[0]?.data.binding;
  if (bound !== binding) return "the ledger's request is about another call";
  const over = [...(await about("approval.expired")), ...(await about("approval.interrupted"))];
  // A call also ends when its caller leaves while it waits; an approved one runs nevertheless.
  const ended = (await about("call.ended")).filter(({ id, data }) => id > decided.id && data.code !== "cancelled");
  return over.length > 0 || ended.length > 0 ? "the ledger says that it has ended" : undefined;
}
