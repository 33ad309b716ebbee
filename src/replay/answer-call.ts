import type { Approval } from "../approval/approval.ts";
import type { ApprovalGate } from "../approval/approval-gate.ts";
import { type ApprovalRequest, createNewApproval } from "../approval/approval-request.ts";
import type { ExecutionPermit } from "../approval/permits.ts";
import type { LiveResources } from "../catalog/snapshot.ts";
import type { View } from "../catalog/view.ts";
import type { Action } from "../core/action.ts";
import { getDefinitionHash } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { QmError } from "../core/errors.ts";
import type { Json } from "../core/json.ts";
import type { Outcome } from "../core/outcome.ts";
import type { Runtime } from "../core/runtime.ts";
import { silentTracer } from "../core/tracing.ts";
import type { Anchors } from "../distribution/anchors.ts";
import type { CallRecord } from "../invoke/call-record.ts";
import { type ActionCall, type InvokePipeline, invoke } from "../invoke/invoke.ts";
import type { Runner } from "../invoke/runner.ts";
import type { PolicyDecision } from "../policy/decide.ts";
import type { Policy } from "../policy/policy.ts";
import type { BudgetAccounts } from "./budget-accounts.ts";
import type { RecordedCall } from "./recorded-call.ts";
import { hasAskedPerson, hasRun, restoreError, restoreOutcome } from "./recorded-call.ts";

/** Repeats what people said then. Whoever was not asked then cannot have agreed, so a call that asks only now waits. */
function createRecordedGate(
  recordedOf: (action: Action) => RecordedCall | undefined,
  valueLimit: number,
): ApprovalGate {
  return {
    async obtain(request) {
      const { action, callId } = request;
      const recorded = recordedOf(action);
      const approval = toReplayApproval(request, recorded);
      if (recorded === undefined || !hasAskedPerson(recorded)) return { kind: "waiting", approval };
      if (hasRun(recorded)) return { kind: "permit", permit: createReplayPermit(approval) };
      const outcome = restoreOutcome(recorded, { callId, action: action.name, valueLimit });
      return outcome === undefined ? { kind: "waiting", approval } : { kind: "ended", approval, outcome };
    },
    settled: async (outcome) => outcome,
  };
}

function createReplayPermit(approval: Approval): ExecutionPermit {
  return {
    approval,
    executor: "replay",
    begin: async () => {},
    ended: async () => "kept",
    recorded: async () => {},
    leave() {},
  };
}

/** The question as it would be put now, with the answer of then. */
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

/** What the calls of one replay have in common. */
export interface ReplayEnvironment {
  readonly runtime: Runtime;
  readonly policy: Policy;
  viewOf(caller: Caller, live?: readonly Action[]): View;
  /** What calls name and is not in the catalog. */
  readonly live: Pick<LiveResources, "find">;
  readonly accounts: BudgetAccounts;
  /** What tokens in arguments stand for. */
  readonly anchors: Pick<Anchors, "fill">;
  readonly valueLimit: number;
}

/** Where the answers come from. */
export interface ReplayScript {
  /** What was recorded of the call, once it is known which action it leads to. */
  findRecorded(action: Action): RecordedCall | undefined;
  /** Makes the calls again that were made inside it. */
  inside?(place: NonNullable<ActionCall["inside"]>): Promise<void>;
  /** What the arguments were once handles in them were filled in. Absent, or undefined: there were none. */
  filledArgs?(args: unknown): unknown;
  /** What is answered where nothing was recorded. */
  missing(action: Action): QmError;
}

/** A call that went through the door with nothing behind it. */
export interface ReplayAnswer {
  readonly outcome: Outcome;
  /** Absent: the name led nowhere. */
  readonly action: Action | undefined;
  /** Absent: it did not get as far. */
  readonly decision: PolicyDecision | undefined;
  readonly repairs: readonly string[];
  /** Whether it got as far as being run, which is where the recorded result is. */
  readonly isRun: boolean;
  /** It would have run, and nothing was recorded that it could be answered with. */
  readonly isMissing: boolean;
}

/**
 * Takes a call through the one door, with what was recorded behind it: the view, the arguments and the decision are made
 * anew, what a person said and what the action answered are repeated. No handler is entered, and nothing is written.
 */
export async function answerCall(
  scene: ReplayEnvironment,
  script: ReplayScript,
  call: ActionCall,
  signal?: AbortSignal,
): Promise<ReplayAnswer> {
  const { policy, runtime, viewOf, live, valueLimit, accounts, anchors } = scene;
  const told: CallTrace = { action: undefined, decision: undefined, repairs: [], isRun: false, isMissing: false };
  const findRecorded = (action: Action): RecordedCall | undefined => script.findRecorded(action);
  const door: InvokePipeline = {
    runtime,
    policy,
    getView: viewOf,
    live,
    valueLimit,
    record: () => createTraceRecord(told),
    meter: accounts.createMeter(() => (told.action === undefined ? undefined : findRecorded(told.action))),
    approvalGate: createRecordedGate(findRecorded, valueLimit),
    // Nobody is told, nothing is tried twice: what is repeated is how it ended.
    router: { dispatch: (_call, run) => run({ signal: signal ?? new AbortController().signal }) },
    runner: createRecordedRunner(script, call, told),
    handles: { fill: async (_caller, args) => ({ args: script.filledArgs?.(args) ?? args, from: [] }) },
    anchors,
    // What was kept then is kept already.
    resultStore: { store: async () => undefined, storeStream: () => Promise.reject(new TypeError("nothing runs here")) },
    lineage: {
      track: (_isInside, work) => work(),
      add: () => {},
      hold: async () => {},
      resume: async () => {},
    },
    // A recorded result is what may be written down of it, and nobody else is given it again.
    distributor: {
      distribute: async ({ record }) => ({ data: record, forModel: record as Json, audit: record as Json }),
    },
    preview: async () => undefined,
    tracer: silentTracer,
    redact: () => null,
    onProblem: () => {},
  };
  const outcome = await invoke(door, call, signal);
  const recorded = told.isRun && told.action !== undefined ? findRecorded(told.action) : undefined;
  return { ...told, outcome: restorePartialResult(outcome, told.action, recorded, valueLimit) };
}

/** A result that had its form when it was recorded, and has not all of it in the ledger, is not to blame for that. */
function restorePartialResult(
  outcome: Outcome,
  action: Action | undefined,
  recorded: RecordedCall | undefined,
  valueLimit: number,
): Outcome {
  if (!("error" in outcome) || outcome.error.code !== "invalid_output") return outcome;
  if (action === undefined || recorded?.end?.status !== "done") return outcome;
  const isSameForm = recorded.decisions[0]?.definition === getDefinitionHash(action);
  if (!isSameForm && !recorded.end.isPartial) return outcome;
  return restoreOutcome(recorded, { callId: outcome.callId, action: action.name, valueLimit }) ?? outcome;
}

type CallTrace = { -readonly [Key in Exclude<keyof ReplayAnswer, "outcome">]: ReplayAnswer[Key] };

function createTraceRecord(told: CallTrace): CallRecord {
  return {
    resolved(action) {
      told.action = action;
    },
    filled() {},
    repaired(_action, { repairs }) {
      told.repairs = repairs;
    },
    decided(_action, decision) {
      told.decision = decision;
    },
    suspended() {},
    resumed() {},
    activated() {},
    flush: async () => {},
    ended: async () => {},
  };
}

function createRecordedRunner(script: ReplayScript, { id, inside }: ActionCall, told: CallTrace): Runner {
  return {
    async run(action, _args, _context, { signal }) {
      if (signal?.aborted) throw new QmError("cancelled", `${action.name} was cancelled`);
      told.isRun = true;
      const recorded = script.findRecorded(action);
      if (recorded !== undefined && hasRun(recorded)) {
        await script.inside?.({ callId: id, held: new Set([...(inside?.held ?? []), action.name]) });
        if (recorded.end?.status === "done") return recorded.end.result;
        if (recorded.end !== undefined) throw restoreError(recorded.end);
      }
      told.isMissing = true;
      throw script.missing(action);
    },
    close() {},
  };
}
