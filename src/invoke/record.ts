import { hash } from "node:crypto";
import type { Resolved } from "../catalog/resolve.ts";
import type { Action } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { definitionOf, fingerprint } from "../core/definition.ts";
import type { NewEvent } from "../core/events.ts";
import { clip, type JsonObject } from "../core/json.ts";
import type { Outcome } from "../core/outcome.ts";
import type { Runtime } from "../core/runtime.ts";
import type { Decision } from "../policy/decide.ts";
import type { Call } from "./invoke.ts";

/** What the recorder needs of a ledger. */
export interface EventSink {
  record(event: NewEvent): void;
  /** Resolves when everything recorded so far outlives this process. */
  flushed(): Promise<void>;
}

/** Writes the steps of a call. Secrets are taken out by the sink before anything is written. */
export interface Recorder {
  received(call: Call): void;
  resolved(call: Call, action: Action, how: Resolved["how"]): void;
  repaired(call: Call, action: Action, repairs: readonly string[]): void;
  decided(call: Call, action: Action, args: JsonObject, decision: Decision): void;
  flushed(): Promise<void>;
  /** Resolves when the whole call is in the ledger for good. `result` is the JSON of what a done call answered. */
  ended(call: Call, outcome: Outcome, result: string): Promise<void>;
}

const RECORDED_RESULT = 16 * 1024;

export function createRecorder(sink: EventSink, runtime: Runtime, policyVersion: () => string): Recorder {
  const stamp = ({ actor, session, turn, tenant }: Caller) => ({
    at: runtime.now(),
    session,
    actor,
    ...(turn === undefined ? {} : { turn }),
    ...(tenant === undefined ? {} : { tenant }),
  });

  return {
    received({ id, name, args, caller, via }) {
      const data = { callId: id, asked: clip(name, 256), via, args };
      sink.record({ type: "call.received", ...stamp(caller), data });
    },
    resolved({ id, name, caller }, action, how) {
      if (how === "exact") return;
      sink.record({
        type: "name.repaired",
        ...stamp(caller),
        data: { callId: id, asked: clip(name, 256), action: action.name, how },
      });
    },
    repaired({ id, caller }, action, repairs) {
      if (repairs.length === 0) return;
      sink.record({
        type: "arguments.repaired",
        ...stamp(caller),
        data: { callId: id, action: action.name, repairs: [...repairs] },
      });
    },
    decided({ id, caller }, action, args, decision) {
      const objection = decision.kind === "allow" ? undefined : decision.objection;
      sink.record({
        type: "call.decided",
        ...stamp(caller),
        data: {
          callId: id,
          action: action.name,
          definition: definitionOf(action),
          argsHash: fingerprint(args),
          effect: action.effect,
          scope: action.scope,
          routing: action.routing,
          decision: decision.kind,
          policyVersion: policyVersion(),
          ...(objection === undefined ? {} : { layer: objection.layer, rule: objection.rule }),
        },
      });
    },
    flushed: () => sink.flushed(),
    async ended({ id, caller }, outcome, result) {
      sink.record({ type: "call.ended", ...stamp(caller), data: { callId: id, ...summary(outcome, result) } });
      await sink.flushed();
    },
  };
}

function summary(outcome: Outcome, result: string) {
  const { status, action } = outcome;
  const common = {
    status,
    ...(action === undefined ? {} : { action }),
    durationMs: Math.round(outcome.durationMs * 1000) / 1000,
  };
  if (outcome.status !== "done")
    return { ...common, code: outcome.error.code, reason: outcome.reason, bytes: 0, result: null };
  return {
    ...common,
    bytes: Buffer.byteLength(result),
    result: result.length <= RECORDED_RESULT ? outcome.data : { cut: outcome.value },
    resultHash: hash("sha256", result, "hex"),
  };
}
