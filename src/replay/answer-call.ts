import type { Approval } from "../approval/approval.ts";
import type { ApprovalGate } from "../approval/approval-gate.ts";
import { type ApprovalRequest, createNewApproval } from "../approval/approval-request.ts";
import type { ExecutionPermit } from "../approval/permits.ts";
import type { View } from "../catalog/view.ts";
import { type Action, getDefinitionHash } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { QmError } from "../core/errors.ts";
import { createHintWords } from "../core/hint.ts";
import type { Json } from "../core/json.ts";
import type { Outcome, WaitingOutcome } from "../core/outcome.ts";
import { silentTracer } from "../core/tracing.ts";
import type { CallRecord } from "../invoke/call-record.ts";
import { type ActionCall, type InvokePipeline, invoke } from "../invoke/invoke.ts";
import type { Runner } from "../invoke/runner.ts";
import { WaitingInside } from "../invoke/waiting-inside.ts";
import type { PolicyDecision } from "../policy/decide.ts";
import { compilePolicy, type Policy, type PolicyOptions } from "../policy/policy.ts";
import { type BudgetAccounts, createBudgetAccounts } from "./budget-accounts.ts";
import { hasRun, type RecordedCall, restoreError, restoreOutcome } from "./recorded-call.ts";
import type { ReplayParts } from "./replay.ts";

export interface ReplayEnvironment extends Pick<ReplayParts, "runtime" | "live" | "anchors" | "valueLimit"> {
  readonly policy: Policy;
  viewOf(caller: Caller, live?: readonly Action[]): View;
  readonly accounts: BudgetAccounts;
  readonly getHintWords: InvokePipeline["getHintWords"];
}

export function createReplayEnvironment(parts: ReplayParts, options: PolicyOptions | undefined): ReplayEnvironment {
  const { runtime, valueLimit, anchors, live } = parts;
  const policy = options === undefined ? parts.policy() : compilePolicy(options);
  const accounts = createBudgetAccounts(policy);
  const viewOf: ReplayEnvironment["viewOf"] = (...args) => parts.viewOf(policy, ...args);
  const getHintWords: ReplayEnvironment["getHintWords"] = (via, caller) =>
    createHintWords(via, (name) => viewOf(caller).get(name) !== undefined, parts.search.canSearch);
  return { runtime, valueLimit, anchors, live, policy, accounts, viewOf, getHintWords };
}

export interface ReplayScript {
  /** The recorded call, once its action is resolved. */
  findRecorded(action: Action): RecordedCall | undefined;
  /** Repeats the calls that were made inside this one. */
  inside?(place: NonNullable<ActionCall["inside"]>): Promise<void>;
  /** The recorded arguments with handles resolved. Undefined: they held no handles. */
  filledArgs?(args: unknown): unknown;
  /** The error for a call without a recorded result. */
  missing(action: Action): QmError;
}

export interface ReplayAnswer {
  readonly outcome: Outcome;
  /** Undefined: the name is unknown. */
  readonly action: Action | undefined;
  /** Undefined: the call ended before the decision. */
  readonly decision: PolicyDecision | undefined;
  readonly repairs: readonly string[];
  /** Whether the call got as far as the handler. */
  readonly isRun: boolean;
  /** Whether it would have run, but has no recorded result. */
  readonly isMissing: boolean;
}

/**
 * Sends a call through the invoke pipeline with recorded results. View, arguments and decision are computed again; the
 * answers of people and of the action are repeated. Runs no handler and writes nothing.
 */
export async function answerCall(
  { accounts, viewOf, ...environment }: ReplayEnvironment,
  script: ReplayScript,
  call: ActionCall,
  signal?: AbortSignal,
): Promise<ReplayAnswer> {
  const { valueLimit } = environment;
  const trace: CallTrace = { action: undefined, decision: undefined, repairs: [], isRun: false, isMissing: false };
  const pipeline: InvokePipeline = {
    ...environment,
    getView: viewOf,
    record: () => createTraceRecord(trace),
    meter: accounts.createMeter(() => (trace.action === undefined ? undefined : script.findRecorded(trace.action))),
    approvalGate: createRecordedGate(script, valueLimit),
    // No retries: the recorded end already includes them.
    router: { dispatch: (_call, run) => run({ signal: signal ?? new AbortController().signal }) },
    runner: createRecordedRunner(script, call, trace, { accounts, policy: environment.policy }),
    handles: { fill: async (_caller, args) => ({ args: script.filledArgs?.(args) ?? args, from: [] }) },
    resultStore: {
      store: async () => undefined,
      storeStream: () => Promise.reject(new TypeError("a replay runs nothing")),
    },
    lineage: {
      begin: () => ({ add() {}, within: (work) => work() }),
      add: () => {},
      sources: () => [],
      hold: async () => {},
      resume: async () => {},
    },
    // The recorded result is already redacted, and no other receiver gets it again.
    distributor: { distribute: async ({ record: data }) => ({ data, forModel: data as Json, audit: data as Json }) },
    preview: async () => undefined,
    tracer: silentTracer,
    redact: () => null,
    onProblem: () => {},
  };
  const outcome = await invoke(pipeline, call, signal);
  const { action, isRun } = trace;
  if (!isRun || action === undefined) return { ...trace, outcome };
  return { ...trace, outcome: restorePartialResult(outcome, action, script.findRecorded(action), valueLimit) };
}

/** A valid result may not fit its schema any more after parts of it were left out of the ledger. That is no failure. */
function restorePartialResult(
  outcome: Outcome,
  action: Action,
  recorded: RecordedCall | undefined,
  valueLimit: number,
) {
  if (!("error" in outcome) || outcome.error.code !== "invalid_output") return outcome;
  if (recorded?.end?.status !== "done") return outcome;
  const isSameDefinition = recorded.decisions[0]?.definition === getDefinitionHash(action);
  if (!isSameDefinition && !recorded.end.isPartial) return outcome;
  return restoreOutcome(recorded, { callId: outcome.callId, action: action.name, valueLimit }) ?? outcome;
}

/** Repeats the recorded answers. A call that needs approval only now keeps waiting: it has no recorded answer. */
function createRecordedGate(script: ReplayScript, valueLimit: number): ApprovalGate {
  return {
    async obtain(request) {
      const { action, callId } = request;
      const recorded = script.findRecorded(action);
      const approval = toReplayApproval(request, recorded);
      if (recorded?.decisions[0]?.decision !== "ask") return { kind: "waiting", approval };
      if (hasRun(recorded)) return { kind: "permit", permit: createReplayPermit(approval) };
      const outcome = restoreOutcome(recorded, { callId, action: action.name, valueLimit });
      return outcome === undefined ? { kind: "waiting", approval } : { kind: "ended", approval, outcome };
    },
  };
}

function createReplayPermit(approval: Approval): ExecutionPermit {
  const skip = async () => {};
  const readFile = async () => undefined;
  return { approval, executor: "replay", readFile, begin: skip, ended: async () => "kept", recorded: skip, leave() {} };
}

function toReplayApproval(request: ApprovalRequest, recorded: RecordedCall | undefined): Approval {
  const { id = `replay-${request.callId}`, answer } = recorded?.approval ?? {};
  const at = recorded?.at ?? "";
  return {
    ...createNewApproval(request, { id, requestedAt: at, expiresAt: at }),
    state: answer?.decision ?? "pending",
    ...(answer === undefined ? {} : { answer: { ...answer, via: "replay", at } }),
    delivered: false,
  };
}

/** The approval that an inner call waited for when this call, which needed none itself, ended. */
function findInnerApproval({ approval, end, decisions: [first] }: RecordedCall): string | undefined {
  return end === undefined && first?.decision === "allow" ? approval?.id : undefined;
}

function toRecordedWait({ name: action }: Action, id: string, expiresAt: string): WaitingOutcome {
  const approval = { id, level: "user", expiresAt };
  return { status: "waiting", callId: "", durationMs: 0, value: "", action, reason: "", hint: "", approval };
}

type CallTrace = { -readonly [Key in Exclude<keyof ReplayAnswer, "outcome">]: ReplayAnswer[Key] };

function createTraceRecord(trace: CallTrace): CallRecord {
  return {
    resolved(action) {
      trace.action = action;
    },
    filled() {},
    repaired(_action, { repairs }) {
      trace.repairs = repairs;
    },
    decided(_action, decision) {
      trace.decision = decision;
    },
    suspended() {},
    resumed() {},
    activated() {},
    modelCalled() {},
    flush: async () => {},
    ended: async () => {},
  };
}

/** Whether another policy refused a request to a language model that is allowed now, so that the end now is not known. */
function hadSmallerModelBudget({ modelUsages, end, decisions: [first] }: RecordedCall, { version }: Policy): boolean {
  return modelUsages !== undefined && end?.code === "budget_exceeded" && first?.policyVersion !== version;
}

function createRecordedRunner(
  script: ReplayScript,
  { id, inside }: ActionCall,
  trace: CallTrace,
  { accounts, policy }: Pick<ReplayEnvironment, "accounts" | "policy">,
): Runner {
  return {
    async run(action, _args, _context, { signal }) {
      if (signal?.aborted) throw new QmError("cancelled", `${action.name} was cancelled`);
      trace.isRun = true;
      const recorded = script.findRecorded(action);
      const inner = recorded === undefined ? undefined : findInnerApproval(recorded);
      if (recorded !== undefined && (hasRun(recorded) || inner !== undefined)) {
        await script.inside?.({ callId: id, held: new Set([...(inside?.held ?? []), action.name]) });
        const refused = accounts.chargeModel(recorded);
        if (refused !== undefined) throw restoreError({ code: "budget_exceeded", reason: refused.reason });
        if (recorded.end?.status === "done") return recorded.end.result;
        if (recorded.end !== undefined && !hadSmallerModelBudget(recorded, policy)) throw restoreError(recorded.end);
        if (inner !== undefined) return new WaitingInside(toRecordedWait(action, inner, recorded.at), undefined);
      }
      trace.isMissing = true;
      throw script.missing(action);
    },
    close() {},
  };
}
