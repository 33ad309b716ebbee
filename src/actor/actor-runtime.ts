import { setMaxListeners } from "node:events";
import type { Turn } from "../approval/turn.ts";
import { hasExpired, type TurnService } from "../approval/turn-service.ts";
import type { StoredTurn } from "../approval/turn-store.ts";
import { settlesWithin } from "../core/async.ts";
import { type Caller, createLeftOpenError } from "../core/caller.ts";
import { checkHops, handOn, PEER_CATEGORY } from "../core/delegation.ts";
import { getErrorMessage, QmError, toQmError } from "../core/errors.ts";
import { type Json, omitUndefined } from "../core/json.ts";
import { quoteName } from "../core/names.ts";
import type { ActorServices } from "./actor-services.ts";
import type { ActorEnvelope, CallActorOptions } from "./envelope.ts";
import { takeResults, withdrawCalls } from "./open-calls.ts";
import { runTurn, type TurnRun } from "./run-turn.ts";
import type { StoredSession } from "./session-store.ts";
import { closeOpenCalls, countUse, readProgress, startTurnProgress, toTitle } from "./turn-progress.ts";

const MESSAGE_LIMIT = 1024 * 1024;
const CLOSE_LIMIT_MS = 2_000;

export type ActorRuntime = ReturnType<typeof createActorRuntime>;

/** How a turn is run. `key` and `around`: for one that was delegated by a call. */
export type RunOptions = Pick<TurnRun, "signal" | "onEvent" | "key" | "around">;

/** Runs turns of actors. Each is stored step by step, so that another process can continue it. */
export function createActorRuntime(services: ActorServices) {
  const { turns, sessions, runtime } = services;
  const running = new Map<string, { readonly stop: AbortController; readonly ended: Promise<unknown> }>();

  /** The actor and its model. Throws `unknown_actor`, `invalid_config`, `no_model` and `denied`. */
  function requireActor(caller: Caller): Pick<TurnRun, "actor" | "model"> {
    const actor = services.getActor(caller);
    checkHops(caller, services.hopsLimit);
    const { model: name = "default" } = actor.settings;
    const model = services.getModel(name);
    const problem = model === undefined ? "it is not configured" : model.findProblem?.();
    if (model !== undefined && problem === undefined) return { actor, model };
    throw new QmError("no_model", `actor ${actor.name} cannot use the model ${quoteName(name)}: ${problem}`, {
      hint: `Configure models.${name}, or set another model for the actor.`,
    });
  }

  /** Answers the session once no turn has it. Closes a turn whose process is gone. Throws `conflict`. */
  async function openSession(caller: Caller, message: string): Promise<StoredSession> {
    const facts = { id: runtime.newId(), session: caller.session, actor: caller.actor, title: toTitle(message) };
    const session = await sessions.open(caller, facts, runtime.now());
    const open = await findOpenTurn(session);
    if (open === undefined) return session;
    if (open.state === "suspended" && !hasExpired(open, runtime.now())) throw createWaitingError(open, caller);
    if (!turns.isLeft(open)) throw createBusyError(open.id);
    await closeTurn(session, open.id, "interrupted");
    return (await sessions.find(caller, session.session, session.actor))[0] ?? session;
  }

  async function findOpenTurn({ openTurn }: StoredSession): Promise<StoredTurn | undefined> {
    const turn = openTurn === undefined ? undefined : await turns.find(openTurn);
    return turn?.state === "running" || turn?.state === "suspended" ? turn : undefined;
  }

  /** Ends a turn that is not continued, and keeps what is known of it in the session. */
  async function closeTurn(session: StoredSession, id: string, how: "interrupted" | "cancelled"): Promise<void> {
    const resumed = await turns.resumeById(id, { isForced: true });
    if (resumed.state !== "running") return;
    const { turn, memo, results } = resumed;
    await releaseOnError(turn, async () => {
      const before = readProgress(memo);
      if (how === "cancelled") await withdrawCalls(services, before);
      const progress = await takeResults(services, before, turn.caller, results, { isClosing: true });
      const { messages } = closeOpenCalls(progress, `error: the turn was ${how} before this call ended.`);
      await sessions.finish(session.id, { turn: id, messages, at: runtime.now() });
      if (how === "interrupted")
        await services.record(turn.caller, { type: "turn.interrupted", data: { turnId: id, calls: progress.calls } });
      await turn.end(how === "interrupted" ? "failed" : "cancelled");
    });
  }

  /** A turn that this process holds and does not run would block its session. */
  async function releaseOnError<T>(turn: Turn, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (thrown) {
      await turn.release().catch(() => {});
      throw thrown;
    }
  }

  async function startTurn(caller: Caller, message: string, options: RunOptions): Promise<ActorEnvelope> {
    const { actor, model } = requireActor(caller);
    const session = await openSession(caller, message);
    const progress = startTurnProgress(message);
    const turn = await turns.begin(caller, progress as unknown as Json);
    await releaseOnError(turn, async () => {
      if (!(await sessions.claim(session.id, turn.id, session.openTurn, options.key))) {
        await turn.end("cancelled");
        throw createBusyError(turn.id);
      }
      const facts = omitUndefined({ hops: caller.hops, parent: options.around?.callId });
      const data = { turnId: turn.id, model: model.name, ...facts };
      await services.record(turn.caller, { type: "turn.started", data });
    });
    return carryOut({ ...options, session, turn, actor, model, progress });
  }

  async function carryOut(run: TurnRun): Promise<ActorEnvelope> {
    const stop = new AbortController();
    const signal = AbortSignal.any([run.signal, stop.signal]);
    // All calls of an answer listen to it.
    setMaxListeners(0, signal);
    const ended = runTurn(services, { ...run, signal }, findPassProblem);
    running.set(run.turn.id, { stop, ended });
    const { envelope, passedTo } = await ended.finally(() => running.delete(run.turn.id));
    return passedTo === undefined ? envelope : passTurn(run, envelope, passedTo);
  }

  /** Runs the same message as a turn of the actor that the work was passed to. */
  async function passTurn(run: TurnRun, envelope: ActorEnvelope, to: string): Promise<ActorEnvelope> {
    try {
      return await startTurn(handOn(run.turn.caller, to), run.progress.message, run);
    } catch (thrown) {
      return { ...envelope, turnState: "failed", error: toQmError(thrown).toProblem() };
    }
  }

  /** Passing is a call of the other actor, and refused where that call would not run at once. */
  function findPassProblem(caller: Caller, to: string, message: string): string | undefined {
    if (to === caller.actor) return "an actor cannot pass the work to itself";
    const action = `${PEER_CATEGORY}__${to}`;
    const decision = services.decide(action, { message }, caller);
    // A hidden actor and an unknown one answer alike.
    if (decision === undefined) return `there is no actor ${quoteName(to)} to pass to`;
    if (decision.kind === "deny") return decision.objection.reason;
    if (decision.kind === "ask") return `${decision.objection.reason} Only a call of ${action} can wait for that.`;
    try {
      requireActor(handOn(caller, to));
      return undefined;
    } catch (thrown) {
      return getErrorMessage(thrown);
    }
  }

  /** Continues a turn of a session. Answers it as suspended while answers of people are missing. */
  async function continueTurn(
    session: StoredSession,
    open: StoredTurn,
    resume: () => ReturnType<TurnService["resume"]>,
    options: RunOptions,
  ): Promise<ActorEnvelope> {
    const { actor, model } = requireActor(open.caller);
    const resumed = await resume();
    if (resumed.state === "suspended") {
      const progress = readProgress((await turns.readMemo(open.id)) ?? null);
      const common = { actor: open.caller.actor, session: open.caller.session, turnId: open.id, ...countUse(progress) };
      const parts = resumed.waiting.map((data) => ({ partType: "approval-request", data }) as const);
      return { ...common, turnState: "suspended", parts, ...omitUndefined({ resumeExpiresAt: open.expiresAt }) };
    }
    const { turn, memo, results } = resumed;
    const take = () => takeResults(services, readProgress(memo), turn.caller, results);
    const progress = await releaseOnError(turn, take);
    return carryOut({ ...options, session, turn, actor, model, progress });
  }

  return {
    startTurn,
    continueTurn,
    findOpenTurn,
    closeTurn,
    async callActor(caller: Caller, message: string, options: CallActorOptions): Promise<ActorEnvelope> {
      if (typeof message !== "string" || message.trim() === "" || message.length > MESSAGE_LIMIT)
        throw new QmError("invalid_config", `the message must be text of 1 to ${MESSAGE_LIMIT} characters`);
      return startTurn(caller, message, toRunOptions(options));
    },
    async resumeActor(token: string, options: CallActorOptions): Promise<ActorEnvelope> {
      const open = await turns.findByToken(token);
      const { actor = "", session = "" } = open?.caller ?? {};
      const asker = options.caller && { ...options.caller, actor, session };
      const resume = (partial = false) => turns.resume(token, { ...omitUndefined({ caller: asker }), partial });
      const [stored] = open === undefined ? [] : await sessions.find(open.caller, session, actor);
      if (open !== undefined && stored?.openTurn === open.id) {
        const envelope = await continueTurn(stored, open, resume, toRunOptions(options));
        // Only reported: the token is still good.
        return envelope.turnState === "suspended" ? { resumeToken: token, ...envelope } : envelope;
      }
      // Rejects unless the turn is one of a host's own loop.
      await resume(true);
      throw new QmError("not_found", "this token is not of an actor's turn", { hint: "Use turns.resume." });
    },
    /** Continues the suspended or interrupted turn of a session, without its token. */
    async resumeSession(session: StoredSession, options: CallActorOptions): Promise<ActorEnvelope> {
      const open = await findOpenTurn(session);
      if (open === undefined)
        throw new QmError("conflict", `no turn of the session ${quoteName(session.session)} is open`, {
          hint: "Send a message, or choose another session. {qm sessions list} shows which ones have an open turn.",
        });
      return continueTurn(session, open, () => turns.resumeById(open.id), toRunOptions(options));
    },
    /** Cancels the open turn of a session. Calls that wait for a person are withdrawn. False: there was none. */
    async cancelTurn(session: StoredSession): Promise<boolean> {
      const open = await findOpenTurn(session);
      if (open === undefined) return false;
      const here = running.get(open.id);
      if (here === undefined) await closeTurn(session, open.id, "cancelled");
      else {
        here.stop.abort(new QmError("cancelled", "the turn was cancelled"));
        await here.ended;
      }
      return true;
    },
    /** Leaves the running turns to other processes. */
    async close(): Promise<void> {
      const all = [...running.values()];
      for (const { stop } of all) stop.abort(createLeftOpenError("the system is closing"));
      await settlesWithin(Promise.allSettled(all.map(({ ended }) => ended)), CLOSE_LIMIT_MS);
    },
  };
}

const toRunOptions = ({ signal, onEvent }: CallActorOptions): RunOptions => ({
  signal: signal ?? new AbortController().signal,
  onEvent,
});

/** An actor that delegated the turn may not see the actions that the turn calls. */
function createWaitingError({ id, calls }: StoredTurn, { hops = 0 }: Caller): QmError {
  const names = [...new Set(calls.map(({ inner, action }) => inner ?? action))].join(", ");
  const what = hops === 0 ? ` of ${names}` : "";
  const hint = "A person must answer first. Then the turn can be resumed; it can also be cancelled.";
  return new QmError("conflict", `a turn of this session waits for approval${what}`, {
    hint,
    details: { turn: id },
  });
}

function createBusyError(turn: string): QmError {
  const hint = "Try again when it has ended.";
  return new QmError("conflict", "another turn of this session is running", { hint, details: { turn } });
}
