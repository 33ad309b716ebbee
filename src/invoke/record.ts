import { hash } from "node:crypto";
import type { Resolved } from "../catalog/resolve.ts";
import type { Action } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { definitionOf } from "../core/definition.ts";
import type { NewEvent } from "../core/events.ts";
import { clip } from "../core/json.ts";
import type { Outcome } from "../core/outcome.ts";
import type { Runtime } from "../core/runtime.ts";
import type { ActivationScope } from "../core/surface-choice.ts";
import type { Decision } from "../policy/decide.ts";
import type { Call } from "./invoke.ts";
import type { CheckedResult } from "./result.ts";

/** What a call's record needs of a ledger. Secrets are taken out there, before anything is written. */
export interface EventSink {
  /** Answers the event's number. */
  record(event: NewEvent): number;
  /** Resolves when everything recorded from that number on outlives this process. */
  flushed(from: number): Promise<void>;
}

/** One call in the ledger, step by step. */
export interface CallRecord {
  resolved(action: Action, how: Resolved["how"]): void;
  repaired(action: Action, repairs: readonly string[]): void;
  /** `agreedBy`: the person whose word lets a call run that asks for one. */
  decided(action: Action, decision: Decision, agreedBy: string | undefined): void;
  activated(action: Action, scope: ActivationScope): void;
  /** Resolves when every step so far is in the ledger for good. */
  flushed(): Promise<void>;
  /** Writes the end and resolves when the whole call is in the ledger. Without `result` it answered nothing. */
  ended(outcome: Outcome, result: CheckedResult | undefined): Promise<void>;
}

/** Begins the record of a call: it is received. */
export type Recorder = (call: Call) => CallRecord;

const RECORDED_RESULT = 16 * 1024;

export function createRecorder(sink: EventSink, runtime: Runtime, policyVersion: () => string): Recorder {
  return ({ id: callId, name, args, caller, via, inside, activation }) => {
    const asked = clip(name, 256);
    const stamp = () => ({ at: runtime.now(), ...callerStamp(caller) });
    const parent = inside === undefined ? {} : { parent: inside.callId };
    const first = sink.record({ type: "call.received", ...stamp(), data: { callId, asked, via, args, ...parent } });
    const notActivated = (reason: string): void => {
      sink.record({ type: "activation.denied", ...stamp(), data: { callId, asked, reason } });
    };

    return {
      resolved(action, how) {
        if (how === "exact") return;
        sink.record({ type: "name.repaired", ...stamp(), data: { callId, asked, action: action.name, how } });
      },
      repaired(action, repairs) {
        if (repairs.length === 0) return;
        const data = { callId, action: action.name, repairs: [...repairs] };
        sink.record({ type: "arguments.repaired", ...stamp(), data });
      },
      decided(action, decision, agreedBy) {
        const objection = decision.kind === "allow" ? undefined : decision.objection;
        sink.record({
          type: "call.decided",
          ...stamp(),
          data: {
            callId,
            action: action.name,
            definition: definitionOf(action),
            effect: action.effect,
            scope: action.scope,
            routing: action.routing,
            decision: decision.kind,
            policyVersion: policyVersion(),
            ...(objection === undefined ? {} : { layer: objection.layer, rule: objection.rule }),
            ...(agreedBy === undefined ? {} : { agreedBy }),
          },
        });
        // A call that waits for a person is neither: should it be allowed, that call activates.
        if (decision.kind === "deny" && activation?.awaits(action)) notActivated(decision.objection.layer);
      },
      activated({ name: action }, scope) {
        sink.record({ type: "action.activated", ...stamp(), data: { callId, action, scope } });
      },
      flushed: () => sink.flushed(first),
      async ended(outcome, result) {
        if (activation !== undefined && ledNowhere(outcome)) notActivated("visibility_policy");
        sink.record({ type: "call.ended", ...stamp(), data: { callId, ...summary(outcome, result) } });
        await sink.flushed(first);
      },
    };
  };
}

/** Who asks, as every event says it. */
export function callerStamp({ actor, session, turn, tenant, user, person }: Caller) {
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
function ledNowhere(outcome: Outcome): boolean {
  return outcome.status !== "done" && outcome.action === undefined && outcome.error.code === "unknown_action";
}

function summary(outcome: Outcome, result: CheckedResult | undefined) {
  const { status, action } = outcome;
  const common = {
    status,
    ...(action === undefined ? {} : { action }),
    durationMs: Math.round(outcome.durationMs * 1000) / 1000,
    bytes: result?.bytes ?? 0,
  };
  if (outcome.status !== "done") return { ...common, code: outcome.error.code, reason: outcome.reason, result: null };
  const text = result?.text ?? "";
  if (text.length <= RECORDED_RESULT) return { ...common, result: outcome.data };
  // Only of what is not written down whole: the hash of something short would give it away to whoever tries all values.
  return { ...common, result: { cut: outcome.value }, resultHash: hash("sha256", text, "hex") };
}
