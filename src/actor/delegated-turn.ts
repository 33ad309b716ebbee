import { type CallContext, fingerprint } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { handOn } from "../core/delegation.ts";
import { getErrorMessage } from "../core/errors.ts";
import { isRecord } from "../core/json.ts";
import { createWaitingOutcome, type Outcome, VALUE_LIMIT, type WaitingOutcome } from "../core/outcome.ts";
import type { ActorRuntime, RunOptions } from "./actor-runtime.ts";
import type { ActorServices } from "./actor-services.ts";
import type { ActorEnvelope, ActorEvent } from "./envelope.ts";
import type { StoredSession } from "./session-store.ts";

export interface Delegation {
  readonly actor: string;
  readonly message: string;
  /** Of the call whose handler delegates. */
  readonly context: CallContext;
  readonly onEvent?: (event: ActorEvent) => void;
}

/**
 * `waiting`: the turn waits for a person. The handler returns it, and its call waits too. When the call is repeated after
 * the answer, the same turn continues. Tokens in the envelope are valid for the caller of the delegating call.
 */
export type DelegatedTurn = { readonly envelope: ActorEnvelope } | { readonly waiting: WaitingOutcome };

/** Runs a turn of another actor for a handler: one hop further, in the same session, as part of the handler's call. */
export type RunDelegatedTurn = (delegation: Delegation) => Promise<DelegatedTurn>;

export function createDelegation(services: ActorServices, actors: ActorRuntime): RunDelegatedTurn {
  const { sessions, turns, onProblem } = services;

  /** Starts the turn, continues it, or answers the result that its caller has not got. */
  async function openTurn(caller: Caller, message: string, options: RunOptions): Promise<ActorEnvelope> {
    const [session] = await sessions.find(caller, caller.session, caller.actor);
    if (session === undefined || session.turnKey !== options.key) {
      if (session !== undefined) await closeAbandoned(session);
      return actors.startTurn(caller, message, options);
    }
    const { result } = session;
    if (isRecord(result) && typeof result.passedTo === "string")
      return openTurn(handOn(caller, result.passedTo), message, options);
    if (result !== undefined) return result as unknown as ActorEnvelope;
    const open = await actors.findOpenTurn(session);
    if (open === undefined) return actors.startTurn(caller, message, options);
    await services.resumeSources(open.id);
    return actors.continueTurn(session, open, () => turns.resumeById(open.id), options);
  }

  /** Cancels a delegated turn that waits although the turn that delegated it is over. */
  async function closeAbandoned(session: StoredSession): Promise<void> {
    const outer = session.turnKey?.split(" ", 1)[0] ?? "";
    const open = outer === "" ? undefined : await actors.findOpenTurn(session);
    if (open === undefined || !turns.isLeft(open)) return;
    const delegating = await turns.find(outer);
    if (delegating?.state !== "running" && delegating?.state !== "suspended")
      await actors.closeTurn(session, open.id, "cancelled");
  }

  return async ({ actor, message, context, onEvent }) => {
    const { turn = "", ...outer } = context.caller;
    const caller = handOn(outer, actor);
    const key = `${turn} ${fingerprint([outer, actor, message])}`;
    await services.shareTokens({ from: context.caller, to: caller }, message);
    const envelope = await openTurn(caller, message, { signal: context.signal, onEvent, key, around: context });
    const [first] = envelope.parts;
    if (envelope.turnState === "suspended" && first?.partType === "approval-request") {
      const { approvalId: id, inner, action, level, expiresAt, reason } = first.data;
      const approval = { id, inner: inner ?? action, level, expiresAt } as WaitingOutcome["approval"];
      const ending = { callId: context.callId, durationMs: 0, valueLimit: VALUE_LIMIT, action: undefined };
      const waiting = createWaitingOutcome(ending, approval.inner as never, { reason, approval }) as WaitingOutcome;
      context.waitFor(waiting);
      return { waiting };
    }
    context.afterEnd((outcome) => markDelivered(caller, key, outcome));
    const from = { ...caller, actor: envelope.actor };
    await services.shareTokens({ from, to: context.caller }, envelope.parts);
    return { envelope };
  };

  /** A caller that has left did not get the result. */
  async function markDelivered(caller: Caller, key: string, outcome: Outcome): Promise<void> {
    const code = "error" in outcome ? outcome.error.code : undefined;
    if (code !== "cancelled" && code !== "timed_out")
      await sessions
        .deliver(caller, caller.session, key)
        .catch((thrown) =>
          onProblem(`the answer of actor ${caller.actor} may be given again: ${getErrorMessage(thrown)}`),
        );
  }
}
