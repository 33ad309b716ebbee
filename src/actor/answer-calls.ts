import { QmError, toQmError } from "../core/errors.ts";
import { isRecord, type Json, type JsonObject } from "../core/json.ts";
import { formatProblemJson, type Outcome, type WaitingOutcome } from "../core/outcome.ts";
import { addContinuation } from "../core/recover-call.ts";
import type { SurfaceAnswer } from "../surface/surface.ts";
import type { AnswerPart, CallEndedEvent } from "./envelope.ts";
import { isRespond, type ModelResponse, readResponse } from "./respond.ts";
import type { LoopEnd, TurnLoopParts } from "./turn-loop.ts";
import type { OpenCall } from "./turn-progress.ts";

/** Calls in one answer of a model. */
export const CALL_LIMIT = 32;

/** Errors that say only that the model wrote the call in a wrong form. */
const FORM_ERRORS: readonly unknown[] = ["invalid_arguments", "invalid_name", "unknown_action", "unknown_category"];

export interface AnsweredCalls {
  /** The calls with their results. One without a result waits for a person. */
  readonly open: readonly OpenCall[];
  /** The parts to deliver now. */
  readonly responses: readonly AnswerPart[];
  readonly end?: Exclude<LoopEnd, { readonly state: "suspended" }>;
  /** Whether the answer had nothing but mistakes of form. */
  readonly isMalformed: boolean;
}

/** Makes the calls of an answer that have no result, all at once, and then carries out its `respond`. */
export async function answerCalls(
  parts: TurnLoopParts,
  given: readonly OpenCall[],
  saveResult: (call: OpenCall) => Promise<void>,
): Promise<AnsweredCalls> {
  const others = given.filter((call) => !isRespond(call));
  const open = await Promise.all(
    given.map(async (call) => {
      if (call.text !== undefined || isRespond(call)) return call;
      if (others.indexOf(call) >= CALL_LIMIT) return refuseCall(call);
      const made = await makeCall(parts, call);
      await saveResult(made);
      return made;
    }),
  );
  const made = open.filter((call) => !isRespond(call));
  const read = open.filter(isRespond).map((call) => readCall(parts, call));
  const isAllDone = made.every(({ ok, approvalId }) => ok === true && approvalId === undefined);
  const isClean = isAllDone && read.every(({ response }) => response !== undefined);
  const last = read.at(-1)?.response;
  const isFinal = last !== undefined && last.state !== "awaiting" && isClean;
  const settled = new Map<OpenCall, OpenCall>();
  const responses: AnswerPart[] = [];
  for (const { call, response, error } of read) {
    // The parts of a call that was answered before the turn was suspended have been delivered.
    if (call.text !== undefined) continue;
    const isDelivered = response !== undefined && (isFinal || response.state === "awaiting");
    if (isDelivered) responses.push(...response.parts);
    const text = error ?? (isDelivered ? describeDelivery(response, isFinal) : NOT_DELIVERED);
    settled.set(call, {
      ...call,
      text,
      ok: error === undefined,
      ...(error === undefined ? {} : { isMalformed: true }),
    });
  }
  const waits = made.some(({ text }) => text === undefined);
  const answered = open.map((call) => {
    const next = settled.get(call);
    // While a call waits, only what was delivered is settled.
    return next === undefined || (waits && next.text === NOT_DELIVERED) ? call : next;
  });
  const isMalformed = answered.length > 0 && answered.every((call) => call.isMalformed === true);
  return { open: answered, responses, isMalformed, ...(isFinal ? { end: toEnd(last) } : {}) };
}

const NOT_DELIVERED =
  "error: this was not delivered. Look at the results of the other calls first, then call respond again.";

const describeDelivery = ({ state }: ModelResponse, isFinal: boolean): string =>
  isFinal || state !== "awaiting" ? "delivered" : "delivered. Go on with the work, and end with another respond.";

const toEnd = ({ state, passTo = "" }: ModelResponse): NonNullable<AnsweredCalls["end"]> =>
  state === "passed" ? { state, to: passTo } : { state: state === "clarifying" ? state : "complete" };

interface ReadResponseCall {
  readonly call: OpenCall;
  readonly response?: ModelResponse;
  readonly error?: string;
}

function readCall(parts: TurnLoopParts, call: OpenCall): ReadResponseCall {
  try {
    const response = readResponse(call.args);
    const problem = response.state === "passed" ? parts.findPassProblem(response.passTo ?? "") : undefined;
    if (problem !== undefined) throw new QmError("invalid_arguments", problem, { hint: "Answer yourself." });
    return { call, response };
  } catch (thrown) {
    return { call, error: formatProblemJson(toQmError(thrown).toProblem()) };
  }
}

const refuseCall = (call: OpenCall): OpenCall => ({
  ...call,
  text: `error: at most ${CALL_LIMIT} calls in one answer. This one was not made.`,
  ok: false,
});

async function makeCall(
  { turn, surface, takeOutcome, signal, emit }: TurnLoopParts,
  call: OpenCall,
): Promise<OpenCall> {
  const { id, name, args, callId } = call;
  emit({ type: "call-started", id, tool: name, args });
  const answer = await surface.call(name, args, signal, { id: callId });
  const { ok, text, data } = answer;
  const outcome = takeOutcome(callId);
  emit({ type: "call-ended", id, tool: name, ok, text, ...describeProblem(answer, outcome) });
  if (outcome !== undefined) turn.noted(callId, outcome);
  if (outcome?.status === "waiting") {
    const { id: approvalId, inner } = outcome.approval;
    const again = { ...call, args: addToolContinuation(name, args, outcome), approvalId };
    return inner === undefined ? again : { ...again, isInner: true };
  }
  const isFormError = !ok && isRecord(data) && FORM_ERRORS.includes(data.code);
  const isMalformed = isFormError || outcome?.isRepaired === true;
  return { ...call, text, ok, ...(isMalformed ? { isMalformed } : {}) };
}

function describeProblem(
  { ok, data, text }: SurfaceAnswer,
  outcome: Outcome | undefined,
): Pick<CallEndedEvent, "problem"> {
  if (outcome?.status === "waiting") return { problem: { status: "waiting", reason: outcome.reason } };
  if (ok) return {};
  const reason = isRecord(data) && typeof data.error === "string" ? data.error : text;
  return { problem: { status: outcome?.status === "refused" ? "refused" : "failed", reason } };
}

/** The arguments for repeating a tool whose inner call waits. */
function addToolContinuation(tool: string, args: Json, outcome: WaitingOutcome): Json {
  if (tool !== "invoke_action" || !isRecord(args)) return addContinuation(args, outcome);
  const own = (isRecord(args.args) ? args.args : {}) as JsonObject;
  const next = addContinuation(own, outcome);
  return next === own ? args : { ...(args as JsonObject), args: next };
}
