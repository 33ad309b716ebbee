import { QmError } from "../core/errors.ts";
import { omitUndefined } from "../core/json.ts";
import type { ModelMessage } from "../core/model.ts";
import { quoteName } from "../core/names.ts";
import type { ActorRuntime } from "./actor-runtime.ts";
import type { ActorServices } from "./actor-services.ts";
import type { ActorEnvelope, CallActorOptions } from "./envelope.ts";
import type {
  MessagePage,
  SessionMessage,
  SessionOwner,
  SessionQuery,
  SessionSummary,
  StoredSession,
} from "./session-store.ts";
import { readProgress } from "./turn-progress.ts";

/** The owner and the actor of a session. Absent: no tenant and no user; the actor that the session began with. */
export interface SessionChoice {
  readonly caller?: SessionOwner;
  readonly actor?: string;
}

export interface SessionView extends Omit<SessionSummary, "openTurn" | "turnState"> {
  readonly history: readonly SessionMessage[];
  readonly turn?: OpenTurnView;
}

/** The turn that is not over. `interrupted`: its process is gone. Its messages are not in the history yet. */
export interface OpenTurnView {
  readonly id: string;
  readonly state: "running" | "suspended" | "interrupted";
  readonly expiresAt?: string;
  /** The approvals that it waits for. */
  readonly approvals: readonly string[];
  readonly messages: readonly ModelMessage[];
}

/** Conversations with actors. A session of another tenant or user answers `not_found`, like an unknown one. */
export interface Sessions {
  /** For operators: of all tenants and users, unless the query names one. */
  list(query?: SessionQuery): Promise<readonly SessionSummary[]>;
  /** A session with a page of its messages, as they were. */
  get(session: string, options?: SessionChoice & MessagePage): Promise<SessionView>;
  /** Continues the suspended or interrupted turn without its token. Rejects with `conflict` if no turn is open. */
  resume(session: string, options?: SessionChoice & Omit<CallActorOptions, "caller">): Promise<ActorEnvelope>;
  /** Cancels the open turn, and withdraws its calls that wait for people. False: no turn was open. */
  cancel(session: string, options?: SessionChoice): Promise<boolean>;
  /** Removes the session of one actor, or of all. Rejects with `conflict` while a turn is running. */
  remove(session: string, options?: SessionChoice): Promise<void>;
}

export function createSessionService({ sessions, turns, record }: ActorServices, actors: ActorRuntime): Sessions {
  async function requireSessions(session: string, { caller = {}, actor }: SessionChoice) {
    const [first, ...others] = await sessions.find(caller, session, actor);
    if (first !== undefined) return [first, ...others] as const;
    const hint = "It may belong to another user or tenant, or have been removed.";
    throw new QmError("not_found", `there is no session ${quoteName(session)}`, { hint });
  }

  async function readTurn(session: StoredSession): Promise<OpenTurnView | undefined> {
    const turn = await actors.findOpenTurn(session);
    if (turn === undefined) return undefined;
    const { id, state, calls, expiresAt } = turn;
    const { messages } = readProgress((await turns.readMemo(id)) ?? null);
    const isInterrupted = state === "running" && turns.isLeft(turn);
    const approvals = [...new Set(calls.map(({ approvalId }) => approvalId))];
    const known = isInterrupted ? "interrupted" : state === "suspended" ? state : "running";
    return { id, state: known, ...omitUndefined({ expiresAt }), approvals, messages };
  }

  return {
    list: (query = {}) => sessions.list(query),
    async get(session, { after, limit, ...choice } = {}) {
      const [found] = await requireSessions(session, choice);
      const { id, turnKey: _, result: _result, openTurn: _turn, ...summary } = found;
      const turn = await readTurn(found);
      const history = await sessions.readMessages(id, omitUndefined({ after, limit }));
      return { ...summary, ...omitUndefined({ turn }), history };
    },
    async resume(session, { signal, onEvent, ...choice } = {}) {
      const [found] = await requireSessions(session, choice);
      return actors.resumeSession(found, omitUndefined({ signal, onEvent }));
    },
    async cancel(session, choice = {}) {
      const [found] = await requireSessions(session, choice);
      return actors.cancelTurn(found);
    },
    async remove(session, choice = {}) {
      const found = await requireSessions(session, choice);
      for (const each of found) {
        const turn = await actors.findOpenTurn(each);
        if (turn !== undefined && !turns.isLeft(turn)) {
          const hint = "Wait for its end, or cancel it.";
          throw new QmError("conflict", `a turn of the session ${quoteName(session)} is running`, { hint });
        }
        if (turn !== undefined) await actors.closeTurn(each, turn.id, "cancelled");
      }
      for (const { id, actor, messages } of found) {
        await sessions.remove(id);
        await record({ ...choice.caller, actor, session }, { type: "session.removed", data: { messages } });
      }
    },
  };
}
