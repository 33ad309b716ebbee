import { type Action, summarizeAction } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { clip, type Json } from "../core/json.ts";
import { type ActionName, getCategory, NAME_LIMIT } from "../core/names.ts";
import { getModelData, type Outcome } from "../core/outcome.ts";
import { type SpanFacts, silentTracer, type TraceCarrier, type Tracer } from "../core/tracing.ts";

export interface TracedCall {
  readonly callId: string;
  /** As the caller wrote it. */
  readonly name: string;
  readonly args: unknown;
  readonly caller: Caller;
  readonly via: string;
  /** What it is part of. Absent: whatever the host is tracing when it calls. */
  readonly parent?: TraceCarrier | undefined;
  /** Takes out secrets, as the ledger does. Never throws. */
  readonly redact: (value: unknown) => Json;
}

/** Of a decision, the part that is told. */
export interface TracedDecision {
  readonly kind: "allow" | "ask" | "deny";
  readonly objection?: { readonly layer: string };
}

/** One call through the door, as those who trace are told of it. Never throws. */
export interface CallSpan {
  /** `approvalId`: of the approval that it waits for, or that it was given. */
  decided(action: Action, decision: TracedDecision, approvalId?: string): void;
  /** Runs the action's own work, so that what that traces is part of the call. */
  within<T>(work: () => T): T;
  /** For work inside it that is told of elsewhere. */
  carrier(): TraceCarrier;
  ended(outcome: Outcome): void;
}

const silentCall: CallSpan = { decided() {}, within: (work) => work(), carrier: () => ({}), ended() {} };

/**
 * Begins the span `execute_tool {tool}` of the GenAI conventions, with what we know beyond them under `quartermaster.`.
 * Arguments, results and the text of an error are told where the tracer wants content, and nowhere else.
 */
export function startCallSpan(tracer: Tracer, call: TracedCall): CallSpan {
  if (tracer === silentTracer) return silentCall;
  const { callId, name, args, caller, via, parent, redact } = call;
  const toContentFacts = (key: string, value: unknown): SpanFacts =>
    tracer.content ? { [key]: JSON.stringify(redact(value)) } : {};
  // What the caller wrote may be anything: the span is named when it is known to be an action.
  const span = tracer.start(
    "execute_tool",
    "internal",
    {
      "gen_ai.operation.name": "execute_tool",
      "gen_ai.tool.name": clip(name, NAME_LIMIT),
      "gen_ai.tool.call.id": callId,
      "gen_ai.agent.name": caller.actor,
      "quartermaster.via": via,
      "quartermaster.session": caller.session,
      "quartermaster.actor": caller.actor,
      ...toContentFacts("gen_ai.tool.call.arguments", args),
    },
    parent,
  );
  let tool: SpanFacts | undefined;

  function setTool(action: ActionName): SpanFacts {
    if (tool !== undefined) return tool;
    tool = { "gen_ai.tool.name": action, "gen_ai.tool.type": getToolType(getCategory(action)) };
    span.rename(`execute_tool ${action}`);
    span.set(tool);
    return tool;
  }

  return {
    decided(action, { kind, objection }, approvalId) {
      setTool(action.name);
      span.set({
        "gen_ai.tool.description": summarizeAction(action),
        "quartermaster.effect": action.effect,
        "quartermaster.policy.decision": kind,
        "quartermaster.policy.layer": objection?.layer,
        "quartermaster.approval.id": approvalId,
      });
    },
    within: span.within,
    carrier: span.carrier,
    ended(outcome) {
      const error = "error" in outcome ? outcome.error.code : undefined;
      span.set({ "quartermaster.outcome": outcome.status });
      if (outcome.status === "waiting") span.set({ "quartermaster.approval.id": outcome.approval.id });
      if (outcome.status === "done") span.set(toContentFacts("gen_ai.tool.call.result", getModelData(outcome)));
      if (error !== undefined)
        span.fail(error, tracer.content && "reason" in outcome ? redactReason(outcome.reason) : undefined);
      // A name that is nobody's is no tool, and a call that waits has not been executed.
      if (outcome.action !== undefined && outcome.status !== "waiting") {
        const facts = { ...setTool(outcome.action), "gen_ai.agent.name": caller.actor, "error.type": error };
        tracer.took("gen_ai.execute_tool.duration", outcome.durationMs / 1000, facts);
      }
      span.end();
    },
  };

  function redactReason(reason: string): string {
    return String(redact(reason));
  }
}

/** The tools of servers are reached over an interface of others; everything else runs here. */
function getToolType(category: string): string {
  return category === "mcp" ? "extension" : "function";
}
