import { getDefinitionHash } from "../core/action.ts";
import type { ErrorCode } from "../core/errors.ts";
import type { OutcomeStatus } from "../core/outcome.ts";
import { getApprovalRule } from "../policy/approval-rules.ts";
import type { Policy } from "../policy/policy.ts";
import type { ReplayAnswer } from "./answer-call.ts";
import type { RecordedCall } from "./recorded-call.ts";
import { resolveEnd } from "./recorded-call.ts";

/** One call, then and now. */
export interface ReplayedCall {
  readonly callId: string;
  /** When it was made, ISO 8601. */
  readonly at: string;
  /** The call that it was made in. */
  readonly parent?: string;
  /** The name as it was written. */
  readonly asked: string;
  readonly recorded: ReplayOutcome;
  readonly replayed: ReplayOutcome;
  /** Whether nothing is different, and nothing doubtful. */
  readonly same: boolean;
  readonly differs: readonly ReplayDifference[];
  /** Why it cannot be told: what is missing in the ledger may be all the difference there is. */
  readonly uncertain?: string;
}

/** What became of a call. */
export interface ReplayOutcome {
  /** Absent: the name led nowhere. */
  readonly action?: string;
  /** Absent: it did not get as far. */
  readonly decision?: "allow" | "ask" | "deny";
  readonly layer?: string;
  readonly rule?: string;
  /**
   * `unended`: nobody knows, the process ended before it did; `unknown`: it would run now and did not then, so there is no
   * result; `not made`: the call that it was made in does not run now.
   */
  readonly status: OutcomeStatus | "unended" | "unknown" | "not made";
  readonly code?: ErrorCode;
}

export type ReplayDifference =
  | "decision"
  | "rule"
  | "status"
  | "code"
  | "another action"
  | "definition changed"
  | "action unknown now"
  | "action hidden now"
  | "not made now";

export interface ReplayReport {
  readonly session: string;
  readonly turn?: string;
  /** Of the policy that it was replayed with. */
  readonly policyVersion: string;
  /** In the order in which they were made. */
  readonly calls: readonly ReplayedCall[];
  readonly summary: {
    readonly calls: number;
    readonly same: number;
    readonly different: number;
    readonly uncertain: number;
    /** Calls that were really made: none. */
    readonly realCalls: 0;
  };
}

export function compareCall(
  call: RecordedCall,
  answered: ReplayAnswer | undefined,
  { policy, exists }: { readonly policy: Policy; exists(action: string): boolean },
): ReplayedCall {
  const recorded = describeRecorded(call);
  const replayed = answered === undefined ? NOT_MADE : describeReplayed(answered);
  const differs: readonly ReplayDifference[] =
    answered === undefined ? ["not made now"] : findDifferences(call, answered, recorded, replayed);
  const reasons = differs.flatMap((difference) =>
    difference === "action unknown now" && exists(recorded.action ?? "")
      ? ["action hidden now" as const]
      : [difference],
  );
  const uncertain = answered !== undefined && canMislead(call, answered, policy, reasons) ? call.lacks : undefined;
  const { callId, at, parent, asked } = call;
  return {
    callId,
    at,
    ...(parent === undefined ? {} : { parent }),
    asked,
    recorded,
    replayed,
    same: reasons.length === 0 && uncertain === undefined,
    differs: reasons,
    ...(uncertain === undefined ? {} : { uncertain }),
  };
}

export function summarizeReplay(calls: readonly ReplayedCall[]): ReplayReport["summary"] {
  const same = calls.filter((call) => call.same).length;
  const uncertain = calls.filter((call) => call.uncertain !== undefined).length;
  return { calls: calls.length, same, different: calls.length - same - uncertain, uncertain, realCalls: 0 };
}

const NOT_MADE: ReplayOutcome = { status: "not made" };

function describeRecorded(call: RecordedCall): ReplayOutcome {
  const [first] = call.decisions;
  const end = resolveEnd(call);
  return {
    ...(first === undefined ? {} : describeDecision(first)),
    status: end?.status ?? (call.approval === undefined ? "unended" : call.approval.resumed ? "unended" : "waiting"),
    ...(end?.code === undefined ? {} : { code: end.code }),
  };
}

function describeDecision({
  action,
  decision,
  layer,
  rule,
}: RecordedCall["decisions"][number]): Partial<ReplayOutcome> {
  return { action, decision, ...(layer === undefined ? {} : { layer }), ...(rule === undefined ? {} : { rule }) };
}

function describeReplayed({ outcome, action, decision, isMissing }: ReplayAnswer): ReplayOutcome {
  const made = {
    ...(action === undefined ? {} : { action: action.name }),
    ...(decision === undefined ? {} : { decision: decision.kind }),
    ...(decision === undefined || decision.kind === "allow"
      ? {}
      : { layer: decision.objection.layer, rule: decision.objection.rule }),
  };
  if (isMissing) return { ...made, status: "unknown" };
  const code = "error" in outcome ? outcome.error.code : undefined;
  return { ...made, status: outcome.status, ...(code === undefined ? {} : { code }) };
}

function findDifferences(
  { decisions: [first] }: RecordedCall,
  { action }: ReplayAnswer,
  recorded: ReplayOutcome,
  replayed: ReplayOutcome,
): readonly ReplayDifference[] {
  const differs: ReplayDifference[] = [];
  if (first !== undefined && action === undefined) differs.push("action unknown now");
  if (first !== undefined && action !== undefined) {
    if (first.action !== action.name) differs.push("another action");
    else if (first.definition !== getDefinitionHash(action)) differs.push("definition changed");
  }
  if (recorded.decision !== replayed.decision) differs.push("decision");
  else if (recorded.layer !== replayed.layer || recorded.rule !== replayed.rule) differs.push("rule");
  // What nobody knows the end of cannot have another one.
  if (recorded.status === "unended") return differs;
  if (recorded.status !== replayed.status) differs.push("status");
  else if (recorded.code !== replayed.code) differs.push("code");
  return differs;
}

/** Whether what was taken out of a call can be what makes it different, or what would make it so under another policy. */
function canMislead(
  { lacks, decisions: [first] }: RecordedCall,
  { action }: ReplayAnswer,
  policy: Policy,
  differs: readonly ReplayDifference[],
): boolean {
  if (lacks === undefined) return false;
  if (differs.some((difference) => difference !== "definition changed")) return true;
  if (first?.policyVersion === policy.version || action === undefined) return false;
  const rule = getApprovalRule(action, policy.approvals.categories);
  return (
    typeof rule !== "boolean" ||
    policy.rules.some(({ condition: { mentions } }) => mentions.has("args") || mentions.has("ctx"))
  );
}
