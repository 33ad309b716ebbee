import { hash } from "node:crypto";
import type { Approval } from "../approval/approval.ts";
import type { ExecutionPermit } from "../approval/permits.ts";
import type { ResolvedAction } from "../catalog/resolve-action.ts";
import { type Action, getDefinitionHash } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import type { ErrorCode } from "../core/errors.ts";
import type { NewEvent, UnstampedEvent } from "../core/events.ts";
import { clip, omitUndefined } from "../core/json.ts";
import type { ModelAnswer, ModelMessage, ModelRequest } from "../core/model.ts";
import { formatResultValue, type Outcome } from "../core/outcome.ts";
import type { Runtime } from "../core/runtime.ts";
import type { ActivationScope } from "../core/surface-choice.ts";
import type { ResolvedReference } from "../infospace/handle-resolver.ts";
import type { BudgetUsage } from "../policy/budget.ts";
import type { PolicyDecision } from "../policy/decide.ts";
import type { PreparedArguments } from "./arguments.ts";
import type { ActionCall } from "./invoke.ts";
import type { CheckedResult } from "./result.ts";

/** The part of a ledger that call records need. The ledger redacts secrets before it writes. */
export interface EventSink {
  /** Answers the event's number. */
  record(event: NewEvent): number;
  /** Resolves when everything recorded from that number on is durable. */
  flush(from: number): Promise<void>;
}

export interface CallRecord {
  resolved(action: Action, how: ResolvedAction["how"]): void;
  /** `args`: with handles replaced by the values they lead to. */
  filled(action: Action, from: readonly ResolvedReference[], args: unknown): void;
  repaired(action: Action, prepared: PreparedArguments): void;
  /** `approvalId`: of the approval that lets the call run. */
  decided(action: Action, decision: PolicyDecision, approvalId: string | undefined, use: BudgetUsage | undefined): void;
  suspended(approval: Approval): void;
  resumed(permit: ExecutionPermit): void;
  activated(action: Action, scope: ActivationScope): void;
  /** A request of the handler to a language model, and its answer or error. */
  modelCalled(request: ModelRequest, ended: EndedModelRequest): void;
  /** Resolves when every step so far is durable. */
  flush(): Promise<void>;
  /** Resolves when the call is durable. `askedAs`: another call that asked first for the approval ends too. */
  ended(outcome: Outcome, result: CheckedResult | undefined, askedAs?: string): Promise<void>;
}

export interface EndedModelRequest {
  readonly model: string;
  readonly attempts: number;
  readonly durationMs: number;
  readonly cost?: number;
  readonly answer?: ModelAnswer;
  readonly code?: ErrorCode;
}

/** Records that a call was received, and answers the recorder of its next steps. */
export type CallRecorder = (call: ActionCall) => CallRecord;
const RECORDED_RESULT_LIMIT = 16 * 1024;

/** The fields of the most frequent events are in the order of canonical JSON, which is then written without sorting. */
export function createCallRecorder(sink: EventSink, runtime: Runtime, policyVersion: () => string): CallRecorder {
  return ({ id: callId, name, args, caller, via, inside, activation, permit }) => {
    const asked = clip(name, 256);
    const fields = toCallerFields(caller);
    const write = ({ type, data }: UnstampedEvent): number =>
      sink.record({ type, at: runtime.now(), ...fields, data } as NewEvent);
    const parent = inside === undefined ? {} : { parent: inside.callId };
    const user = caller.user === undefined ? {} : { user: caller.user };
    const recordResumed = ({ approval: { id: approvalId, action, answer }, executor }: ExecutionPermit): number => {
      const approver = answer === undefined ? {} : { by: answer.by, via: answer.via };
      return write({ type: "call.resumed", data: { callId, approvalId, action, executor, ...approver } });
    };
    const recordSuspended = (approvalId: string, action: string): void => {
      write({ type: "call.suspended", data: { callId, approvalId, action } });
    };
    const recordNotActivated = (reason: string): void => {
      write({ type: "activation.denied", data: { callId, asked, reason } });
    };
    const first =
      permit === undefined
        ? write({ type: "call.received", data: { args, asked, callId, ...parent, ...user, via } })
        : recordResumed(permit);
    let decidedOn: Action | undefined;
    let finalArgs = args;
    return {
      resolved(action, how) {
        if (how !== "exact") write({ type: "name.repaired", data: { callId, asked, action: action.name, how } });
      },
      filled({ name: action }, from, args) {
        finalArgs = args;
        write({ type: "arguments.filled", data: { callId, action, from: from.map((each) => ({ ...each })), args } });
      },
      repaired(action, { args, repairs, isNormalized }) {
        if (repairs.length === 0) return;
        if (isNormalized) finalArgs = args;
        const data = { callId, action: action.name, repairs: [...repairs], ...(isNormalized ? { args } : {}) };
        write({ type: "arguments.repaired", data });
      },
      decided(action, decision, approvalId, usage) {
        if (decision.kind !== "deny") decidedOn = action;
        const objection = decision.kind === "allow" ? undefined : decision.objection;
        const { name, effect, scope, routing } = action;
        write({
          type: "call.decided",
          data: {
            action: name,
            ...(approvalId === undefined ? {} : { approvalId }),
            callId,
            decision: decision.kind,
            definition: getDefinitionHash(action),
            effect,
            ...(objection === undefined ? {} : { layer: objection.layer }),
            policyVersion: policyVersion(),
            routing,
            ...(objection === undefined ? {} : { rule: objection.rule }),
            scope,
            ...(usage === undefined ? {} : { usage: Object.fromEntries(usage) }),
          },
        });
        // A call that waits for a person writes neither event; once allowed, it activates.
        if (decision.kind === "deny" && activation?.isDeferred(action)) recordNotActivated(decision.objection.layer);
      },
      resumed: (obtained) => void recordResumed(obtained),
      suspended: (approval) => recordSuspended(approval.id, approval.action),
      activated({ name: action }, scope) {
        write({ type: "action.activated", data: { callId, action, scope } });
      },
      modelCalled(request, ended) {
        write(describeModelCall(callId, request, ended));
      },
      flush: () => sink.flush(first),
      ended(outcome, result, askedAs = callId) {
        if (activation !== undefined && isUnknownAction(outcome)) recordNotActivated("visibility_policy");
        if (outcome.status === "waiting") recordSuspended(outcome.approval.id, outcome.action);
        else {
          const end = summarizeEnd(callId, outcome, result);
          if (decidedOn?.scope === "specialist" && outcome.status !== "refused") {
            write({ type: "specialist_execution", data: toExecutionEventData(decidedOn, finalArgs, end) });
          }
          write({ type: "call.ended", data: end });
          if (askedAs !== callId) {
            const data = summarizeEnd(askedAs, { ...outcome, ranAs: callId }, undefined);
            write({ type: "call.ended", data });
          }
        }
        return sink.flush(first);
      },
    };
  };
}

export function toCallerFields({ actor, session, turn, tenant, user, person }: Caller) {
  return {
    session,
    actor,
    ...(turn === undefined ? {} : { turn }),
    ...(tenant === undefined ? {} : { tenant }),
    ...(user === undefined ? {} : { user: user.id }),
    ...(person === undefined ? {} : { person }),
  };
}

/** Whether the name itself was unknown; a handler of a known action may answer the same code. */
const isUnknownAction = (outcome: Outcome): boolean =>
  "error" in outcome && outcome.action === undefined && outcome.error.code === "unknown_action";

/** The end of a call as the ledger has it. Without `result`, only that it ended. */
export function summarizeEnd(
  callId: string,
  outcome: Exclude<Outcome, { status: "waiting" }>,
  result: CheckedResult | undefined,
) {
  const { status, action } = outcome;
  const ranAs = outcome.ranAs === undefined ? {} : { ranAs: outcome.ranAs };
  const durationMs = Math.round(outcome.durationMs * 1000) / 1000;
  const bytes = result?.bytes ?? 0;
  if (outcome.status !== "done") {
    const { error, reason } = outcome;
    const named = action === undefined ? {} : { action };
    return { ...named, bytes, callId, code: error.code, durationMs, ...ranAs, reason, result: null, status };
  }
  if (result === undefined) return { action, bytes, callId, durationMs, ...ranAs, result: null, status };
  const more = outcome.kept === undefined ? ranAs : { kept: outcome.kept.handle, ...ranAs };
  const { text, audit } = result;
  if (text.length <= RECORDED_RESULT_LIMIT)
    return { action, bytes, callId, durationMs, ...more, result: audit === undefined ? outcome.data : audit, status };
  // Only a result that is not recorded whole is hashed: the hash of a short one could be guessed by trying all values.
  const cut = audit === undefined ? outcome.value : formatResultValue(audit);
  return {
    action,
    bytes,
    callId,
    durationMs,
    ...more,
    result: { cut },
    resultHash: hash("sha256", text, "hex"),
    status,
  };
}

/** A request to a language model, as the ledger has it. `callId`: of the call or the turn that made it. */
export const describeModelCall = (
  callId: string,
  request: ModelRequest,
  ended: EndedModelRequest,
): UnstampedEvent<"model.called"> => ({
  type: "model.called",
  data: { callId, ...summarizeModelRequest(request, ended) },
});

function summarizeModelRequest(request: ModelRequest, { answer, durationMs, ...rest }: EndedModelRequest) {
  const { messages, tools, ...settings } = request;
  // Without the schemas of tools and the raw parts of answers: they are long and can be had elsewhere.
  const asked = { ...settings, messages: messages.map(omitRaw), tools: tools?.map(({ name }) => name) };
  const sent = boundRecorded(omitUndefined(asked));
  const received = boundRecorded(answer === undefined ? null : omitRaw(answer.message));
  return {
    ...rest,
    durationMs: Math.round(durationMs * 1000) / 1000,
    inputTokens: answer?.inputTokens ?? 0,
    outputTokens: answer?.outputTokens ?? 0,
    ...omitUndefined({ finish: answer?.finish, requestHash: sent.hash, answerHash: received.hash }),
    request: sent.value,
    answer: received.value,
  };
}

/** A long value is cut and hashed, as in `summarizeEnd`. */
function boundRecorded(value: unknown): { readonly value: unknown; readonly hash?: string } {
  const text = JSON.stringify(value);
  if (text.length <= RECORDED_RESULT_LIMIT) return { value };
  return { value: { cut: formatResultValue(text) }, hash: hash("sha256", text, "hex") };
}

function omitRaw(message: ModelMessage): ModelMessage {
  if (message.role !== "assistant") return message;
  const { raw: _, ...rest } = message;
  return rest;
}

/** A specialist's call in one event, for audits and replays. */
function toExecutionEventData(action: Action, args: unknown, end: ReturnType<typeof summarizeEnd>) {
  const { name, scope, routing, justification, bypassReason } = action;
  const { callId, result, status, durationMs } = end;
  const reasons = omitUndefined({ justification, bypassReason });
  return { callId, action: name, args, result, status, durationMs, scope, routing, ...reasons };
}
