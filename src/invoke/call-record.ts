import { hash } from "node:crypto";
import type { Approval } from "../approval/approval.ts";
import type { ExecutionPermit } from "../approval/permits.ts";
import type { ResolvedAction } from "../catalog/resolve-action.ts";
import type { Action } from "../core/action.ts";
import { getDefinitionHash } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import type { NewEvent } from "../core/events.ts";
import { clip } from "../core/json.ts";
import { formatResultValue, type Outcome } from "../core/outcome.ts";
import type { Runtime } from "../core/runtime.ts";
import type { ActivationScope } from "../core/surface-choice.ts";
import type { ResolvedReference } from "../infospace/handle-resolver.ts";
import type { BudgetUsage } from "../policy/budget.ts";
import type { PolicyDecision } from "../policy/decide.ts";
import type { PreparedArguments } from "./arguments.ts";
import type { ActionCall } from "./invoke.ts";
import type { CheckedResult } from "./result.ts";

/** What a call's record needs of a ledger. Secrets are taken out there, before anything is written. */
export interface EventSink {
  /** Answers the event's number. */
  record(event: NewEvent): number;
  /** Resolves when everything recorded from that number on outlives this process. */
  flush(from: number): Promise<void>;
}

/** One call in the ledger, step by step. */
export interface CallRecord {
  resolved(action: Action, how: ResolvedAction["how"]): void;
  /** `args` as they are with what handles lead to in their place. */
  filled(action: Action, from: readonly ResolvedReference[], args: unknown): void;
  repaired(action: Action, prepared: PreparedArguments): void;
  /** `approvalId`: of the agreement that lets a call run which asks for one. */
  decided(
    action: Action,
    decision: PolicyDecision,
    approvalId: string | undefined,
    usage: BudgetUsage | undefined,
  ): void;
  /** It could not be run now, and can be later. */
  suspended(approval: Approval): void;
  /** Somebody has agreed while the call waited, and it goes on. */
  resumed(permit: ExecutionPermit): void;
  activated(action: Action, scope: ActivationScope): void;
  /** Resolves when every step so far is in the ledger for good. */
  flush(): Promise<void>;
  /**
   * Writes the end and resolves when the whole call is in the ledger. Without `result` it answered nothing. `askedAs`: the
   * call that the same was asked for by first; where it is another one, it has ended with this.
   */
  ended(outcome: Outcome, result: CheckedResult | undefined, askedAs?: string): Promise<void>;
}

/** Begins the record of a call: it is received. */
export type CallRecorder = (call: ActionCall) => CallRecord;

const RECORDED_RESULT_LIMIT = 16 * 1024;

export function createCallRecorder(sink: EventSink, runtime: Runtime, policyVersion: () => string): CallRecorder {
  return ({ id: callId, name, args, caller, via, inside, activation, permit }) => {
    const asked = clip(name, 256);
    const stamp = () => ({ at: runtime.now(), ...toCallerFields(caller) });
    const parent = inside === undefined ? {} : { parent: inside.callId };
    const user = caller.user === undefined ? {} : { user: caller.user };
    const recordResumed = ({ approval: { id: approvalId, action, answer }, executor }: ExecutionPermit): number => {
      const agreed = answer === undefined ? {} : { by: answer.by, via: answer.via };
      return sink.record({
        type: "call.resumed",
        ...stamp(),
        data: { callId, approvalId, action, executor, ...agreed },
      });
    };
    const first =
      permit === undefined
        ? sink.record({ type: "call.received", ...stamp(), data: { callId, asked, via, args, ...parent, ...user } })
        : recordResumed(permit);
    const recordSuspended = (approvalId: string, action: string): void => {
      sink.record({ type: "call.suspended", ...stamp(), data: { callId, approvalId, action } });
    };
    let decidedOn: Action | undefined;
    let given = args;
    const recordNotActivated = (reason: string): void => {
      sink.record({ type: "activation.denied", ...stamp(), data: { callId, asked, reason } });
    };

    return {
      resolved(action, how) {
        if (how === "exact") return;
        sink.record({ type: "name.repaired", ...stamp(), data: { callId, asked, action: action.name, how } });
      },
      filled({ name: action }, from, args) {
        given = args;
        const data = { callId, action, from: from.map((each) => ({ ...each })), args };
        sink.record({ type: "arguments.filled", ...stamp(), data });
      },
      repaired(action, { args, repairs, isNormalized }) {
        if (repairs.length === 0) return;
        if (isNormalized) given = args;
        const data = { callId, action: action.name, repairs: [...repairs], ...(isNormalized ? { args } : {}) };
        sink.record({ type: "arguments.repaired", ...stamp(), data });
      },
      decided(action, decision, approvalId, usage) {
        if (decision.kind !== "deny") decidedOn = action;
        const objection = decision.kind === "allow" ? undefined : decision.objection;
        sink.record({
          type: "call.decided",
          ...stamp(),
          data: {
            callId,
            action: action.name,
            definition: getDefinitionHash(action),
            effect: action.effect,
            scope: action.scope,
            routing: action.routing,
            decision: decision.kind,
            policyVersion: policyVersion(),
            ...(objection === undefined ? {} : { layer: objection.layer, rule: objection.rule }),
            ...(approvalId === undefined ? {} : { approvalId }),
            ...(usage === undefined ? {} : { usage: Object.fromEntries(usage) }),
          },
        });
        // A call that waits for a person is neither: should it be allowed, that call activates.
        if (decision.kind === "deny" && activation?.isDeferred(action)) recordNotActivated(decision.objection.layer);
      },
      resumed(obtained) {
        recordResumed(obtained);
      },
      suspended: (approval) => recordSuspended(approval.id, approval.action),
      activated({ name: action }, scope) {
        sink.record({ type: "action.activated", ...stamp(), data: { callId, action, scope } });
      },
      flush: () => sink.flush(first),
      async ended(outcome, result, askedAs = callId) {
        if (activation !== undefined && isUnknownAction(outcome)) recordNotActivated("visibility_policy");
        if (outcome.status === "waiting") recordSuspended(outcome.approval.id, outcome.action);
        else {
          const ended = summarizeEnd(outcome, result);
          if (decidedOn?.scope === "specialist" && outcome.status !== "refused") {
            sink.record({
              type: "specialist_execution",
              ...stamp(),
              data: toExecutionEventData(decidedOn, callId, given, ended),
            });
          }
          sink.record({ type: "call.ended", ...stamp(), data: { callId, ...ended } });
          if (askedAs !== callId) {
            const data = { ...summarizeEnd(outcome, undefined), callId: askedAs, ranAs: callId };
            sink.record({ type: "call.ended", ...stamp(), data });
          }
        }
        await sink.flush(first);
      },
    };
  };
}

/** Who asks, as every event says it. */
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

/** Whether the name is no action's in the caller's view; of an action that was found, some later step speaks. */
function isUnknownAction(outcome: Outcome): boolean {
  return "error" in outcome && outcome.action === undefined && outcome.error.code === "unknown_action";
}

type EndedOutcome = Exclude<Outcome, { readonly status: "waiting" }>;

/** The end of a call as the ledger has it. Without a result that was just made, only that it ended. */
export function summarizeEnd(outcome: EndedOutcome, result: CheckedResult | undefined) {
  const { status, action } = outcome;
  const common = {
    status,
    ...(action === undefined ? {} : { action }),
    durationMs: Math.round(outcome.durationMs * 1000) / 1000,
    bytes: result?.bytes ?? 0,
    ...(outcome.ranAs === undefined ? {} : { ranAs: outcome.ranAs }),
  };
  const kept = outcome.status === "done" && outcome.kept !== undefined ? { kept: outcome.kept.handle } : {};
  if (outcome.status !== "done") return { ...common, code: outcome.error.code, reason: outcome.reason, result: null };
  if (result === undefined) return { ...common, result: null };
  const { text } = result;
  const shown = result.audit === undefined ? outcome.data : result.audit;
  if (text.length <= RECORDED_RESULT_LIMIT) return { ...common, ...kept, result: shown };
  // Only of what is not written down whole: the hash of something short would give it away to whoever tries all values.
  const cut = result.audit === undefined ? outcome.value : formatResultValue(result.audit);
  return { ...common, ...kept, result: { cut }, resultHash: hash("sha256", text, "hex") };
}

/** A specialist's work as audits and replays want it: everything in one line. */
function toExecutionEventData(action: Action, callId: string, args: unknown, ended: ReturnType<typeof summarizeEnd>) {
  const { name, scope, routing, justification, bypassReason } = action;
  return {
    callId,
    action: name,
    args,
    result: ended.result,
    status: ended.status,
    durationMs: ended.durationMs,
    scope,
    routing,
    ...(justification === undefined ? {} : { justification }),
    ...(bypassReason === undefined ? {} : { bypassReason }),
  };
}
