import { yieldToEventLoop } from "../core/async.ts";
import { type Caller, isSameCaller } from "../core/caller.ts";
import { QmError } from "../core/errors.ts";
import type { EventType, NewEvent, UnstampedEvent } from "../core/events.ts";
import { isRecord, type Json } from "../core/json.ts";
import type { MaskedValue } from "../core/known-secret.ts";
import { quoteName } from "../core/names.ts";
import { getModelData } from "../core/outcome.ts";
import type { Runtime } from "../core/runtime.ts";
import { type CompiledApprovals, checkApprover } from "../policy/approval-rules.ts";
import type { Approval, ApprovalAnswer, Approvals, ApprovalView, Approver } from "./approval.ts";
import { formatExpiryReason, isFinished, toApprovalOutcome, toReason } from "./approval.ts";
import type { ApprovalStore, ApprovalWait, ApprovalWatcher } from "./approval-store.ts";
import { toApprovalView } from "./approval-view.ts";
import { readFilePortion } from "./file-portion.ts";

export type ApprovalEvent = UnstampedEvent<Extract<EventType, `approval.${string}`>>;

export interface ApprovalService
  extends Pick<Approvals, "list" | "get" | "readFiles" | "reveal" | "answer" | "withdraw" | "outcome" | "look"> {
  readonly toView: (approval: Approval) => ApprovalView;
  expireOld(): Promise<void>;
  expire(approval: Approval, reason: string, who?: { readonly by: string; readonly via: string }): Promise<boolean>;
}

const CLOCK = { by: "quartermaster", via: "clock" };
const UNANSWERED = "nobody answered in time";

export function createApprovalService(options: {
  readonly store: ApprovalStore;
  readonly changes: ApprovalWatcher;
  readonly runtime: Runtime;
  readonly settings: () => CompiledApprovals;
  readonly mask: (value: Json) => MaskedValue;
  /** Records an event for the caller. Resolves when it survives the process. */
  note(caller: Caller, event: ApprovalEvent): Promise<void>;
  prepare(caller: Caller, event: ApprovalEvent): NewEvent;
}): ApprovalService {
  const { store, changes, runtime, settings, mask, note, prepare } = options;
  const toView = (approval: Approval): ApprovalView => toApprovalView(approval, mask);
  const nowText = (): string => runtime.now().toISOString();

  async function getApproval(id: string): Promise<Approval> {
    const approval = await store.get(id);
    if (approval === undefined) throw createUnknownApprovalError(id);
    return approval;
  }

  async function getOwnApproval(id: string, caller: Caller): Promise<Approval> {
    const approval = await getApproval(id);
    if (!isSameCaller(approval.caller, caller)) throw createUnknownApprovalError(id);
    return approval;
  }

  async function expire(approval: Approval, why: string, who = CLOCK): Promise<boolean> {
    const reason = formatExpiryReason(approval.answer, why);
    if (!(await store.expire(approval.id, { decision: "expired", ...who, at: nowText(), reason }))) return false;
    await note(approval.caller, { type: "approval.expired", data: { ...toEventFields(approval), reason } });
    changes.notify(approval.id);
    return true;
  }

  function expireLate(approval: Approval): Promise<boolean> {
    return expire(approval, approval.state === "approved" ? "its time was over before it ran" : UNANSWERED);
  }

  async function expireIfLate(approval: Approval): Promise<void> {
    const { state, expiresAt } = approval;
    if ((state === "pending" || state === "approved") && expiresAt <= nowText()) await expireLate(approval);
  }

  async function expireOld(): Promise<void> {
    for (;;) {
      const expired = await Promise.all((await store.listLate(runtime.now())).map(expireLate));
      if (!expired.includes(true)) return;
    }
  }

  async function waitForEnd(approval: Approval, wait: ApprovalWait): Promise<Approval> {
    await expireIfLate(approval);
    return (await changes.waitUntil(approval.id, isFinished, wait)) ?? approval;
  }

  async function recordRefusal(approval: Approval, { id: by, via }: Approver, reason: string): Promise<void> {
    await note(approval.caller, { type: "approval.refused", data: { ...toEventFields(approval), by, via, reason } });
  }

  async function requirePermission(approval: Approval, approver: Approver, decision: ApprovalAnswer["decision"]) {
    const objection = checkApprover(settings(), approval, approver, decision);
    if (objection === undefined) return;
    await recordRefusal(approval, approver, objection);
    const hint = "A person with one of those roles must answer.";
    throw new QmError("denied", objection, { hint, details: { approval_id: approval.id } });
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
        await yieldToEventLoop();
      }
      return found;
    },
    async get(id) {
      await expireIfLate(await getApproval(id));
      return toView(await getApproval(id));
    },
    async readFiles(id, options) {
      const { files = [] } = await getApproval(id);
      return readFilePortion(files, ({ digest }) => store.getContent(digest), mask, options);
    },
    async reveal(id, approver) {
      requireApprover(approver);
      const approval = await getApproval(id);
      await requirePermission(approval, approver, "approved");
      const names = toView(approval).masked.map(({ name }) => name);
      const data = { ...toEventFields(approval), by: approver.id, via: approver.via, names };
      await note(approval.caller, { type: "approval.revealed", data });
      return toApprovalView(approval, (value) => ({ value, masked: [] }));
    },
    async answer(id, answer, approver) {
      requireAnswer(answer);
      requireApprover(approver);
      // Copied before the first await: the host may change its object.
      const { decision, reason } = answer;
      const approval = await getApproval(id);
      await requirePermission(approval, approver, decision);
      await expireIfLate(approval);
      const facts = { decision, by: approver.id, via: approver.via, ...toReason(reason) };
      const data = { ...toEventFields(approval), ...facts, binding: approval.binding };
      const decided = prepare(approval.caller, { type: "approval.decided", data });
      if (!(await store.answer(id, { ...facts, at: nowText() }, [decided]))) {
        const settled = await getApproval(id);
        await recordRefusal(settled, approver, formatSettledReason(settled));
        throw createSettledError(settled);
      }
      changes.notify(id);
      return toView(await getApproval(id));
    },
    async withdraw(id, caller, reason) {
      const approval = await getOwnApproval(id, caller);
      const why = toReason(reason).reason ?? "it was withdrawn";
      const isWithdrawn = await expire(approval, why, { by: caller.actor, via: "withdrawn" });
      if (!isWithdrawn) throw createSettledError(await getApproval(id));
      return toView(await getApproval(id));
    },
    async outcome(id, { caller, ...wait } = {}) {
      const approval = caller === undefined ? await getApproval(id) : await getOwnApproval(id, caller);
      const ended = await waitForEnd(approval, wait);
      if (isFinished(ended)) await store.deliver(id);
      return toApprovalOutcome(ended);
    },
    async look(id, { caller, ...wait } = {}) {
      const approval = caller === undefined ? await getApproval(id) : await getOwnApproval(id, caller);
      const outcome = toApprovalOutcome(await waitForEnd(approval, wait));
      return outcome.status === "done" ? { ...outcome, data: getModelData(outcome) } : outcome;
    },
  };
}

/** Checks untyped callers: a wrong decision would be stored, and the question lost. */
function requireAnswer(answer: unknown): void {
  const { decision, reason } = isRecord(answer) ? answer : {};
  if (decision !== "approved" && decision !== "denied")
    throw createInvalidError("the decision must be approved or denied");
  if (reason !== undefined && typeof reason !== "string") throw createInvalidError("the reason must be text");
}

function requireApprover(approver: unknown): void {
  const { id, roles, via } = isRecord(approver) ? approver : {};
  const isText = (value: unknown) => typeof value === "string" && value !== "";
  if (isText(id) && isText(via) && Array.isArray(roles) && roles.every(isText)) return;
  throw createInvalidError("an approver must be {id, roles, via}");
}

const createInvalidError = (problem: string) => new QmError("invalid_arguments", `${problem}; no answer was recorded`);

export function toEventFields({ callId, id, action }: Approval) {
  return { callId, approvalId: id, action };
}

function createUnknownApprovalError(id: string): QmError {
  const hint = "It may belong to another caller, or have been removed long after its end.";
  return new QmError("not_found", `there is no approval ${quoteName(id)}`, { hint });
}

function formatSettledReason({ state, answer }: Approval): string {
  if (answer === undefined) return `it is ${state}`;
  return `it was ${answer.decision} before, by ${answer.by} via ${answer.via} at ${answer.at}`;
}

function createSettledError(approval: Approval): QmError {
  const { id, state, answer } = approval;
  const details = { approval_id: id, state, ...(answer === undefined ? {} : { answer: { ...answer } }) };
  if (state === "expired") {
    const hint = "It was not run. If it is still wanted, its caller must call it again.";
    const message = `the approval has expired: ${answer?.reason ?? UNANSWERED}`;
    return new QmError("approval_expired", message, { hint, details });
  }
  const hint = "The first answer counts; yours changed nothing.";
  return new QmError("conflict", `this call was answered already: ${formatSettledReason(approval)}`, { hint, details });
}
