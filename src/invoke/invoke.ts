import type { Activation } from "../activation/activation.ts";
import { type Approval, type AskPerson, isEndRecorded, toWaitingApproval } from "../approval/approval.ts";
import type { ApprovalGate } from "../approval/approval-gate.ts";
import { hashBinding } from "../approval/approval-request.ts";
import type { ExecutionPermit } from "../approval/permits.ts";
import { resolveAction } from "../catalog/resolve-action.ts";
import type { LiveResources } from "../catalog/snapshot.ts";
import { findTarget, type View } from "../catalog/view.ts";
import type { Abortable } from "../core/abortable.ts";
import { type Action, type CallContext, hasSideEffects } from "../core/action.ts";
import { yieldToEventLoop } from "../core/async.ts";
import type { Caller, Dialogue } from "../core/caller.ts";
import { checkHops, PEER_VIA } from "../core/delegation.ts";
import { getErrorMessage, QmError } from "../core/errors.ts";
import type { HintWords } from "../core/hint.ts";
import { type Json, omitUndefined } from "../core/json.ts";
import type { Model } from "../core/model.ts";
import { type CallEnding, createFailedOutcome, createWaitingOutcome, type Outcome } from "../core/outcome.ts";
import type { Runtime } from "../core/runtime.ts";
import type { TraceCarrier, Tracer } from "../core/tracing.ts";
import type { Anchors } from "../distribution/anchors.ts";
import type { AnnotatedRecord } from "../distribution/annotated-record.ts";
import type { Distributor } from "../distribution/distributor.ts";
import type { HandleResolver } from "../infospace/handle-resolver.ts";
import type { CallLineage, CallSources } from "../infospace/provenance.ts";
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
import { createCallModel } from "./call-model.ts";
import type { CallRecord, CallRecorder } from "./call-record.ts";
import { getSlotKey, type HeldSlots } from "./concurrency.ts";
import { type LearnSource, learnNamedSource, listVisible } from "./learn-source.ts";
import {
  type CheckedResult,
  checkResult,
  StoredStream,
  storeLongResult,
  toDoneOutcome,
  toInnerWait,
} from "./result.ts";
import type { Previewer, RunContext, Runner } from "./runner.ts";
import { WaitingInside } from "./waiting-inside.ts";

export interface ActionCall {
  readonly id: string;
  /** As the caller wrote it; it is resolved in the caller's view. */
  readonly name: string;
  readonly args: unknown;
  readonly caller: Caller;
  /** The surface it came through, for the ledger. */
  readonly via: string;
  /** Only shortens the action's own time limit. */
  readonly timeoutMs?: number | undefined;
  /** The call whose handler made this one, and the slots that it and its parents hold. */
  readonly inside?: { readonly callId: string; readonly held: HeldSlots; readonly isFromModel?: boolean };
  /** The method around this call, directly or through other calls. */
  readonly method?: string | undefined;
  readonly dialogue?: Dialogue | undefined;
  /** Asks a person to approve this call, beside the other approval channels. */
  readonly ask?: AskPerson | undefined;
  readonly permit?: ExecutionPermit | undefined;
  readonly trace?: TraceCarrier | undefined;
  /** Turns deferred actions into tools when they are called. */
  readonly activation?: Activation | undefined;
  /** `false`: return a long result whole instead of storing it as a note. */
  readonly keep?: boolean | undefined;
}

export interface InvokePipeline {
  readonly runtime: Runtime;
  readonly policy: Policy;
  /** The caller's view of the catalog, with the `live` resources added. */
  getView(caller: Caller, live?: readonly Action[]): View;
  readonly live: Pick<LiveResources, "find">;
  /** Asks a source whose actions are not known yet. Absent in a replay, which starts nothing. */
  readonly learn?: LearnSource;
  readonly record: CallRecorder;
  readonly meter: BudgetMeter;
  readonly approvalGate: ApprovalGate;
  readonly router: Pick<Router, "dispatch">;
  readonly runner: Runner;
  readonly handles: HandleResolver;
  readonly anchors: Pick<Anchors, "fill">;
  readonly distributor: Pick<Distributor, "distribute">;
  readonly resultStore: ResultStore;
  readonly lineage: CallLineage;
  readonly preview: Previewer;
  /** The model for handlers. Absent: none is configured. */
  readonly model?: Model | undefined;
  readonly tracer: Tracer;
  /** How hints name their steps to a caller. */
  getHintWords(via: string, caller: Caller): HintWords;
  /** Removes secrets from what the tracer gets. */
  readonly redact: (value: unknown) => Json;
  readonly valueLimit: number;
  /** How often work may be handed on. Absent in a replay. */
  readonly hopsLimit?: number;
  /** Reports a problem that does not change the outcome. */
  readonly onProblem: (problem: string) => void;
}

/**
 * Runs one call: every call of every surface passes through here, and the order of the steps is fixed. Never rejects; an
 * error becomes an outcome. When it resolves, the call is in the ledger.
 */
export async function invoke(pipeline: InvokePipeline, call: ActionCall, signal?: Abortable): Promise<Outcome> {
  const { runtime, tracer, redact, valueLimit } = pipeline;
  const started = runtime.elapsed();
  const { id: callId, name, args, caller, via, trace: parent } = call;
  const span = startCallSpan(tracer, { callId, name, args, caller, via, parent, redact });
  const words = pipeline.getHintWords(via, caller);
  const sources = pipeline.lineage.begin(call.inside !== undefined);
  const progress: CallProgress = { permit: call.permit, began: false, endWritten: false, span, sources };
  const ending = () => {
    const durationMs = Math.max(0, runtime.elapsed() - started);
    const { name: action, resultChars = valueLimit } = progress.action ?? {};
    return { callId, durationMs, valueLimit: resultChars, action, words };
  };
  let outcome: Outcome;
  try {
    const record = pipeline.record(call);
    try {
      const toOutcome = await attempt(pipeline, call, record, progress, signal);
      outcome = toOutcome(ending());
    } catch (thrown) {
      outcome = createFailedOutcome(ending(), thrown);
    }
    if (progress.isRepaired) outcome = { ...outcome, isRepaired: true };
    await finishCall(outcome, record, progress, call.permit === undefined);
  } catch (thrown) {
    progress.permit?.leave();
    outcome = createFailedOutcome(ending(), progress.began ? unrecordedError(thrown) : thrown);
  }
  span.ended(outcome);
  return outcome;
}

interface CallProgress {
  action?: Action;
  result?: CheckedResult;
  isRepaired?: true;
  permit: ExecutionPermit | undefined;
  began: boolean;
  /** Another process ran this call while it waited here, and writes its end. */
  endWritten: boolean;
  afterEnd?: (outcome: Outcome) => Promise<void>;
  readonly span: CallSpan;
  readonly sources: CallSources;
}

/** Stores the outcome with its approval, then records it: recovery can tell one without the other. Records it even if storing fails. */
async function finishCall(outcome: Outcome, record: CallRecord, progress: CallProgress, heard: boolean): Promise<void> {
  const { permit, result, endWritten } = progress;
  if (permit === undefined && !endWritten) {
    await record.ended(outcome, result);
    return progress.afterEnd?.(outcome);
  }
  const ended = await permit?.ended(outcome, heard).catch((thrown: unknown) => ({ thrown }));
  if (ended === "released" && permit !== undefined) record.suspended(permit.approval);
  else if (!endWritten) await record.ended(outcome, result, permit?.approval.callId);
  if (ended === "released" || endWritten) await record.flush();
  if (typeof ended === "object") throw ended.thrown;
  await permit?.recorded(heard);
  permit?.leave();
  await progress.afterEnd?.(outcome);
}

async function attempt(
  pipeline: InvokePipeline,
  asked: ActionCall,
  record: CallRecord,
  progress: CallProgress,
  signal: Abortable | undefined,
): Promise<(ending: CallEnding) => Outcome> {
  const { lineage, meter, runtime, hopsLimit } = pipeline;
  const { sources } = progress;
  if (hopsLimit !== undefined) checkHops(asked.caller, hopsLimit);
  const seen = pipeline.getView(asked.caller);
  const finding = pipeline.live.find(asked.name, asked.caller) ?? learnNamedSource(pipeline, seen, asked, signal);
  // Copy the arguments before the first await; the caller may change them afterwards. Do not await without need.
  const call = finding === undefined ? asked : { ...asked, args: copyFilledArguments(asked.args).value };
  const live = finding && (await finding);
  const { id: callId, caller, permit: given } = call;
  const view = finding === undefined ? seen : pipeline.getView(caller, live === undefined ? [] : [live]);
  const { action, how } = resolveAction(view, call.name);
  progress.action = action;
  record.resolved(action, how);
  if (how === "respelled") progress.isRepaired = true;
  // A stored result comes from the action that made it, not from the handle that loads it.
  if (action.madeFrom === undefined) sources.add([action.name]);

  if (given !== undefined) await sources.within(() => lineage.resume(given.approval.callId));
  // Always awaited: no handler runs before `invoke()` has returned its promise.
  const { own, hasTokens } = await fillArguments(pipeline, call, action, record, sources);
  if (isLongArgument(own)) await yieldToEventLoop();
  const prepared = prepareArguments(action, own);
  if (isLongArgument(own)) await yieldToEventLoop();
  record.repaired(action, prepared);
  if (prepared.repairs.length > 0 && !prepared.isNormalized) progress.isRepaired = true;
  const target = findTarget(view.snapshot, action);
  const args = toTargetArguments(action, target, prepared.args);
  if (action.refresh !== undefined) await action.refresh();
  const usage = await meter.read(caller);
  // Read the policy now: it may have been replaced while the arguments were prepared.
  const { policy } = pipeline;
  const decision = decide(policy, { action, target, caller, args, usage });
  record.decided(action, decision, given?.approval.id, usage);
  progress.span.decided(action, decision, given?.approval.id);
  if (decision.kind === "deny") throw refusalError(decision.objection);

  const bound = { action, target, args: prepared.args, caller, policyVersion: policy.version };
  if (given !== undefined) requireSameCall(given.approval, hashBinding(bound), decision);
  else if (decision.kind === "ask") {
    if (own.text.length > APPROVAL_ARGUMENT_LIMIT) throw tooLongToApproveError(action, own.text.length);
    const preview = await sources.within(() => pipeline.preview(action, args, signal));
    await sources.within(() => lineage.hold(callId));
    const request = {
      ...bound,
      callId,
      parent: call.inside?.callId,
      method: call.method,
      via: call.via,
      objection: decision.objection,
      preview,
    };
    const channels = { dialogue: call.dialogue, ask: call.ask, signal };
    const obtained = await sources.within(() => pipeline.approvalGate.obtain(request, channels));
    if (obtained.kind === "waiting") {
      const { approval, unfit } = obtained;
      // People alone see a preview of values that the model has tokens for, or of texts that no person has accepted.
      const isForPeople = hasTokens || action.isAccepted !== undefined;
      const facts = omitUndefined({ preview: isForPeople ? undefined : preview?.text, unfit });
      const waits = { reason: approval.reason, approval: { ...toWaitingApproval(approval), ...facts } };
      return (ending) => createWaitingOutcome(ending, action.name, waits);
    }
    if (obtained.kind === "ended") {
      const { approval, outcome } = obtained;
      const isThisCall = approval.callId === callId;
      progress.endWritten = isThisCall && isEndRecorded(approval);
      return ({ durationMs }) => (isThisCall ? outcome : { ...outcome, callId, durationMs, ranAs: approval.callId });
    }
    // The policy may have changed while the person took time, so the approved call is decided again.
    const { permit } = obtained;
    progress.permit = permit;
    record.resumed(permit);
    return attempt(pipeline, { ...call, name: action.name, args: prepared.args, permit }, record, progress, signal);
  }

  const overdrawn = await meter.charge(caller);
  if (overdrawn !== undefined) throw refusalError(overdrawn);
  const { activation } = call;
  // An action with an owner, such as a note, is resolved by name only and never becomes a tool.
  if (action.owner === undefined && activation?.isDeferred(action) && (await activation.activate(action)))
    record.activated(action, activation.scope);
  if (hasSideEffects(action.effect)) await record.flush();
  const started = runtime.elapsed();
  try {
    const context = createRunContext(pipeline, call, action, progress, record);
    // An approval allows one run.
    const once = progress.permit !== undefined;
    const routed = { callId, action, args, caller, signal, timeoutMs: call.timeoutMs, once };
    const isPeerCall = call.via === PEER_VIA;
    const distribute = (annotated: AnnotatedRecord<unknown>) =>
      pipeline.distributor.distribute(annotated, { callId, action: action.name, caller, signal, isPeerCall });
    const dispatch = () =>
      pipeline.router.dispatch(routed, async (limits) => {
        const answered = await progress.span.within(() => pipeline.runner.run(action, args, context, limits));
        return answered instanceof WaitingInside
          ? toInnerWait(answered, distribute, pipeline.valueLimit)
          : checkResult(action, answered, distribute);
      });
    const checked = await (action.isRemote ? dispatch() : sources.within(dispatch));
    if ("approval" in checked) return (ending) => createWaitingOutcome(ending, action.name, checked);
    progress.result = checked;
    const storing = storeLongResult(pipeline, call, action, checked, sources);
    const result = storing instanceof Promise ? await storing : storing;
    progress.result = result;
    return (ending) => toDoneOutcome(ending, action.name, result);
  } catch (thrown) {
    throw addSchemaDetails(action, thrown);
  } finally {
    try {
      const settling = meter.settle(caller, runtime.elapsed() - started, progress.result?.bytes ?? 0);
      if (settling !== undefined) await settling;
    } catch (thrown) {
      pipeline.onProblem(`call ${callId}: its usage could not be counted: ${getErrorMessage(thrown)}`);
    }
  }
}

function createRunContext(
  pipeline: InvokePipeline,
  { id: callId, caller, via, inside, activation, dialogue, method }: ActionCall,
  action: Action,
  progress: CallProgress,
  record: CallRecord,
): RunContext {
  const held = new Set([...(inside?.held ?? []), getSlotKey(action)]);
  const trace = progress.span.carrier();
  return {
    handlerContext: {
      caller,
      callId,
      ...(trace.traceparent === undefined ? {} : { trace }),
      ...toApprovalDecision(progress.permit),
      ...(method === undefined ? {} : { method }),
      sees: (name) => pipeline.getView(caller).get(name) !== undefined,
      listVisible: (patterns) => listVisible(pipeline, caller, patterns),
      afterEnd(work) {
        progress.afterEnd = work;
      },
      heldSlots: held,
    },
    dialogue,
    held: inside?.held,
    begin() {
      const noteBegun = (): void => {
        progress.began = true;
      };
      const beginning = progress.began ? undefined : progress.permit?.begin();
      if (beginning !== undefined) return beginning.then(noteBegun);
      noteBegun();
      return undefined;
    },
    createInvoke: (getSignal, dialogue) => (name, args, as) => {
      const id = as?.id ?? pipeline.runtime.newId();
      const inner = { id, name, args, caller, via, activation, dialogue, trace, method, inside: { callId, held } };
      const step = as && { via: "method", method: as.method, inside: { callId, held, isFromModel: true } };
      return invoke(pipeline, { ...inner, ...step }, getSignal());
    },
    createModel: (getSignal) => {
      const { model, meter, runtime, onProblem } = pipeline;
      return model && createCallModel({ model, caller, meter, record, runtime, onProblem }, getSignal);
    },
    storeStream: async (streamed, signal) =>
      new StoredStream(
        await pipeline.resultStore.storeStream(streamed, { caller, callId, action: action.name }, signal),
      ),
  };
}

function toApprovalDecision(permit: ExecutionPermit | undefined): Pick<CallContext, "approvalDecision"> {
  if (permit === undefined) return {};
  const { id: approvalId, answer, preview, files } = permit.approval;
  if (answer === undefined) return {};
  const { by, via, at, reason } = answer;
  const facts = omitUndefined({ approvalId, by, via, at, reason, preview, files });
  return { approvalDecision: { ...facts, readFile: permit.readFile } };
}

/** An approval is for one exact call under one policy. */
function requireSameCall({ id, binding, action, level }: Approval, now: string, decision: PolicyDecision): void {
  const isSameLevel = decision.kind !== "ask" || (decision.objection.level ?? "user") === level;
  if (binding === now && isSameLevel) return;
  const message = `${action}, its arguments or the policy changed after the approval`;
  const hint = "It was not run. Call it again if it is still wanted; a person is asked anew.";
  throw new QmError("approval_expired", message, { hint, details: { approval_id: id } });
}

function tooLongToApproveError({ name }: Action, length: number): QmError {
  const message = `a person must approve ${name}, and ${length} characters of arguments are too many to read`;
  return new QmError("too_large", message, { hint: `Narrow them to less than ${APPROVAL_ARGUMENT_LIMIT} characters.` });
}

function unrecordedError(thrown: unknown): QmError {
  const message = `it ran, but its end could not be written: ${getErrorMessage(thrown)}`;
  const hint = "Only the record is missing. Do not repeat the call; look at what it did.";
  return new QmError("unrecorded", message, { hint, cause: thrown });
}

function refusalError({ layer, reason, unevaluated }: Objection): QmError {
  if (unevaluated) return new QmError("not_evaluated", reason, { hint: "Try again with smaller arguments." });
  return layer === "budget"
    ? new QmError("budget_exceeded", reason, { hint: "Finish with what you have." })
    : new QmError("denied", reason, { hint: "Choose another way; asking again will not help." });
}
