import type { Turn } from "../approval/turn.ts";
import { type Caller, isLeftOpen } from "../core/caller.ts";
import { getErrorMessage, QmError, toQmError } from "../core/errors.ts";
import { clip, type Json, omitUndefined } from "../core/json.ts";
import type { Model, ModelAnswer } from "../core/model.ts";
import { createAnchorStream } from "../distribution/anchors.ts";
import { computeCost } from "../invoke/call-model.ts";
import type { CompiledActor } from "../policy/actors.ts";
import { createSection } from "../surface/system-prompt.ts";
import type { ActorServices, AroundTurn } from "./actor-services.ts";
import { prepareHistory } from "./compact-history.ts";
import type { ActorEnvelope, ActorEvent, AnswerPart } from "./envelope.ts";
import { withdrawCalls } from "./open-calls.ts";
import type { StoredSession } from "./session-store.ts";
import { createTurnLoop, type LoopEnd } from "./turn-loop.ts";
import { addUse, closeOpenCalls, countUse, type TurnProgress } from "./turn-progress.ts";

const DEFAULT_STEPS = 20;

export interface TurnRun {
  readonly session: StoredSession;
  readonly turn: Turn;
  readonly actor: CompiledActor;
  readonly model: Model;
  readonly progress: TurnProgress;
  readonly signal: AbortSignal;
  readonly onEvent: ((event: ActorEvent) => void) | undefined;
  /** Finds a delegated turn again when the call that delegated it is repeated. */
  readonly key?: string;
  /** The call that delegated the turn. */
  readonly around?: AroundTurn;
}

/** `passedTo`: the actor that the work was left to. */
interface RanTurn {
  readonly envelope: ActorEnvelope;
  readonly passedTo?: string;
}

/** Runs a turn until it is over or suspended, and keeps its messages in the session. Never rejects. */
export async function runTurn(
  services: ActorServices,
  run: TurnRun,
  findPassProblem: (caller: Caller, to: string, message: string) => string | undefined,
): Promise<RanTurn> {
  const { turn, actor, model, signal } = run;
  const { caller } = turn;
  const emit = createSafeEmitter(run.onEvent, services.onProblem);
  // The actor that delegated the turn gets the tokens: its model, or another agent, sees the answer.
  const fill = async (part: AnswerPart) => (run.around === undefined ? fillPart(services, caller, part) : part);
  let loop: ReturnType<typeof createTurnLoop> | undefined;
  let ended: LoopEnd | ReturnType<typeof toFailure>;
  try {
    const callModel = services.createModel(model, caller, turn.id, signal);
    const { messages: history, answer: summary } = await prepareHistory(services, run, callModel);
    const getCost = (answer: ModelAnswer) => model.price && computeCost(answer, model.price);
    loop = createTurnLoop(
      {
        turn,
        ...(await services.openSurface(caller, actor, run.around)),
        model: callModel,
        getCost,
        ...(await buildSystemPrompt(services, caller, run.progress.message)),
        history,
        maxSteps: actor.settings.maxSteps ?? DEFAULT_STEPS,
        signal,
        newId: services.runtime.newId,
        emit,
        openText: () => forwardText(services, caller, emit),
        findPassProblem: (to) => findPassProblem(caller, to, run.progress.message),
        deliver: async (part) => emit({ type: "part", part: await fill(part) }),
        holdSources: async () => run.around && services.holdSources(turn.id),
      },
      summary === undefined ? run.progress : addUse(run.progress, summary, getCost(summary)),
    );
    ended = await loop.run();
  } catch (thrown) {
    ended = toFailure(thrown, signal);
  }
  const progress = loop?.progress ?? run.progress;
  const common = { actor: caller.actor, session: caller.session, turnId: turn.id, ...countUse(progress) };
  if (ended.state === "suspended") {
    const { resumeToken, expiresAt: resumeExpiresAt, parts } = ended.suspended;
    return { envelope: { ...common, turnState: "suspended", parts, resumeToken, resumeExpiresAt } };
  }
  if (ended.state === "cancelled") await withdrawCalls(services, progress);
  const parts = await Promise.all(progress.parts.map(fill));
  if (ended.state === "failed" && ended.isLeft) {
    await turn.release().catch(() => {});
    return { envelope: { ...common, turnState: "failed", parts, error: ended.error.toProblem() } };
  }
  const passedTo = ended.state === "passed" ? ended.to : undefined;
  const turnState = ended.state === "clarifying" ? "clarifying" : "complete";
  const envelope: ActorEnvelope =
    "error" in ended ? describeFailure({ ...common, parts }, ended) : { ...common, turnState, parts };
  const lost = await keepTurn(services, run, progress, envelope, passedTo);
  if (lost !== undefined && !("error" in ended))
    return { envelope: describeFailure(envelope, { state: "failed", error: lost }) };
  return { envelope, ...omitUndefined({ passedTo }) };
}

const ANSWERING = createSection("Answering", [
  "When you are finished, call respond with the answer. Calls beside it are run first.",
  "Calls that do not need each other's results can be made in one answer.",
]).text;

/** Builds the system prompt of a turn. Answers it with the tool that a weak model must call first. */
async function buildSystemPrompt({ buildPrompt }: ActorServices, caller: Caller, message: string) {
  const { text, prefix, firstTool } = await buildPrompt(caller, message);
  // The parts that change from turn to turn stay at the end, so that the beginning can be cached.
  return { system: `${prefix}\n\n${ANSWERING}${text.slice(prefix.length)}`, firstTool };
}

type Failure = { readonly state: "failed" | "cancelled"; readonly error: QmError };

function describeFailure(reached: Omit<ActorEnvelope, "turnState">, { state, error }: Failure): ActorEnvelope {
  const part = { partType: "error", text: error.message } as const;
  const parts = state === "cancelled" ? reached.parts : [...reached.parts, part];
  return { ...reached, parts, turnState: state, error: error.toProblem() };
}

/** Adds the messages to the session and ends the turn. Answers the error if that is not possible. */
async function keepTurn(
  { sessions, runtime }: ActorServices,
  { session, turn, key }: TurnRun,
  progress: TurnProgress,
  envelope: ActorEnvelope,
  passedTo: string | undefined,
): Promise<QmError | undefined> {
  const { turnState } = envelope;
  try {
    const closed = closeOpenCalls(progress, "error: the turn ended before this call was answered.");
    // Fails if another process has taken the turn, which then keeps the messages.
    await turn.save(closed as unknown as Json);
    const result =
      key === undefined ? undefined : ((passedTo === undefined ? envelope : { passedTo }) as unknown as Json);
    const end = { turn: turn.id, messages: closed.messages, at: runtime.now() };
    await sessions.finish(session.id, { ...end, ...omitUndefined({ result }) });
    await turn.end(turnState === "failed" || turnState === "cancelled" ? turnState : "complete");
    return undefined;
  } catch (thrown) {
    // Without its holder, the next message of the session closes it, or it is resumed.
    await turn.release().catch(() => {});
    return toQmError(thrown);
  }
}

/** `isLeft`: the process ends, and another one can continue the turn. */
function toFailure(thrown: unknown, { aborted, reason }: AbortSignal): Failure & { readonly isLeft?: true } {
  if (aborted && isLeftOpen(reason)) {
    const hint = "Resume the turn after the restart.";
    return { state: "failed", error: new QmError("interrupted", getErrorMessage(reason), { hint }), isLeft: true };
  }
  if (aborted) return { state: "cancelled", error: new QmError("cancelled", "the turn was cancelled") };
  return { state: "failed", error: toQmError(thrown) };
}

/** A listener that throws, or is async and rejects, does not disturb the turn. */
function createSafeEmitter(
  listener: ((event: ActorEvent) => void) | undefined,
  onProblem: (problem: string) => void,
): (event: ActorEvent) => void {
  const report = (thrown: unknown) =>
    onProblem(`a listener for events of a turn failed: ${clip(getErrorMessage(thrown), 200)}`);
  return (event) => void (async () => listener?.(event))().catch(report);
}

/** Forwards text as the model writes it, with tokens replaced by their values. */
function forwardText({ anchors }: ActorServices, caller: Caller, emit: (event: ActorEvent) => void) {
  const stream = createAnchorStream(anchors, caller);
  let last: Promise<void> = Promise.resolve();
  const send = (work: () => Promise<string>): void => {
    last = last.then(async () => {
      const text = await work().catch(() => "");
      if (text !== "") emit({ type: "text", text });
    });
  };
  return {
    onText: (piece: string) => send(() => stream.push(piece)),
    end(): Promise<void> {
      send(() => stream.end());
      return last;
    },
  };
}

/** A part for the host, with tokens replaced by their values. A part that cannot be filled stays as it is. */
async function fillPart({ anchors, onProblem }: ActorServices, caller: Caller, part: AnswerPart): Promise<AnswerPart> {
  try {
    const text = part.text === undefined ? undefined : (await anchors.render(caller, part.text)).text;
    const data = part.data === undefined ? undefined : ((await anchors.fill(caller, part.data)).args as Json);
    return { partType: part.partType, ...omitUndefined({ text, data }) };
  } catch (thrown) {
    onProblem(`the tokens of an answer could not be replaced: ${getErrorMessage(thrown)}`);
    return part;
  }
}
