import type { Caller } from "../core/caller.ts";
import type { Json } from "../core/json.ts";
import type { ModelMessage } from "../core/model.ts";

/** One actor's conversation in a session of one user. */
export interface SessionSummary {
  readonly session: string;
  readonly actor: string;
  readonly tenant?: string;
  readonly user?: string;
  /** The beginning of the first message. */
  readonly title: string;
  readonly messages: number;
  readonly createdAt: string;
  readonly changedAt: string;
  /** The turn that is not over, and its state. The process of one that is `running` may be gone. */
  readonly openTurn?: string;
  readonly turnState?: "running" | "suspended";
}

export interface StoredSession extends Omit<SessionSummary, "turnState"> {
  readonly id: string;
  /** The delegation that the open turn, or the result, belongs to. */
  readonly turnKey?: string;
  /** The answer of a delegated turn that its caller has not got yet. */
  readonly result?: Json;
}

/** The tenant and user of a session. Absent fields mean a caller without a tenant or a user. */
export type SessionOwner = Pick<Caller, "tenant" | "user">;

/** `seq`: counted from 1 in the session. */
export interface SessionMessage {
  readonly seq: number;
  readonly turn: string;
  readonly message: ModelMessage;
}

/** A session as a model gets it: the summary of the oldest turns, and the messages after it, perhaps shortened. */
export interface SessionHistory {
  readonly summary?: string;
  readonly messages: readonly SessionMessage[];
}

export interface SessionQuery {
  readonly tenant?: string;
  readonly user?: string;
  readonly session?: string;
  readonly actor?: string;
  /** Last changed first. Default: 50. */
  readonly limit?: number;
  readonly offset?: number;
}

export interface MessagePage {
  /** Only messages after this number. */
  readonly after?: number;
  /** Default: 100. */
  readonly limit?: number;
}

/** Sessions by actor. A turn claims its session, so that one turn at a time changes it. */
export interface SessionStore {
  /** Finds the session, or adds it with this id and title. */
  open(
    owner: SessionOwner,
    facts: Pick<StoredSession, "id" | "session" | "actor" | "title">,
    at: Date,
  ): Promise<StoredSession>;
  /** The sessions of the owner with this name, oldest first: one for each actor. */
  find(owner: SessionOwner, session: string, actor?: string): Promise<readonly StoredSession[]>;
  list(query: SessionQuery): Promise<readonly SessionSummary[]>;
  /** Gives the session to a turn, if the open turn is still the `former` one. A `key` marks a delegated turn. */
  claim(id: string, turn: string, former: string | undefined, key: string | undefined): Promise<boolean>;
  /** Adds the messages of a turn and gives the session up. False: another turn has it. */
  finish(id: string, end: FinishedTurn): Promise<boolean>;
  /** Forgets the results of a delegation, which its caller has got. */
  deliver(owner: SessionOwner, session: string, key: string): Promise<void>;
  readHistory(id: string): Promise<SessionHistory>;
  /** As they were, for people. */
  readMessages(id: string, page: MessagePage): Promise<readonly SessionMessage[]>;
  /** Replaces messages, for models only, and the messages up to `until` by a summary. */
  shorten(id: string, change: ShortenedHistory): Promise<void>;
  remove(id: string): Promise<boolean>;
  /** Removes sessions without a change since then. Returns how many. */
  prune(before: Date): Promise<number>;
}

export interface FinishedTurn {
  readonly turn: string;
  readonly messages: readonly ModelMessage[];
  /** The answer of a delegated turn, until its caller has got it. */
  readonly result?: Json;
  readonly at: Date;
}

export interface ShortenedHistory {
  readonly messages: readonly Pick<SessionMessage, "seq" | "message">[];
  readonly summary?: { readonly text: string; readonly until: number };
}
