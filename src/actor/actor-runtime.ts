import { hasExpired, type TurnService } from "../approval/turn-service.ts";
import type { StoredTurn } from "../approval/turn-store.ts";
import type { Caller } from "../core/caller.ts";
import { getErrorMessage, QmError } from "../core/errors.ts";
import type { UnstampedEvent } from "../core/events.ts";
import { type Json, omitUndefined } from "../core/json.ts";
import type { CallModel, Model } from "../core/model.ts";
import { quoteName } from "../core/names.ts";
import type { CallFinder } from "../core/recover-call.ts";
import type { Runtime } from "../core/runtime.ts";
import type { Anchors } from "../distribution/anchors.ts";
import type { CompiledActor } from "../policy/actors.ts";
import type { Surface } from "../surface/surface.ts";
import type { ActorEnvelope, CallActorOptions } from "./envelope.ts";
import { takeResults } from "./resume-turn.ts";
import { runTurn, type TurnRun } from "./run-turn.ts";
import type { SessionStore, StoredSession } from "./session-store.ts";
import { closeOpenCalls, startTurnProgress, type TurnProgress, toTitle } from "./turn-progress.ts";

/** The parts of the system that turns of actors use. */
export interface ActorServices extends CallFinder {
  readonly turns: TurnService;
  readonly sessions: SessionStore;
  readonly runtime: Runtime;
  readonly anchors: Pick<Anchors, "render" | "fill">;
  /** Throws `unknown_actor`, and `invalid_config` for an actor that cannot be used. */
  getActor(caller: Caller): CompiledActor;
  getModel(name: string): Model | undefined;
  openSurface(caller: Caller, actor: CompiledActor): Promise<Surface>;
  /** A model whose requests are charged to the caller and recorded for the turn. */
  createModel(model: Model, caller: Caller, turnId: string, signal: AbortSignal): CallModel;
  isIdempotent(action: string, caller: Caller): boolean;
  /** Resolves when the event survives the process. */
  record(caller: Caller, event: UnstampedEvent): Promise<void>;
  readonly onProblem: (problem: string) => void;
}

/** How often work may be handed on from one actor to another. */
export const HOP_LIMIT = 4;
const MESSAGE_LIMIT = 1024 * 1024;

export type ActorRuntime = ReturnType<typeof createActorRuntime>;

/** Runs turns of actors. Each is stored step by step, so that another process can continue it. */
export function createActorRuntime(services: ActorServices) {
  const { turns, sessions, runtime } = services;

  /** The actor and its model. Throws `unknown_actor`, `invalid_config`, `no_model` and `denied`. */
  function requireActor(caller: Caller): Pick<TurnRun, "actor" | "model"> {
    const actor = services.getActor(caller);
    if ((caller.hops ?? 0) > HOP_LIMIT)
      throw new QmError("denied", `the work was handed on ${caller.hops} times; the limit is ${HOP_LIMIT}`, {
        hint: "Answer with what you have.",
      });
    const { model: name = "default" } = actor.settings;
    const model = services.getModel(name);
    const problem = model === undefined ? `it is not among the configured models` : model.findProblem?.();
    if (model !== undefined && problem === undefined) return { actor, model };
    throw new QmError("no_model", `actor ${actor.name} cannot use the model ${quoteName(name)}: ${problem}`, {
      hint: `Configure models.${name}, or set the model of the actor.`,
    });
  }

  /** Makes sure that no turn has the session, and closes one whose process is gone. Throws `conflict`. */
  async function freeSession(session: StoredSession): Promise<void> {
    const open = session.openTurn === undefined ? undefined : await turns.find(session.openTurn);
    if (open === undefined || (open.state !== "running" && open.state !== "suspended")) return;
    if (open.state === "suspended" && !hasExpired(open, runtime.now())) throw createWaitingError(open);
    if (!turns.isLeft(open)) throw createBusyError(open);
    await closeTurn(session, open);
  }

  /** Ends a turn that nobody continues, and keeps what is known of it in the session. */
  async function closeTurn(session: StoredSession, open: StoredTurn): Promise<void> {
    const resumed = await turns.resumeById(open.id, { isForced: true });
    if (resumed.state !== "running") return;
    const { turn, memo, results } = resumed;
    const progress = await takeResults(services, memo as unknown as TurnProgress, turn.caller, results, {
      isClosing: true,
    });
    const { messages } = closeOpenCalls(progress, "error: the turn was interrupted before this call ended.");
    await sessions.finish(session.id, { turn: turn.id, messages, title: toTitle(progress), at: runtime.now() });
    await services.record(turn.caller, { type: "turn.interrupted", data: { turnId: turn.id, calls: progress.calls } });
    await turn.end("failed");
  }

  async function startTurn(caller: Caller, message: string, options: StartOptions): Promise<ActorEnvelope> {
    const { actor, model } = requireActor(caller);
    const name = { id: runtime.newId(), session: caller.session, actor: caller.actor };
    const session = await sessions.open(caller, name, runtime.now());
    await freeSession(session);
    const { openTurn: former } = (await sessions.find(caller, session.session, session.actor))[0] ?? session;
    const progress = startTurnProgress(message);
    const turn = await turns.begin(caller, progress as unknown as Json);
    if (!(await sessions.claim(session.id, turn.id, former, undefined))) {
      await turn.end("cancelled");
      throw createBusyError(turn);
    }
    const { hops } = caller;
    await services.record(turn.caller, {
      type: "turn.started",
      data: { turnId: turn.id, model: model.name, ...omitUndefined({ hops, parent: options.parent }) },
    });
    return finishRun({ ...options, session, turn, actor, model, progress });
  }

  async function finishRun(run: TurnRun): Promise<ActorEnvelope> {
    const { envelope, passedTo } = await runTurn(services, run, findPassProblem);
    if (passedTo === undefined) return envelope;
    const { turn: _, ...caller } = run.turn.caller;
    const next = { ...caller, actor: passedTo, hops: (caller.hops ?? 0) + 1 };
    try {
      return await startTurn(next, run.progress.message, { signal: run.signal, onEvent: run.onEvent });
    } catch (thrown) {
      const error = thrown instanceof QmError ? thrown : new QmError("internal", getErrorMessage(thrown));
      return { ...envelope, turnState: "failed", error: error.toProblem() };
    }
  }

  function findPassProblem(caller: Caller, to: string): string | undefined {
    try {
      if (to === caller.actor) return "an actor cannot pass the work to itself";
      requireActor({ ...caller, actor: to, hops: (caller.hops ?? 0) + 1 });
      return undefined;
    } catch (thrown) {
      return getErrorMessage(thrown);
    }
  }

  /** Continues a turn of a session, by its token or its id. */
  async function continueTurn(
    session: StoredSession,
    open: StoredTurn,
    resume: () => ReturnType<TurnService["resume"]>,
    options: CallActorOptions,
  ): Promise<ActorEnvelope> {
    const { actor, model } = requireActor(open.caller);
    const resumed = await resume();
    if (resumed.state === "suspended") {
      const parts = resumed.waiting.map((data) => ({ partType: "approval-request", data }) as const);
      const { actor: name, session: id } = open.caller;
      const rest = omitUndefined({ resumeExpiresAt: open.expiresAt });
      const usage = { inputTokens: 0, outputTokens: 0 };
      return {
        actor: name,
        session: id,
        turnId: open.id,
        turnState: "suspended",
        parts,
        ...rest,
        steps: 0,
        calls: 0,
        usage,
      };
    }
    const { turn, memo, results } = resumed;
    const progress = await takeResults(services, memo as unknown as TurnProgress, turn.caller, results);
    const signal = options.signal ?? new AbortController().signal;
    return finishRun({ onEvent: options.onEvent, signal, session, turn, actor, model, progress });
  }

  return {
    async callActor(caller: Caller, message: string, options: CallActorOptions): Promise<ActorEnvelope> {
      if (typeof message !== "string" || message.trim() === "" || message.length > MESSAGE_LIMIT)
        throw new QmError("invalid_config", `the message must be text of at most ${MESSAGE_LIMIT} characters`);
      const signal = options.signal ?? new AbortController().signal;
      return startTurn(caller, message, { signal, onEvent: options.onEvent });
    },
    async resumeActor(token: string, options: CallActorOptions): Promise<ActorEnvelope> {
      const open = await turns.findByToken(token);
      const { actor = "", session = "" } = open?.caller ?? {};
      const asker = options.caller && { ...options.caller, actor, session };
      const [stored] = open === undefined ? [] : await sessions.find(open.caller, session, actor);
      const resume = () => turns.resume(token, omitUndefined({ caller: asker }));
      // Without a turn, or with one of a host's own loop, this rejects.
      if (open === undefined || stored?.openTurn !== open.id) {
        await turns.resume(token, { ...omitUndefined({ caller: asker }), partial: true });
        throw new QmError("not_found", "this token is not of an actor's turn", { hint: "Use turns.resume." });
      }
      return continueTurn(stored, open, resume, options);
    },
  };
}

type StartOptions = Pick<TurnRun, "signal" | "onEvent"> & { readonly parent?: string };

function createWaitingError({ id, calls }: StoredTurn): QmError {
  const names = [...new Set(calls.map(({ inner, action }) => inner ?? action))].join(", ");
  const hint = "Answer the approvals and resume the turn. Or cancel it, or use another session.";
  return new QmError("conflict", `a turn of this session waits for approval of ${names}`, {
    hint,
    details: { turn: id },
  });
}

function createBusyError({ id }: { readonly id: string }): QmError {
  const hint = "Wait for its end, or use another session.";
  return new QmError("conflict", "another turn of this session is running", { hint, details: { turn: id } });
}
