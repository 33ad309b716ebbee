import { QmError } from "../core/errors.ts";
import { quoteName } from "../core/names.ts";
import type { ActorServices } from "./actor-runtime.ts";
import type {
  MessagePage,
  SessionMessage,
  SessionOwner,
  SessionQuery,
  SessionSummary,
  StoredSession,
} from "./session-store.ts";

/** Whose session it is, and of which actor. Absent: of no tenant and user; of the actor that it began with. */
export interface SessionChoice {
  readonly caller?: SessionOwner;
  readonly actor?: string;
}

export interface SessionView extends SessionSummary {
  /** The state of the open turn. `interrupted`: its process is gone. */
  readonly turnState?: "running" | "suspended" | "interrupted";
  readonly history: readonly SessionMessage[];
}

/** Conversations with actors. A session of another tenant or user answers `not_found`, like an unknown one. */
export interface Sessions {
  /** For operators: of all tenants and users, unless the query names one. */
  list(query?: SessionQuery): Promise<readonly SessionSummary[]>;
  /** A session with a page of its messages, as they were. */
  get(session: string, options?: SessionChoice & MessagePage): Promise<SessionView>;
  /** Removes the session of one actor, or of all. Throws `conflict` while a turn is running. */
  remove(session: string, options?: SessionChoice): Promise<void>;
}

export function createSessionService({ sessions, turns, record }: ActorServices): Sessions {
  async function requireSessions(session: string, { caller = {}, actor }: SessionChoice) {
    const [first, ...others] = await sessions.find(caller, session, actor);
    if (first === undefined) throw createUnknownSessionError(session);
    return [first, ...others] as const;
  }

  async function readTurnState({ openTurn }: StoredSession): Promise<SessionView["turnState"]> {
    const turn = openTurn === undefined ? undefined : await turns.find(openTurn);
    if (turn?.state === "suspended") return "suspended";
    if (turn?.state !== "running") return undefined;
    return turns.isLeft(turn) ? "interrupted" : "running";
  }

  return {
    list: (query = {}) => sessions.list(query),
    async get(session, { after, limit, ...choice } = {}) {
      const [found] = await requireSessions(session, choice);
      const { id, turnKey: _, result: _result, ...summary } = found;
      const page = { ...(after === undefined ? {} : { after }), ...(limit === undefined ? {} : { limit }) };
      const turnState = await readTurnState(found);
      const history = await sessions.readMessages(id, page);
      return { ...summary, ...(turnState === undefined ? {} : { turnState }), history };
    },
    async remove(session, choice = {}) {
      const found = await requireSessions(session, choice);
      for (const each of found) {
        if ((await readTurnState(each)) !== "running") continue;
        const hint = "Wait for its end, or cancel it.";
        throw new QmError("conflict", `a turn of the session ${quoteName(session)} is running`, { hint });
      }
      for (const { id, actor, messages } of found) {
        await sessions.remove(id);
        await record({ ...choice.caller, actor, session }, { type: "session.removed", data: { messages } });
      }
    },
  };
}

function createUnknownSessionError(session: string): QmError {
  const hint = "It may belong to another user or tenant, or have been removed.";
  return new QmError("not_found", `there is no session ${quoteName(session)}`, { hint });
}
