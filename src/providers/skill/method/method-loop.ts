import type { CallContext, ChosenAction, VisibleAction } from "../../../core/action.ts";
import { raceAbort } from "../../../core/async.ts";
import type { UnstampedEvent } from "../../../core/events.ts";
import { cutText } from "../../../core/handler-result.ts";
import { getOwn, isRecord, type Json, omitUndefined } from "../../../core/json.ts";
import type { CallModel, ModelAnswer, ModelToolCall, ModelToolResult } from "../../../core/model.ts";
import { isGlob } from "../../../core/name-patterns.ts";
import { quoteName } from "../../../core/names.ts";
import type { WaitingOutcome } from "../../../core/outcome.ts";
import { addContinuation, recoverCall } from "../../../core/recover-call.ts";
import { endMethod, setExport, type ToolReply } from "./method-end.ts";
import { areStepsFinished, controlTools, createStepRequest, type MethodPrompt } from "./method-prompt.ts";
import type { MethodProgress, MethodResult, PendingCall } from "./method-run.ts";
import type { HeldRun } from "./method-runs.ts";
import type { MethodServices } from "./method-services.ts";

const CALL_LIMIT = 16;
/** A step with wide globs must not send the whole catalog. */
const TOOL_LIMIT = 128;
const RESULT_CHARS = 64 * 1024;
const STEP_RESULT_CHARS = 4_000;
/** Characters of the conversation of one step. */
const CONVERSATION_LIMIT = 1024 * 1024;

export interface MethodLoopParts extends MethodPrompt {
  readonly run: HeldRun;
  readonly context: CallContext;
  readonly model: CallModel;
  readonly services: MethodServices;
}

/** `waiting`: a call waits for a person, and the run is stored until the same call is made again. */
export type MethodEnd = { readonly result: MethodResult } | { readonly waiting: WaitingOutcome };

type ProgressChange = { readonly [K in keyof MethodProgress]?: MethodProgress[K] | undefined };

type Reply = ToolReply | MethodEnd;

/**
 * Carries out a method: one request to the model after another, each counted, until the model ends the method or the budget is
 * used. Its state is stored before each request and around each call, so that another process can go on there.
 */
export async function runMethod(parts: MethodLoopParts): Promise<MethodEnd> {
  const { run, context, model, services, method, name } = parts;
  const { caller, callId, signal, dialogue } = context;
  const { steps, budget } = method;
  const stopped = AbortSignal.any([signal, run.signal]);
  let progress = run.progress;

  const record = (event: UnstampedEvent): Promise<void> => services.record(caller, event);
  const facts = () => ({ callId, run: run.id, skill: name, step: progress.step });

  /** Once the call is aborted, nothing is stored: the state before it tells another process where to go on. */
  async function save(next: ProgressChange): Promise<void> {
    signal.throwIfAborted();
    progress = omitUndefined({ ...progress, ...next }) as MethodProgress;
    await run.save(progress);
  }

  function fail(message: string, code: "action_failed" | "too_large" = "action_failed"): MethodEnd {
    const { requests, results, exports } = progress;
    return { result: { error: { code, message, details: { requests, steps_done: results.length, exports } } } };
  }

  function reportStep(): void {
    const { step } = progress;
    const message = areStepsFinished(method, progress)
      ? "all steps are finished"
      : `step ${step} of ${steps.length}: ${steps[step - 1]?.title}`;
    dialogue?.progress({ progress: progress.results.length, total: steps.length, message });
  }

  async function finishStep(result: string): Promise<ProgressChange> {
    await record({
      type: "method.advanced",
      data: { ...facts(), title: steps[progress.step - 1]?.title ?? "", requests: progress.requests },
    });
    const results = [...progress.results, cutText(result, STEP_RESULT_CHARS)];
    const step = Math.min(progress.step + 1, steps.length);
    return { results, step, stepRequests: 0, messages: [], answers: undefined, isReminded: undefined };
  }

  /** The actions that the current step declares and the caller sees, without methods. */
  async function listTools() {
    const patterns = areStepsFinished(method, progress) ? [] : (steps[progress.step - 1]?.tools ?? method.tools);
    const visible = patterns.length === 0 ? [] : await context.listVisible(patterns);
    const actions = visible.filter(({ type }) => type !== "method");
    const shown = actions.slice(0, TOOL_LIMIT);
    const tools = shown.map(({ name, description, inputSchema }) => ({ name, description, inputSchema }));
    const unknown = patterns.filter((pattern) => !isGlob(pattern) && !actions.some((each) => each.name === pattern));
    const more = actions.length - shown.length;
    return { actions, tools, missing: more === 0 ? unknown : [...unknown, `${more} more that fit the step's globs`] };
  }

  async function request(): Promise<ModelAnswer> {
    await save({ requests: progress.requests + 1, stepRequests: progress.stepRequests + 1 });
    const { tools, missing } = await listTools();
    return raceAbort(model(createStepRequest(parts, progress, tools, missing)), stopped);
  }

  /** A text without a call is answered with one reminder in each step. It never counts as the end of the work. */
  async function readAnswer({ message }: ModelAnswer): Promise<MethodEnd | undefined> {
    const messages = [...progress.messages, JSON.parse(JSON.stringify(message))];
    if (JSON.stringify(messages).length > CONVERSATION_LIMIT)
      return fail(
        `the conversation of step ${progress.step} is longer than ${CONVERSATION_LIMIT} characters`,
        "too_large",
      );
    if (message.toolCalls.length > 0) return void (await save({ messages, answers: [] }));
    if (progress.isReminded) return fail(`the model stopped in step ${progress.step} without calling a tool`);
    const text = `Call a tool: an action, ${controlTools.finish} or ${controlTools.end}.`;
    await save({ messages: [...messages, { role: "user", text }], isReminded: true });
    return undefined;
  }

  /** Answers the calls of the last message, from the first that has no result. */
  async function answerCalls(answers: readonly ModelToolResult[]): Promise<MethodEnd | undefined> {
    const last = progress.messages.at(-1);
    const asked = last?.role === "assistant" ? last.toolCalls : [];
    const isEnd = ({ name: tool }: ModelToolCall) => tool === controlTools.end;
    // The end comes last, so that exports beside it count.
    const calls = [...asked.filter((call) => !isEnd(call)), ...asked.filter(isEnd)];
    const isAlone = calls.every(({ name: tool }) => isControl(tool));
    let done = answers;
    for (const call of calls.slice(done.length, CALL_LIMIT)) {
      const reply = await answerCall(call, isAlone);
      if (!("text" in reply)) return reply;
      done = [...done, { id: call.id, name: call.name, text: cutText(reply.text, RESULT_CHARS) }];
      await save({ ...reply.progress, answers: done, pending: undefined });
    }
    // Not stored one by one: a message can hold thousands.
    const text = `error: at most ${CALL_LIMIT} calls in one answer`;
    done = [...done, ...calls.slice(done.length).map(({ id, name: tool }) => ({ id, name: tool, text }))];
    const finish = calls.find(({ name: tool }) => tool === controlTools.finish);
    if (finish === undefined || !isAlone || calls.some(isEnd) || areStepsFinished(method, progress)) {
      await save({ messages: [...progress.messages, { role: "tool", results: done }], answers: undefined });
      return undefined;
    }
    await save(await finishStep(readResult(finish.args)));
    reportStep();
    return undefined;
  }

  async function answerCall(call: ModelToolCall, isAlone: boolean): Promise<Reply> {
    if (!isControl(call.name)) return answerAction(call);
    if (call.name === controlTools.set) return setExport(parts, progress, call.args);
    if (!isAlone) return { text: "error: look at the results of the other calls first, then call it again" };
    if (call.name === controlTools.finish)
      return { text: areStepsFinished(method, progress) ? "error: all steps are finished" : "finished" };
    const ended = await endMethod(parts, progress, call.args);
    if ("result" in ended && !("error" in ended.result) && ended.isStepFinished) await finishStep("");
    return ended;
  }

  async function answerAction(call: ModelToolCall): Promise<Reply> {
    const { actions } = await listTools();
    const action = actions.find((each) => each.name === call.name);
    if (progress.pending !== undefined) return finishCall(progress.pending, action);
    const named = action?.runsAction && readChosenName(action.runsAction, call.args);
    const chosen = actions.find((each) => each.name === named);
    // An action that runs others may not run through another of them: then a third one would not be checked.
    const isDeclared = named === undefined || (chosen !== undefined && chosen.runsAction === undefined);
    if (action !== undefined && isDeclared) return callAction({ action: action.name, args: (call.args ?? {}) as Json });
    const refused = action === undefined ? call.name : (named ?? "");
    await record({ type: "tool.refused", data: { ...facts(), tool: refused.slice(0, 256) } });
    return { text: `error: ${quoteName(refused)} is not a tool of this step` };
  }

  async function callAction(call: Omit<PendingCall, "callId">): Promise<Reply> {
    const pending = { ...call, callId: services.newId() };
    await save({ pending });
    const called = context.invoke(pending.action, pending.args, { id: pending.callId, method: name });
    const outcome = await raceAbort(called, stopped);
    await services.holdSources(run.id);
    signal.throwIfAborted();
    if (outcome.status !== "waiting") return { text: outcome.value };
    const waiting = { ...pending, args: addContinuation(pending.args, outcome), approvalId: outcome.approval.id };
    progress = { ...progress, pending: { ...waiting, isInner: outcome.approval.inner !== undefined } };
    await run.suspend(progress, outcome.approval.id);
    return { waiting: outcome };
  }

  /** Finishes a call of an earlier process. Repeats it only if it did not run, or if running it again has no effect. */
  async function finishCall(pending: PendingCall, action: VisibleAction | undefined): Promise<Reply> {
    const { callId: earlier, action: called, args, approvalId, isInner } = pending;
    // A call that waits for a call of its own gets the result of that one when it is repeated.
    if (approvalId !== undefined && isInner) return callAction({ action: called, args });
    const call = { callId: earlier, name: called, caller, ...omitUndefined({ approvalId }) };
    const recovered = await recoverCall(services, call, () => action?.idempotent === true);
    return recovered.kind === "repeat"
      ? callAction({ action: called, args, ...omitUndefined({ approvalId }) })
      : { text: recovered.text };
  }

  reportStep();
  for (;;) {
    signal.throwIfAborted();
    const { answers, requests, stepRequests, step } = progress;
    const own = areStepsFinished(method, progress) ? undefined : steps[step - 1]?.budget;
    if (answers === undefined && requests >= budget)
      return fail(`the budget of ${budget} requests was used up in step ${step} without an end`);
    if (answers === undefined && own !== undefined && stepRequests >= own)
      return fail(`step ${step} used up its budget of ${own} requests`);
    const ended = answers === undefined ? await readAnswer(await request()) : await answerCalls(answers);
    if (ended !== undefined) return ended;
  }
}

/** The action that a call of the model runs through another one. It must be spelled exactly: nothing is repaired here. */
function readChosenName({ argument, prefix = "" }: ChosenAction, args: unknown): string {
  const given = isRecord(args) ? getOwn<unknown>(args, argument) : undefined;
  if (typeof given !== "string") return "";
  return given.startsWith(prefix) ? given : `${prefix}${given}`;
}

const controlNames: readonly string[] = Object.values(controlTools);
const isControl = (tool: string): boolean => controlNames.includes(tool);

const readResult = (args: unknown): string => (isRecord(args) && typeof args.result === "string" ? args.result : "");
