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
  /** Default: the host's active span. */
  readonly parent?: TraceCarrier | undefined;
  /** Removes secrets, as the ledger does. Never throws. */
  readonly redact: (value: unknown) => Json;
}

export interface CallSpan {
  /** `approvalId`: of the approval that lets the call run. */
  decided(action: Action, decision: { kind: string; objection?: { layer: string } }, approvalId?: string): void;
  /** Runs work so that spans started in it become children. */
  within<T>(work: () => T): T;
  /** The parent for spans of other processes. */
  carrier(): TraceCarrier;
  ended(outcome: Outcome): void;
}

const silentCall: CallSpan = { decided() {}, within: (work) => work(), carrier: () => ({}), ended() {} };

/**
 * Starts a span `execute_tool {tool}` of the GenAI conventions, with our own attributes under `quartermaster.`. Arguments,
 * results and error texts are recorded only if the tracer wants content.
 */
export function startCallSpan(tracer: Tracer, call: TracedCall): CallSpan {
  if (tracer === silentTracer) return silentCall;
  const { callId, name, args, caller, via, parent, redact } = call;
  const toContentFacts = (key: string, value: unknown): SpanFacts =>
    tracer.content ? { [key]: JSON.stringify(redact(value)) } : {};
  // The caller may have written anything, so the span is named once the action is known.
  const facts: SpanFacts = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": clip(name, NAME_LIMIT),
    "gen_ai.tool.call.id": callId,
    "gen_ai.agent.name": caller.actor,
    "quartermaster.via": via,
    "quartermaster.session": caller.session,
    "quartermaster.actor": caller.actor,
    ...toContentFacts("gen_ai.tool.call.arguments", args),
  };
  const span = tracer.start("execute_tool", "internal", facts, parent);
  let tool: SpanFacts | undefined;

  function setTool(action: ActionName): SpanFacts {
    if (tool !== undefined) return tool;
    tool = { "gen_ai.tool.name": action, "gen_ai.tool.type": getCategory(action) === "mcp" ? "extension" : "function" };
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
        span.fail(error, tracer.content && "reason" in outcome ? String(redact(outcome.reason)) : undefined);
      // An unknown name is no tool, and a waiting call has not been executed.
      if (outcome.action !== undefined && outcome.status !== "waiting") {
        const facts = { ...setTool(outcome.action), "gen_ai.agent.name": caller.actor, "error.type": error };
        tracer.took("gen_ai.execute_tool.duration", outcome.durationMs / 1000, facts);
      }
      span.end();
    },
  };
}
