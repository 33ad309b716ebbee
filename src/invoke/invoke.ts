import type { Activation } from "../activation/activation.ts";
import type { Approval, AskPerson } from "../approval/approval.ts";
import { isEndRecorded, toWaitingApproval } from "../approval/approval.ts";
import type { ApprovalGate } from "../approval/approval-gate.ts";
import { hashBinding } from "../approval/approval-request.ts";
import type { ExecutionPermit } from "../approval/permits.ts";
import { resolveAction } from "../catalog/resolve-action.ts";
import type { LiveResources } from "../catalog/snapshot.ts";
import { findTarget, type View } from "../catalog/view.ts";
import type { Action } from "../core/action.ts";
import { hasSideEffects } from "../core/action.ts";
import { yieldToEventLoop } from "../core/async.ts";
import type { Caller, Dialogue } from "../core/caller.ts";
import { getErrorMessage, QmError } from "../core/errors.ts";
import type { Json } from "../core/json.ts";
import { type CallEnding, createFailedOutcome, createWaitingOutcome, type Outcome } from "../core/outcome.ts";
import type { Runtime } from "../core/runtime.ts";
import type { TraceCarrier, Tracer } from "../core/tracing.ts";
import type { Anchors } from "../distribution/anchors.ts";
import type { Distributor } from "../distribution/distributor.ts";
import type { HandleResolver } from "../infospace/handle-resolver.ts";
import type { CallLineage } from "../infospace/provenance.ts";
import type { ResultStore } from "../infospace/result-store.ts";
import { decide, type PolicyDecision } from "../policy/decide.ts";
import type { Objection } from "../policy/objection.ts";
import type { Policy } from "../policy/policy.ts";
import type { Router } from "../routing/router.ts";
import { type CallSpan, startCallSpan } from "../telemetry/call-span.ts";
import {
  APPROVAL_ARGUMENT_LIMIT,
  addSchemaDetails,
  copyFilledArguments,
  fillArguments,
  isLongArgument,
  prepareArguments,
  toTargetArguments,
} from "./arguments.ts";
import type { BudgetMeter } from "./budget-meter.ts";
import type { CallRecord, CallRecorder } from "./call-record.ts";
import type { HeldSlots } from "./concurrency.ts";
import { type CheckedResult, checkResult, storeLongResult, toDoneOutcome } from "./result.ts";
import type { Previewer, Runner } from "./runner.ts";
import { createRunContext } from "./runner.ts";

/** One request to run an action, from whatever surface. */
export interface ActionCall {
  readonly id: string;
  /** As the caller wrote it; it is resolved in the caller's view. */
  readonly name: string;
  readonly args: unknown;
  readonly caller: Caller;
  /** The surface it came through, for the ledger. */
  readonly via: string;
  /** A shorter time than the action's own, where the caller will not wait as long. */
  readonly timeoutMs?: number | undefined;
  /** The call that this one was made in, and the actions whose places it and those around it hold. */
  readonly inside?: { readonly callId: string; readonly held: HeldSlots };
  /** What whoever made it can be told and asked while it runs. */
  readonly dialogue?: Dialogue | undefined;
  /** How a person is asked about this very call, beside every other way. */
  readonly ask?: AskPerson | undefined;
  /** Of a call that waited and was agreed to: the right to run it. */
  readonly permit?: ExecutionPermit | undefined;
  /** The trace it belongs to. */
  readonly trace?: TraceCarrier | undefined;
  /** What becomes a tool of its own by being called. Absent: nothing does. */
  readonly activation?: Activation | undefined;
  /** `false`: whoever asks takes the whole result, however long. Absent: what is too long to be shown is kept. */
  readonly keep?: boolean | undefined;
}

/** What a call passes through. */
export interface InvokePipeline {
  readonly runtime: Runtime;
  readonly policy: Policy;
  /** With what is found by its name only, where the call names such. */
  viewOf(caller: Caller, live?: readonly Action[]): View;
  readonly live: Pick<LiveResources, "find">;
  readonly record: CallRecorder;
  readonly meter: BudgetMeter;
  readonly gatekeeper: ApprovalGate;
  readonly router: Pick<Router, "dispatch">;
  readonly runner: Runner;
  readonly handles: HandleResolver;
  readonly anchors: Pick<Anchors, "fill">;
  readonly distributor: Pick<Distributor, "distribute">;
  readonly keeper: ResultStore;
  readonly lineage: CallLineage;
  readonly preview: Previewer;
  readonly tracer: Tracer;
  /** Takes secrets out of what is told to those who trace. */
  readonly redact: (value: unknown) => Json;
  readonly valueLimit: number;
  /** Told what went wrong beside a call without changing its outcome. */
  readonly onProblem: (problem: string) => void;
}

/**
 * The one door: every call of every surface passes through here, in this order, and nobody may choose another. Never
 * rejects; whatever goes wrong is an outcome. When it resolves, the call is in the ledger.
 */
export async function invoke(door: InvokePipeline, call: ActionCall, signal?: AbortSignal): Promise<Outcome> {
  const started = door.runtime.elapsed();
  const span = startCallSpan(door.tracer, { ...call, callId: call.id, parent: call.trace, redact: door.redact });
  const progress: CallProgress = {
    action: undefined,
    began: false,
    result: undefined,
    permit: call.permit,
    endWritten: false,
    span,
  };
  const ending = () => ({
    callId: call.id,
    durationMs: Math.max(0, door.runtime.elapsed() - started),
    valueLimit: door.valueLimit,
    action: progress.action?.name,
  });
  let outcome: Outcome;
  try {
    const record = door.record(call);
    try {
      const run = () => attempt(door, call, record, progress, signal);
      outcome = toOutcome(await door.lineage.track(call.inside !== undefined, run), ending());
    } catch (thrown) {
      outcome = createFailedOutcome(ending(), thrown);
    }
    await finishCall(outcome, record, progress, call.permit === undefined);
  } catch (thrown) {
    progress.permit?.leave();
    outcome = createFailedOutcome(ending(), progress.began ? unrecordedError(thrown) : thrown);
  }
  span.ended(outcome);
  return outcome;
}

/**
 * What was agreed to is kept before it is written down: whoever finds the one without the other can tell. That it cannot be
 * kept is no reason not to write it down.
 */
async function finishCall(outcome: Outcome, record: CallRecord, progress: CallProgress, heard: boolean): Promise<void> {
  const { permit, result, endWritten } = progress;
  const kept = await permit?.ended(outcome, heard).catch((thrown: unknown) => ({ thrown }));
  if (kept === "released" && permit !== undefined) record.suspended(permit.approval);
  else if (!endWritten) await record.ended(outcome, result, permit?.approval.callId);
  if (kept === "released" || endWritten) await record.flush();
  if (typeof kept === "object") throw kept.thrown;
  await permit?.recorded(heard);
  permit?.leave();
}

/** How far a call got, for the answer of one that did not end well. */
export interface CallProgress {
  action: Action | undefined;
  began: boolean;
  result: CheckedResult | undefined;
  permit: ExecutionPermit | undefined;
  /** Somebody else ran this very call while it waited here, and writes its end. */
  endWritten: boolean;
  readonly span: CallSpan;
}

/** What an attempt led to: a result, a question that stands, or the end of the same call that was asked for before. */
type AttemptResult = { readonly action: Action } & (
  | { readonly kind: "ran"; readonly result: CheckedResult }
  | {
      readonly kind: "waiting";
      readonly approval: Approval;
      readonly preview?: string | undefined;
      readonly unfit?: string | undefined;
    }
  | { readonly kind: "ended"; readonly approval: Approval; readonly outcome: Outcome }
);

function toOutcome(attempted: AttemptResult, ending: CallEnding): Outcome {
  const { name } = attempted.action;
  const { callId, durationMs } = ending;
  switch (attempted.kind) {
    case "ran":
      return toDoneOutcome(ending, name, attempted.result);
    case "waiting":
      return createWaitingOutcome(ending, name, attempted.approval.reason, {
        ...toWaitingApproval(attempted.approval),
        ...(attempted.preview === undefined ? {} : { preview: attempted.preview }),
        ...(attempted.unfit === undefined ? {} : { unfit: attempted.unfit }),
      });
    case "ended":
      // Run elsewhere while it waited here is still this call; asked for before is another.
      if (attempted.approval.callId === callId) return attempted.outcome;
      return { ...attempted.outcome, callId, durationMs, ranAs: attempted.approval.callId };
  }
}

async function attempt(
  door: InvokePipeline,
  asked: ActionCall,
  record: CallRecord,
  progress: CallProgress,
  signal: AbortSignal | undefined,
): Promise<AttemptResult> {
  const finding = door.live.find(asked.name);
  // Whoever waits lets the caller change the arguments: they are copied before, and without need nobody waits.
  const call = finding === undefined ? asked : { ...asked, args: copyFilledArguments(asked.args).value };
  const live = finding && (await finding);
  const { caller } = call;
  const view = door.viewOf(caller, live === undefined ? [] : [live]);
  const { action, how } = resolveAction(view, call.name);
  progress.action = action;
  record.resolved(action, how);
  // What is kept came from what made it, and not from the handle that leads to it.
  if (action.madeFrom === undefined) door.lineage.add([action.name]);

  if (call.permit !== undefined) await door.lineage.resume(call.permit.approval.callId);
  const { own, hasTokens } = await fillArguments(door, call, action, record);
  if (isLongArgument(own)) await yieldToEventLoop();
  const prepared = prepareArguments(action, own);
  if (isLongArgument(own)) await yieldToEventLoop();
  record.repaired(action, prepared);
  const given = prepared.args;
  const target = findTarget(view.snapshot, action);
  const args = toTargetArguments(action, target, given);

  const usage = await door.meter.read(caller);
  const decision = decide(door.policy, { action, target, caller, args, usage });
  record.decided(action, decision, call.permit?.approval.id, usage);
  progress.span.decided(action, decision, call.permit?.approval.id);
  if (decision.kind === "deny") throw refusalError(decision.objection);

  const bound = { action, target, args: given, caller, policyVersion: door.policy.version };
  if (call.permit !== undefined) requireSameCall(call.permit.approval, hashBinding(bound), decision);
  else if (decision.kind === "ask") {
    const { objection } = decision;
    if (own.text.length > APPROVAL_ARGUMENT_LIMIT) throw tooLongToApproveError(action, own.text.length);
    const preview = await door.preview(action, args, signal);
    await door.lineage.hold(call.id);
    const request = { ...bound, callId: call.id, via: call.via, objection, preview };
    const obtained = await door.gatekeeper.obtain(request, { dialogue: call.dialogue, ask: call.ask, signal });
    if (obtained.kind !== "permit") {
      const { approval } = obtained;
      progress.endWritten = obtained.kind === "ended" && approval.callId === call.id && isEndRecorded(approval);
      if (obtained.kind === "ended") return { action, ...obtained };
      // Made of values that the model has only tokens for, it is for people alone.
      return { action, ...obtained, preview: hasTokens ? undefined : preview };
    }
    // A person takes time, and the policy may be another by now: what was agreed to is decided on again.
    const { permit } = obtained;
    progress.permit = permit;
    record.resumed(permit);
    return attempt(door, { ...call, name: action.name, args: given, permit }, record, progress, signal);
  }

  const overdrawn = await door.meter.charge(caller);
  if (overdrawn !== undefined) throw refusalError(overdrawn);
  await activateAction(call, action, record);
  if (hasSideEffects(action.effect)) await record.flush();
  const started = door.runtime.elapsed();
  try {
    const context = createRunContext(door, call, action, progress, invoke);
    // Agreed was to one run of it.
    const once = progress.permit !== undefined;
    const routed = { callId: call.id, action, args, caller, signal, timeoutMs: call.timeoutMs, once };
    progress.result = await door.router.dispatch(routed, async (wish) => {
      const answered = await progress.span.within(() => door.runner.run(action, args, context, wish));
      return checkResult(action, answered, (annotated) =>
        door.distributor.distribute(annotated, { callId: call.id, action: action.name, caller, signal }),
      );
    });
    progress.result = await storeLongResult(door, call, action, progress.result);
    return { action, kind: "ran", result: progress.result };
  } catch (thrown) {
    throw addSchemaDetails(action, thrown);
  } finally {
    await settleUsage(door, call, door.runtime.elapsed() - started, progress.result?.bytes ?? 0);
  }
}

async function activateAction({ activation }: ActionCall, action: Action, record: CallRecord): Promise<void> {
  // What is somebody's own is no tool: it is there when it is named.
  if (action.owner !== undefined || !activation?.isDeferred(action)) return;
  if (await activation.activate(action)) record.activated(action, activation.scope);
}

/** What was used is counted as well as can be; that it could not be counted does not undo what was done. */
async function settleUsage(door: InvokePipeline, { caller, id }: ActionCall, ms: number, bytes: number): Promise<void> {
  try {
    await door.meter.settle(caller, ms, bytes);
  } catch (thrown) {
    door.onProblem(`call ${id}: what it used could not be counted: ${getErrorMessage(thrown)}`);
  }
}

/** Agreed was to one exact call, under one policy. */
function requireSameCall({ id, binding, action, level }: Approval, now: string, decision: PolicyDecision): void {
  const isSameLevel = decision.kind !== "ask" || (decision.objection.level ?? "user") === level;
  if (binding === now && isSameLevel) return;
  throw new QmError(
    "approval_expired",
    `${action} would not run as it was agreed to: it, its arguments or the policy changed`,
    {
      hint: "It was not run. Call it again if it is still wanted; a person is asked anew.",
      details: { approval_id: id },
    },
  );
}

function tooLongToApproveError(action: Action, length: number): QmError {
  return new QmError(
    "too_large",
    `a person must agree to ${action.name}, and ${length} characters of arguments are too many to read`,
    {
      hint: `Narrow them to less than ${APPROVAL_ARGUMENT_LIMIT} characters.`,
    },
  );
}

function unrecordedError(thrown: unknown): QmError {
  return new QmError("unrecorded", `it ran, but its end could not be written: ${getErrorMessage(thrown)}`, {
    cause: thrown,
    hint: "Only the record is missing. Do not repeat the call; look at what it did.",
  });
}

function refusalError({ layer, reason, unevaluated }: Objection): QmError {
  if (unevaluated) return new QmError("not_evaluated", reason, { hint: "Try again with smaller arguments." });
  return layer === "budget"
    ? new QmError("budget_exceeded", reason, { hint: "Finish with what you have." })
    : new QmError("denied", reason, { hint: "Choose another way; asking again will not help." });
}
