import type { NewEvent } from "../core/events.ts";
import type { Json } from "../core/json.ts";

export interface StoredEvent {
  /** Increases in the order of writing, over all sessions. */
  readonly id: number;
  readonly session: string;
  /** The place in the session's chain: 1, 2, 3, without gaps. */
  readonly seq: number;
  readonly type: string;
  /** ISO 8601, UTC. */
  readonly at: string;
  readonly actor: string | null;
  readonly tenant: string | null;
  readonly turn: string | null;
  readonly user: string | null;
  readonly person: string | null;
  /** `callId` and `action` are copied from the data for queries. */
  readonly callId: string | null;
  readonly action: string | null;
  readonly data: Json;
  readonly hash: string;
  /** Hash of the session's previous line; 64 zeros for the first. */
  readonly prev: string;
}

export interface EventQuery {
  readonly session?: string;
  /** Only the session with this prefix whose name sorts last. */
  readonly lastSessionOf?: string;
  readonly actor?: string;
  readonly tenant?: string;
  readonly user?: string;
  /** Exact type, or a prefix ending in `.` (`call.`). */
  readonly type?: string;
  readonly callId?: string;
  readonly action?: string;
  readonly after?: number;
  /** Default: 1,000. Without `after`, the newest events; always in the order of writing. */
  readonly limit?: number;
}

/** The end of a session's chain, stored apart from the lines so that a cut tail is detected. */
export type ChainHead = { readonly session: string; readonly seq: number; readonly hash: string };

/** The last removed line of a chain. `whole`: nothing was left, so the next event of the session starts a new chain. */
export type PrunedChain = ChainHead & { readonly whole?: boolean };

/** A process that runs calls. `id` is different for every start. */
export type CallProcess = { readonly id: string; readonly pid: number; readonly host: string };

export interface EventStore {
  /** Chains each event to its session's last line, in one transaction. They survive the process, or none is written. */
  append(events: readonly NewEvent[]): Promise<void>;
  read(query: EventQuery): Promise<readonly StoredEvent[]>;
  heads(): Promise<readonly ChainHead[]>;
  /** The time of the first event of each session that an open approval or an unfinished turn still needs. */
  listHeld(): Promise<ReadonlyMap<string, Date>>;
  /**
   * Removes the lines up to these, and appends the event that records it, in one transaction. If lines of the system's
   * chain are removed, its older records may be among them, so the chains that lack their start are recorded again.
   */
  prune(upTo: readonly ChainHead[], toEvent: (chains: readonly PrunedChain[]) => NewEvent): Promise<void>;
  /**
   * Takes over the unfinished calls with side effects of the processes that are gone. Each call is given to one process, which
   * must record its end.
   */
  takeUnfinished(isGone: (process: CallProcess, since: Date) => boolean): Promise<readonly string[]>;
}
