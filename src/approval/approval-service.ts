import { yieldToEventLoop } from "../core/async.ts";
import { type Caller, isSameCaller } from "../core/caller.ts";
import { QmError } from "../core/errors.ts";
import type { EventType, NewEvent, UnstampedEvent } from "../core/events.ts";
import { clip, isRecord, type Json } from "../core/json.ts";
import type { MaskedValue } from "../core/known-secret.ts";
import { getModelData, type Outcome } from "../core/outcome.ts";
import type { Runtime } from "../core/runtime.ts";
import { type CompiledApprovals, checkApprover } from "../policy/approval-rules.ts";
import type { Approvals } from "./approval.ts";
import {
  type Approval,
  type ApprovalView,
  type Approver,
  formatExpiryReason,
  isFinished,
  REASON_LIMIT,
  type RecordedAnswer,
  toApprovalOutcome,
} from "./approval.ts";
import type { ApprovalStore, ApprovalWait, ApprovalWatcher } from "./approval-store.ts";
import { toApprovalView } from "./approval-view.ts";

/** An event about an approval, before it is said when. */
export type ApprovalEvent = UnstampedEvent<Extract<EventType, `approval.${string}`>>;

export interface ApprovalServiceOptions {
  readonly store: ApprovalStore;
  readonly changes: ApprovalWatcher;
  readonly runtime: Runtime;
  readonly settings: () => CompiledApprovals;
  /** Hides known secrets from whoever is shown a call. */
  readonly mask: (value: Json) => MaskedValue;
  /** Writes down what happened, for the caller of the call; resolves when it outlives the process. */
  note(caller: Caller, event: ApprovalEvent): Promise<void>;
  /** The event as it would be written down. */
  prepare(caller: Caller, event: ApprovalEvent): NewEvent;
}

/** What is done with approvals but for running them. */
export interface ApprovalService
  extends Pick<Approvals, "list" | "get" | "reveal" | "answer" | "withdraw" | "outcome" | "look"> {
  readonly toView: (approval: Approval) => ApprovalView;
  /** Ends every question that nobody answered in time. */
  expireOld(): Promise<void>;
  expire(approval: Approval, reason: string, who?: { readonly by: string; readonly via: string }): Promise<boolean>;
}

const CLOCK = { by: "quartermaster", via: "clock" };
const LATE = "its time was over before it was run";

export function createApprovalService({
  store,
  changes,
  runtime,
  settings,
  mask,
  note,
  prepare,
}: ApprovalServiceOptions): ApprovalService {
  const toView = (approval: Approval): ApprovalView => toApprovalView(approval, mask);

  async function getApproval(id: string): Promise<Approval> {
    const approval = await store.get(id);
    if (approval !== undefined) return approval;
    throw createUnknownApprovalError(id);
  }

  function isLate({ state, expiresAt }: Approval): boolean {
    return (state === "pending" || state === "approved") && expiresAt <= runtime.now().toISOString();
  }

  async function expire(approval: Approval, why: string, who = CLOCK): Promise<boolean> {
    const at = runtime.now().toISOString();
    const reason = formatExpiryReason(approval.answer, why);
    if (!(await store.expire(approval.id, { decision: "expired", ...who, at, reason }))) return false;
    await note(approval.caller, { type: "approval.expired", data: { ...toEventFields(approval), reason } });
    changes.notify(approval.id);
    return true;
  }

  function expireLate(approval: Approval): Promise<boolean> {
    return expire(approval, approval.state === "approved" ? LATE : "nobody answered in time");
  }

  async function expireOld(): Promise<void> {
    for (;;) {
      const expired = await Promise.all((await store.listLate(runtime.now())).map(expireLate));
      if (!expired.includes(true)) return;
    }
  }

  async function waitForEnd(approval: Approval, wait: ApprovalWait): Promise<Approval> {
    if (isLate(approval)) await expireLate(approval);
    return (await changes.waitUntil(approval.id, isFinished, wait)) ?? approval;
  }

  async function refuse(approval: Approval, approver: Approver, reason: string): Promise<void> {
    const data = { ...toEventFields(approval), by: approver.id, via: approver.via, reason };
    await note(approval.caller, { type: "approval.refused", data });
  }

  async function requirePermission(
    approval: Approval,
    approver: Approver,
    decision: "approved" | "denied",
  ): Promise<void> {
    const objection = checkApprover(settings(), approval, approver, decision);
    if (objection === undefined) return;
    await refuse(approval, approver, objection);
    throw new QmError("denied", objection, {
      hint: "Somebody with one of those roles must answer.",
      details: { approval_id: approval.id },
    });
  }

  return {
    toView,
    expire,
    expireOld,
    async list(query = {}) {
      await expireOld();
      const found: ApprovalView[] = [];
      for (const approval of await store.list(query)) {
        found.push(toView(approval));
        // Each may be long: others have their turn in between.
        await yieldToEventLoop();
      }
      return found;
    },
    async get(id) {
      const approval = await getApproval(id);
      if (isLate(approval)) await expireLate(approval);
      return toView(await getApproval(id));
    },
    async reveal(id, approver) {
      requireApprover(approver);
      const approval = await getApproval(id);
      await requirePermission(approval, approver, "approved");
      const names = toView(approval).masked.map(({ name }) => name);
      const data = { ...toEventFields(approval), by: approver.id, via: approver.via, names };
      // Written down before it is shown.
      await note(approval.caller, { type: "approval.revealed", data });
      return toApprovalView(approval, (value) => ({ value, masked: [] }));
    },
    async answer(id, answer, approver) {
      requireAnswer(answer, approver);
      const { decision, reason } = answer;
      const approval = await getApproval(id);
      await requirePermission(approval, approver, decision);
      if (isLate(approval)) await expireLate(approval);
      const given = { decision, by: approver.id, via: approver.via, at: runtime.now().toISOString(), ...why(reason) };
      const { at: _, ...told } = given;
      const data = { ...toEventFields(approval), ...told, binding: approval.binding };
      const decided = prepare(approval.caller, { type: "approval.decided", data });
      if (!(await store.answer(id, given, [decided]))) {
        const settled = await getApproval(id);
        await refuse(settled, approver, formatSettledReason(settled));
        throw createSettledError(settled);
      }
      changes.notify(id);
      return toView(await getApproval(id));
    },
    async withdraw(id, caller, reason) {
      const approval = await getApproval(id);
      if (!isSameCaller(approval.caller, caller)) throw createUnknownApprovalError(id);
      const by = { by: caller.actor, via: "withdrawn" };
      if (await expire(approval, why(reason).reason ?? "it was taken back", by)) return toView(await getApproval(id));
      throw createSettledError(await getApproval(id));
    },
    async outcome(id, { caller, signal, timeoutMs } = {}) {
      const approval = await getApproval(id);
      if (caller !== undefined && !isSameCaller(approval.caller, caller)) throw createUnknownApprovalError(id);
      const ended = await waitForEnd(approval, { signal, timeoutMs });
      if (isFinished(ended)) await store.deliver(id);
      return toApprovalOutcome(ended);
    },
    look: async (id, wait = {}) => limitToModelData(toApprovalOutcome(await waitForEnd(await getApproval(id), wait))),
  };
}

/** Whoever compiles is told the same; a word that is none would be kept, and the question with it lost. */
function requireAnswer(answer: unknown, approver: unknown): void {
  const { decision, reason } = isRecord(answer) ? answer : {};
  const wrong =
    decision !== "approved" && decision !== "denied"
      ? "a decision is approved or denied"
      : reason !== undefined && typeof reason !== "string"
        ? "a reason is text"
        : undefined;
  if (wrong !== undefined) throw new QmError("invalid_arguments", `${wrong}; nothing was answered`);
  requireApprover(approver);
}

function requireApprover(approver: unknown): void {
  const { id, roles, via } = isRecord(approver) ? approver : {};
  const isText = (value: unknown) => typeof value === "string" && value !== "";
  if (isText(id) && isText(via) && Array.isArray(roles) && roles.every(isText)) return;
  throw new QmError("invalid_arguments", "an approver is {id, roles, via}; nothing was answered");
}

/** Whoever only looks has not been given what the caller waits for, and sees of it what a model would. */
function limitToModelData(outcome: Outcome): Outcome {
  return outcome.status === "done" ? { ...outcome, data: getModelData(outcome) } : outcome;
}

export function toEventFields({ callId, id, action }: Approval) {
  return { callId, approvalId: id, action };
}

function why(reason: string | undefined): { readonly reason?: string } {
  const text = reason?.trim() ?? "";
  return text === "" ? {} : { reason: clip(text, REASON_LIMIT) };
}

function createUnknownApprovalError(id: string): QmError {
  return new QmError("not_found", `there is no approval ${JSON.stringify(clip(id, 80))}`, {
    hint: "It may be another caller's, or long over.",
  });
}

function formatSettledReason({ state, answer }: Approval): string {
  return answer === undefined ? `it is ${state}` : `it was ${answer.decision} before, ${formatAnswerer(answer)}`;
}

function formatAnswerer({ by, via, at }: RecordedAnswer): string {
  return `by ${by} via ${via} at ${at}`;
}

function createSettledError(approval: Approval): QmError {
  const { id, state, answer } = approval;
  const details = { approval_id: id, state, ...(answer === undefined ? {} : { answer: { ...answer } }) };
  if (state === "expired") {
    return new QmError("approval_expired", `the question is over: ${answer?.reason ?? "nobody answered in time"}`, {
      hint: "It was not run. Whoever wants it must ask again.",
      details,
    });
  }
  return new QmError("conflict", `this call was answered already: ${formatSettledReason(approval)}`, {
    hint: "The first answer counts; yours changed nothing.",
    details,
  });
}
