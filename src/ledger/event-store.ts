import type { NewEvent } from "../core/events.ts";
import type { Json } from "../core/json.ts";

/** One line of the ledger as it was written. */
export interface StoredEvent {
  /** The order of writing over all sessions of a store. */
  readonly id: number;
  readonly session: string;
  /** Place in the session's chain, from 1, without gaps. */
  readonly seq: number;
  readonly type: string;
  /** ISO 8601, UTC. */
  readonly at: string;
  readonly actor: string | null;
  readonly tenant: string | null;
  readonly turn: string | null;
  readonly user: string | null;
  readonly person: string | null;
  /** Taken from the data, so that the events of a call or an action can be found. */
  readonly callId: string | null;
  readonly action: string | null;
  readonly data: Json;
  /** Hash of this line together with `prev`. */
  readonly hash: string;
  /** Hash of the session's line before; 64 zeros for the first. */
  readonly prev: string;
}

export interface EventQuery {
  readonly session?: string;
  /** Only the last session, in the order of their names, that begins with this. */
  readonly lastSessionOf?: string;
  readonly actor?: string;
  readonly tenant?: string;
  readonly user?: string;
  /** Exact type, or a prefix ending in `.` (`call.`). */
  readonly type?: string;
  readonly callId?: string;
  readonly action?: string;
  /** Only events with a greater id. */
  readonly after?: number;
  /** At most so many; the newest ones, in order of writing, unless `after` is given. Absent: 1,000. */
  readonly limit?: number;
}

/** The last line of a session's chain, kept apart from the lines so that a cut tail is noticed. */
export interface ChainHead {
  readonly session: string;
  readonly seq: number;
  readonly hash: string;
}

/** What the ledger needs of a store. */
export interface EventStore {
  /**
   * Writes all of them in one transaction, each chained to its session's last line, whoever wrote that one. When it
   * resolves, they outlive the process (not necessarily a power cut); when it rejects, none of them is there.
   */
  append(events: readonly NewEvent[]): Promise<void>;
  read(query: EventQuery): Promise<readonly StoredEvent[]>;
  heads(): Promise<readonly ChainHead[]>;
}
