import { getDefinitionHash } from "../core/action.ts";
import type { ErrorCode } from "../core/errors.ts";
import { omitUndefined } from "../core/json.ts";
import type { OutcomeStatus } from "../core/outcome.ts";
import { getApprovalRule } from "../policy/approval-rules.ts";
import type { Policy } from "../policy/policy.ts";
import type { ReplayAnswer } from "./answer-call.ts";
import { type RecordedCall, resolveEnd } from "./recorded-call.ts";

/** A recorded call compared with its replay. */
export interface ReplayedCall {
  readonly callId: string;
  /** When it was made, ISO 8601. */
  readonly at: string;
  /** The call inside which it was made. */
  readonly parent?: string;
  /** The name as it was written. */
  readonly asked: string;
  readonly recorded: ReplayOutcome;
  readonly replayed: ReplayOutcome;
  /** Whether nothing differs and nothing is uncertain. */
  readonly same: boolean;
  readonly differs: readonly ReplayDifference[];
  /** The redacted parts that could be the only cause of a difference. */
  readonly uncertain?: string;
}

export interface ReplayOutcome {
  /** Absent: the name is unknown. */
  readonly action?: string;
  /** Absent: it ended before the decision. */
  readonly decision?: "allow" | "ask" | "deny";
  readonly layer?: string;
  readonly rule?: string;
  /**
   * `unended`: the process ended before the call did. `unknown`: it would run now and did not then, so there is no result.
   * `not made`: the call that made it does not run now.
   */
  readonly status: OutcomeStatus | "unended" | "unknown" | "not made";
  readonly code?: ErrorCode;
}

type ActionDifference = "another action" | "definition changed" | "action unknown now" | "action hidden now";
export type ReplayDifference = "decision" | "rule" | "status" | "code" | "not made now" | ActionDifference;

export interface ReplayReport {
  readonly session: string;
  readonly turn?: string;
  /** The version of the policy of the replay. */
  readonly policyVersion: string;
  /** In the order in which they were made. */
  readonly calls: readonly ReplayedCall[];
  /** A replay makes no real calls. */
  readonly summary: Readonly<{ calls: number; same: number; different: number; uncertain: number; realCalls: 0 }>;
}

type Comparison = { readonly policy: Policy; exists(action: string): boolean };

export function compareCall(call: RecordedCall, answered: ReplayAnswer | undefined, now: Comparison): ReplayedCall {
  const { policy, exists } = now;
  const recorded = describeRecorded(call);
  const replayed = answered === undefined ? ({ status: "not made" } as const) : describeReplayed(answered);
  const differs: readonly ReplayDifference[] =
    answered === undefined ? ["not made now"] : findDifferences(call, answered, recorded, replayed, exists);
  const isUncertain = answered !== undefined && canMislead(call, answered, policy, differs);
  const uncertain = isUncertain ? call.lacks : undefined;
  const { callId, at, parent, asked } = call;
  const same = differs.length === 0 && uncertain === undefined;
  return { callId, at, asked, recorded, replayed, same, differs, ...omitUndefined({ parent, uncertain }) };
}

function describeRecorded(call: RecordedCall): ReplayOutcome {
  const { action, decision, layer, rule } = call.decisions[0] ?? {};
  const { status, code } = resolveEnd(call) ?? {};
  const open = call.approval === undefined || call.approval.resumed ? "unended" : "waiting";
  return { status: status ?? open, ...omitUndefined({ action, decision, layer, rule, code }) };
}

function describeReplayed({ outcome, action, decision, isMissing }: ReplayAnswer): ReplayOutcome {
  const { layer, rule } = decision === undefined || decision.kind === "allow" ? {} : decision.objection;
  const code = "error" in outcome && !isMissing ? outcome.error.code : undefined;
  return {
    status: isMissing ? "unknown" : outcome.status,
    ...omitUndefined({ action: action?.name, decision: decision?.kind, layer, rule, code }),
  };
}

function findDifferences(
  { decisions: [first] }: RecordedCall,
  { action }: ReplayAnswer,
  recorded: ReplayOutcome,
  replayed: ReplayOutcome,
  exists: Comparison["exists"],
): readonly ReplayDifference[] {
  const differs: ReplayDifference[] = [];
  if (first !== undefined && action === undefined)
    differs.push(exists(first.action) ? "action hidden now" : "action unknown now");
  if (first !== undefined && action !== undefined) {
    if (first.action !== action.name) differs.push("another action");
    else if (first.definition !== getDefinitionHash(action)) differs.push("definition changed");
  }
  if (recorded.decision !== replayed.decision) differs.push("decision");
  else if (recorded.layer !== replayed.layer || recorded.rule !== replayed.rule) differs.push("rule");
  // An unknown end cannot be compared.
  if (recorded.status === "unended") return differs;
  if (recorded.status !== replayed.status) differs.push("status");
  else if (recorded.code !== replayed.code) differs.push("code");
  return differs;
}

/** Whether the redacted parts of a call can cause the differences, or can hide one under another policy. */
function canMislead(
  call: RecordedCall,
  { action }: ReplayAnswer,
  policy: Policy,
  differs: readonly ReplayDifference[],
) {
  const {
    lacks,
    decisions: [first],
  } = call;
  if (lacks === undefined) return false;
  if (differs.some((difference) => difference !== "definition changed")) return true;
  if (first?.policyVersion === policy.version || action === undefined) return false;
  return (
    typeof getApprovalRule(action, policy.approvals.categories) !== "boolean" ||
    policy.rules.some(({ condition: { mentions } }) => mentions.has("args") || mentions.has("ctx"))
  );
}
