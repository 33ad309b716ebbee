import type { Turn } from "../approval/turn.ts";
import type { Caller } from "../core/caller.ts";
import { getErrorMessage, type Problem, QmError } from "../core/errors.ts";
import { clip, type Json, omitUndefined } from "../core/json.ts";
import type { Model } from "../core/model.ts";
import { createAnchorStream } from "../distribution/anchors.ts";
import { computeCost } from "../invoke/call-model.ts";
import type { CompiledActor } from "../policy/actors.ts";
import type { ActorServices } from "./actor-runtime.ts";
import type { ActorEnvelope, ActorEvent, AnswerPart } from "./envelope.ts";
import type { StoredSession } from "./session-store.ts";
import { buildSystemPrompt } from "./system-prompt.ts";
import { createTurnLoop, type LoopEnd } from "./turn-loop.ts";
import { closeOpenCalls, type TurnProgress, toTitle } from "./turn-progress.ts";

const DEFAULT_STEPS = 20;

export interface TurnRun {
  readonly session: StoredSession;
  readonly turn: Turn;
  readonly actor: CompiledActor;
  readonly model: Model;
  readonly progress: TurnProgress;
  readonly signal: AbortSignal;
  readonly onEvent: ((event: ActorEvent) => void) | undefined;
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
  findPassProblem: (caller: Caller, to: string) => string | undefined,
): Promise<RanTurn> {
  const { session, turn, actor, model, signal } = run;
  const { caller } = turn;
  const emit = createSafeEmitter(run.onEvent, services.onProblem);
  let loop: ReturnType<typeof createTurnLoop> | undefined;
  let ended: LoopEnd | { readonly state: "failed" | "cancelled"; readonly error: QmError };
  try {
    const history = await services.sessions.readHistory(session.id);
    loop = createTurnLoop(
      {
        turn,
        surface: await services.openSurface(caller, actor),
        model: services.createModel(model, caller, turn.id, signal),
        getCost: (answer) => model.price && computeCost(answer, model.price),
        system: buildSystemPrompt(actor.settings),
        history: history.messages.map(({ message }) => message),
        maxSteps: actor.settings.maxSteps ?? DEFAULT_STEPS,
        signal,
        newId: services.runtime.newId,
        emit,
        openText: () => forwardText(services, caller, emit),
        findPassProblem: (to) => findPassProblem(caller, to),
        deliver: async (part) => emit({ type: "part", part: await fillPart(services, caller, part) }),
      },
      run.progress,
    );
    ended = await loop.run();
  } catch (thrown) {
    ended = { state: signal.aborted ? "cancelled" : "failed", error: toTurnError(thrown, signal) };
  }
  const progress = loop?.progress ?? run.progress;
  const common = { actor: caller.actor, session: caller.session, turnId: turn.id, ...toUsage(progress) };
  if (ended.state === "suspended") {
    const { resumeToken, expiresAt: resumeExpiresAt, parts } = ended.suspended;
    return { envelope: { ...common, turnState: "suspended", parts, resumeToken, resumeExpiresAt } };
  }
  const error = "error" in ended ? ended.error : await keepTurn(services, run, progress, ended.state);
  if ("error" in ended) await keepTurn(services, run, progress, ended.state).catch(() => undefined);
  const parts = await fillParts(services, caller, progress.parts);
  if (error !== undefined) {
    const state = "error" in ended ? ended.state : "failed";
    const problem: Problem = error.toProblem();
    const shown = state === "cancelled" ? parts : [...parts, { partType: "error", text: error.message } as const];
    return { envelope: { ...common, turnState: state, parts: shown, error: problem } };
  }
  const turnState = ended.state === "failed" ? "failed" : ended.state;
  return { envelope: { ...common, turnState, parts }, ...("to" in ended ? { passedTo: ended.to } : {}) };
}

/** Adds the messages to the session and ends the turn. Answers the error if that is not possible. */
async function keepTurn(
  { sessions, runtime }: ActorServices,
  { session, turn }: TurnRun,
  progress: TurnProgress,
  state: LoopEnd["state"] | "failed" | "cancelled",
): Promise<QmError | undefined> {
  try {
    const closed = closeOpenCalls(progress, "error: the turn ended before this call was answered.");
    // Fails if another process has taken the turn, which then keeps the messages.
    await turn.save(closed as unknown as Json);
    const end = { turn: turn.id, messages: closed.messages, title: toTitle(progress), at: runtime.now() };
    await sessions.finish(session.id, end);
    await turn.end(state === "failed" || state === "cancelled" ? state : "complete");
    return undefined;
  } catch (thrown) {
    return thrown instanceof QmError ? thrown : new QmError("internal", getErrorMessage(thrown));
  }
}

function toTurnError(thrown: unknown, signal: AbortSignal): QmError {
  if (signal.aborted) return new QmError("cancelled", "the turn was cancelled");
  return thrown instanceof QmError ? thrown : new QmError("internal", getErrorMessage(thrown));
}

const toUsage = ({ requests, calls, inputTokens, outputTokens, cost }: TurnProgress) => ({
  steps: requests,
  calls,
  usage: { inputTokens, outputTokens, ...omitUndefined({ cost }) },
});

/** A listener that throws does not disturb the turn. */
function createSafeEmitter(
  listener: ((event: ActorEvent) => void) | undefined,
  onProblem: (problem: string) => void,
): (event: ActorEvent) => void {
  return (event) => {
    try {
      listener?.(event);
    } catch (thrown) {
      onProblem(`a listener for events of a turn failed: ${clip(getErrorMessage(thrown), 200)}`);
    }
  };
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

async function fillParts(services: ActorServices, caller: Caller, parts: readonly AnswerPart[]) {
  return Promise.all(parts.map((part) => fillPart(services, caller, part)));
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
