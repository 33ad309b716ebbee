import type { Caller } from "../core/caller.ts";
import type { LeaseHolder } from "../core/lease.ts";

export const turnStates = ["running", "suspended", "complete", "failed", "cancelled"] as const;

/**
 * - `running`: one process holds it, for as long as it renews its lease
 * - `suspended`: calls of it wait for people, and nobody holds it
 * - `complete`, `failed`, `cancelled`: it is over
 */
export type TurnState = (typeof turnStates)[number];

export type TurnEnd = Exclude<TurnState, "running" | "suspended">;

/** A call that waits for a person, as the turn remembers it. */
export interface WaitingCall {
  /** The host's own name for the call: the id that the model's provider gave it, for one. */
  readonly ref: string;
  readonly callId: string;
  readonly approvalId: string;
  readonly action: string;
  readonly level: string;
  readonly reason: string;
  readonly preview?: string;
  readonly expiresAt: string;
}

/** A turn without its memo, which may be long. */
export interface StoredTurn {
  readonly id: string;
  readonly state: TurnState;
  readonly caller: Caller;
  /** Those that waited when it was last written, in the order they were noted. */
  readonly calls: readonly WaitingCall[];
  /** Another one after every write. */
  readonly version: number;
  /** Who has it, while it is running. */
  readonly holder?: LeaseHolder;
  readonly startedAt: string;
  readonly changedAt: string;
}

export interface NewTurn {
  readonly id: string;
  /** Of the secret that resumes it, which is kept nowhere. */
  readonly tokenHash: string;
  readonly caller: Caller;
  /** JSON. */
  readonly memo: string;
  readonly holder: LeaseHolder;
  readonly at: Date;
}

export interface TurnChange {
  readonly state: TurnState;
  readonly calls: readonly WaitingCall[];
  /** JSON. */
  readonly memo: string;
  /** Who has it from now on; absent: nobody. */
  readonly holder?: LeaseHolder;
  readonly at: Date;
}

export interface TurnQuery {
  readonly state?: TurnState;
  readonly session?: string;
  /** At most so many, newest change first. Absent: 100. */
  readonly limit?: number;
}

/** What turns need of a store. Of two processes that want to go on with the same turn, one does. */
export interface TurnStore {
  /** False where there is a turn of that id already. */
  add(turn: NewTurn): Promise<boolean>;
  get(id: string): Promise<StoredTurn | undefined>;
  byToken(tokenHash: string): Promise<StoredTurn | undefined>;
  list(query: TurnQuery): Promise<readonly StoredTurn[]>;
  /** Takes a turn that is as it was seen, and answers its memo. Undefined: it is another's, or not as it was. */
  claim(seen: StoredTurn, holder: LeaseHolder, at: Date): Promise<string | undefined>;
  /** By who holds it, in the version that he knows. False: it has been taken away. */
  write(held: HeldTurnVersion, change: TurnChange): Promise<boolean>;
  renew(holderId: string, leaseUntil: Date): Promise<void>;
  /** Over, and older than that. Answers how many were removed. */
  prune(before: Date): Promise<number>;
}

interface HeldTurnVersion {
  readonly id: string;
  readonly holderId: string;
  readonly version: number;
}

/** A turn as operators are shown it. */
export interface TurnView extends Pick<StoredTurn, "id" | "state" | "startedAt" | "changedAt"> {
  readonly actor: string;
  readonly session: string;
  readonly tenant?: string;
  readonly user?: string;
  readonly person?: string;
  /** Those that waited when it was last kept. */
  readonly calls: readonly Pick<WaitingCall, "ref" | "callId" | "approvalId" | "action" | "expiresAt">[];
}

export function toTurnView({ id, state, caller, calls, startedAt, changedAt }: StoredTurn): TurnView {
  const { actor, session, tenant, user, person } = caller;
  return {
    id,
    state,
    actor,
    session,
    ...(tenant === undefined ? {} : { tenant }),
    ...(user === undefined ? {} : { user: user.id }),
    ...(person === undefined ? {} : { person }),
    startedAt,
    changedAt,
    calls: calls.map(({ ref, callId, approvalId, action, expiresAt }) => ({
      ref,
      callId,
      approvalId,
      action,
      expiresAt,
    })),
  };
}
