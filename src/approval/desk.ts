import { yieldToEventLoop } from "../core/async.ts";
import { type Caller, isSameCaller } from "../core/caller.ts";
import { QmError } from "../core/errors.ts";
import type { EventType, NewEvent, UnstampedEvent } from "../core/events.ts";
import { clip, isRecord, type Json } from "../core/json.ts";
import type { Masked } from "../core/known-secret.ts";
import { modelData, type Outcome } from "../core/outcome.ts";
import type { Runtime } from "../core/runtime.ts";
import { approverObjection, type CompiledApprovals } from "../policy/approvers.ts";
import {
  type Approval,
  type Approver,
  type GivenAnswer,
  isOver,
  overWith,
  REASON_LIMIT,
  type ShownApproval,
} from "./approval.ts";
import type { ApprovalStore } from "./approval-store.ts";
import type { Approvals } from "./approvals.ts";
import type { Changes, Wait } from "./changes.ts";
import { outcomeOf } from "./ending.ts";
import { showApproval } from "./shown.ts";

/** An event about an approval, before it is said when. */
export type ApprovalEvent = UnstampedEvent<Extract<EventType, `approval.${string}`>>;

export interface DeskParts {
  readonly store: ApprovalStore;
  readonly changes: Changes;
  readonly runtime: Runtime;
  readonly settings: () => CompiledApprovals;
  /** Hides known secrets from whoever is shown a call. */
  readonly mask: (value: Json) => Masked;
  /** Writes down what happened, for the caller of the call; resolves when it outlives the process. */
  note(caller: Caller, event: ApprovalEvent): Promise<void>;
  /** The event as it would be written down. */
  prepare(caller: Caller, event: ApprovalEvent): NewEvent;
}

/** What is done with approvals but for running them. */
export interface Desk extends Pick<Approvals, "list" | "get" | "reveal" | "answer" | "withdraw" | "outcome" | "look"> {
  readonly shown: (approval: Approval) => ShownApproval;
  /** Ends every question that nobody answered in time. */
  expireOld(): Promise<void>;
  expire(approval: Approval, reason: string, who?: { readonly by: string; readonly via: string }): Promise<boolean>;
}

const CLOCK = { by: "quartermaster", via: "clock" };
const LATE = "its time was over before it was run";

export function createDesk({ store, changes, runtime, settings, mask, note, prepare }: DeskParts): Desk {
  const shown = (approval: Approval): ShownApproval => showApproval(approval, mask);

  async function need(id: string): Promise<Approval> {
    const approval = await store.get(id);
    if (approval !== undefined) return approval;
    throw unknownApproval(id);
  }

  function isLate({ state, expiresAt }: Approval): boolean {
    return (state === "pending" || state === "approved") && expiresAt <= runtime.now().toISOString();
  }

  async function expire(approval: Approval, why: string, who = CLOCK): Promise<boolean> {
    const at = runtime.now().toISOString();
    const reason = overWith(approval.answer, why);
    if (!(await store.expire(approval.id, { decision: "expired", ...who, at, reason }))) return false;
    await note(approval.caller, { type: "approval.expired", data: { ...aboutOf(approval), reason } });
    changes.made(approval.id);
    return true;
  }

  function expireLate(approval: Approval): Promise<boolean> {
    return expire(approval, approval.state === "approved" ? LATE : "nobody answered in time");
  }

  async function expireOld(): Promise<void> {
    for (;;) {
      const expired = await Promise.all((await store.late(runtime.now())).map(expireLate));
      if (!expired.includes(true)) return;
    }
  }

  async function end(approval: Approval, wait: Wait): Promise<Approval> {
    if (isLate(approval)) await expireLate(approval);
    return (await changes.until(approval.id, isOver, wait)) ?? approval;
  }

  async function refuse(approval: Approval, approver: Approver, reason: string): Promise<void> {
    const data = { ...aboutOf(approval), by: approver.id, via: approver.via, reason };
    await note(approval.caller, { type: "approval.refused", data });
  }

  async function requireAble(approval: Approval, approver: Approver, decision: "approved" | "denied"): Promise<void> {
    const objection = approverObjection(settings(), approval, approver, decision);
    if (objection === undefined) return;
    await refuse(approval, approver, objection);
    throw new QmError("denied", objection, {
      hint: "Somebody with one of those roles must answer.",
      details: { approval_id: approval.id },
    });
  }

  return {
    shown,
    expire,
    expireOld,
    async list(query = {}) {
      await expireOld();
      const found: ShownApproval[] = [];
      for (const approval of await store.list(query)) {
        found.push(shown(approval));
        // Each may be long: others have their turn in between.
        await yieldToEventLoop();
      }
      return found;
    },
    async get(id) {
      const approval = await need(id);
      if (isLate(approval)) await expireLate(approval);
      return shown(await need(id));
    },
    async reveal(id, approver) {
      requireApprover(approver);
      const approval = await need(id);
      await requireAble(approval, approver, "approved");
      const names = shown(approval).masked.map(({ name }) => name);
      const data = { ...aboutOf(approval), by: approver.id, via: approver.via, names };
      // Written down before it is shown.
      await note(approval.caller, { type: "approval.revealed", data });
      return showApproval(approval, (value) => ({ value, masked: [] }));
    },
    async answer(id, answer, approver) {
      requireAnswer(answer, approver);
      const { decision, reason } = answer;
      const approval = await need(id);
      await requireAble(approval, approver, decision);
      if (isLate(approval)) await expireLate(approval);
      const given = { decision, by: approver.id, via: approver.via, at: runtime.now().toISOString(), ...why(reason) };
      const { at: _, ...told } = given;
      const data = { ...aboutOf(approval), ...told, binding: approval.binding };
      const decided = prepare(approval.caller, { type: "approval.decided", data });
      if (!(await store.answer(id, given, [decided]))) {
        const settled = await need(id);
        await refuse(settled, approver, settledReason(settled));
        throw alreadySettled(settled);
      }
      changes.made(id);
      return shown(await need(id));
    },
    async withdraw(id, caller, reason) {
      const approval = await need(id);
      if (!isSameCaller(approval.caller, caller)) throw unknownApproval(id);
      const by = { by: caller.actor, via: "withdrawn" };
      if (await expire(approval, why(reason).reason ?? "it was taken back", by)) return shown(await need(id));
      throw alreadySettled(await need(id));
    },
    async outcome(id, { caller, signal, timeoutMs } = {}) {
      const approval = await need(id);
      if (caller !== undefined && !isSameCaller(approval.caller, caller)) throw unknownApproval(id);
      const ended = await end(approval, { signal, timeoutMs });
      if (isOver(ended)) await store.deliver(id);
      return outcomeOf(ended);
    },
    look: async (id, wait = {}) => forOnlookers(outcomeOf(await end(await need(id), wait))),
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
function forOnlookers(outcome: Outcome): Outcome {
  return outcome.status === "done" ? { ...outcome, data: modelData(outcome) } : outcome;
}

export function aboutOf({ callId, id, action }: Approval) {
  return { callId, approvalId: id, action };
}

function why(reason: string | undefined): { readonly reason?: string } {
  const text = reason?.trim() ?? "";
  return text === "" ? {} : { reason: clip(text, REASON_LIMIT) };
}

function unknownApproval(id: string): QmError {
  return new QmError("not_found", `there is no approval ${JSON.stringify(clip(id, 80))}`, {
    hint: "It may be another caller's, or long over.",
  });
}

function settledReason({ state, answer }: Approval): string {
  return answer === undefined ? `it is ${state}` : `it was ${answer.decision} before, ${byWhom(answer)}`;
}

function byWhom({ by, via, at }: GivenAnswer): string {
  return `by ${by} via ${via} at ${at}`;
}

function alreadySettled(approval: Approval): QmError {
  const { id, state, answer } = approval;
  const details = { approval_id: id, state, ...(answer === undefined ? {} : { answer: { ...answer } }) };
  if (state === "expired") {
    return new QmError("approval_expired", `the question is over: ${answer?.reason ?? "nobody answered in time"}`, {
      hint: "It was not run. Whoever wants it must ask again.",
      details,
    });
  }
  return new QmError("conflict", `this call was answered already: ${settledReason(approval)}`, {
    hint: "The first answer counts; yours changed nothing.",
    details,
  });
}
