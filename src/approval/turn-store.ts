import { type Caller, type FlatCaller, flattenCaller } from "../core/caller.ts";
import { omitUndefined } from "../core/json.ts";
import type { LeaseHolder } from "../core/lease.ts";

export const turnStates = ["running", "suspended", "complete", "failed", "cancelled"] as const;

/**
 * - `running`: one process holds it while it renews its lease
 * - `suspended`: its calls wait for people, and no process holds it
 * - `complete`, `failed`, `cancelled`: it is over
 */
export type TurnState = (typeof turnStates)[number];
export type TurnEnd = Exclude<TurnState, "running" | "suspended">;

export interface WaitingCall {
  /** The host's own name for the call, such as the tool call id of the model's provider. */
  readonly ref: string;
  readonly callId: string;
  readonly approvalId: string;
  readonly action: string;
  /** The action that a person must approve, if the call made it. */
  readonly inner?: string;
  readonly level: string;
  readonly reason: string;
  readonly preview?: string;
  readonly expiresAt: string;
}

export interface StoredTurn {
  readonly id: string;
  readonly state: TurnState;
  readonly caller: Caller;
  /** The calls that waited at the last write, in the order they were noted. */
  readonly calls: readonly WaitingCall[];
  readonly version: number;
  readonly holder?: LeaseHolder;
  /** When a suspended turn can no longer be resumed. */
  readonly expiresAt?: string;
  readonly startedAt: string;
  readonly changedAt: string;
}

export interface NewTurn {
  readonly id: string;
  /** The hash of the resume token. The token itself is not stored. */
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
  readonly holder?: LeaseHolder;
  readonly expiresAt?: string;
  /** Replaces the resume token. Absent: it stays. */
  readonly tokenHash?: string;
  readonly at: Date;
}

export interface TurnQuery {
  readonly state?: TurnState;
  readonly session?: string;
  /** Newest change first. Default: 100. */
  readonly limit?: number;
}

/** Of several processes that want the same turn, exactly one gets it. */
export interface TurnStore {
  /** False if the id is taken. */
  add(turn: NewTurn): Promise<boolean>;
  get(id: string): Promise<StoredTurn | undefined>;
  byToken(tokenHash: string): Promise<StoredTurn | undefined>;
  list(query: TurnQuery): Promise<readonly StoredTurn[]>;
  /**
   * Claims a turn that has not changed since it was read, and returns its memo. Undefined: it has changed. `tokenHash`
   * replaces the resume token.
   */
  claim(seen: StoredTurn, holder: LeaseHolder, at: Date, tokenHash?: string): Promise<string | undefined>;
  /** Writes a turn that its holder has in this version. False: another process has taken it. */
  write(held: { id: string; holderId: string; version: number }, change: TurnChange): Promise<boolean>;
  /** Gives up a turn that its holder has, as it was stored last. */
  release(id: string, holderId: string, at: Date): Promise<void>;
  readMemo(id: string): Promise<string | undefined>;
  /** Cancels every turn that is not over. Returns how many. */
  cancelAll(at: Date): Promise<number>;
  renew(holderId: string, leaseUntil: Date): Promise<void>;
  /** Removes turns that ended before, suspended ones that expired before, and running ones without a process since then. */
  prune(before: Date): Promise<number>;
}

export interface TurnView
  extends Pick<StoredTurn, "id" | "state" | "expiresAt" | "startedAt" | "changedAt">,
    Omit<FlatCaller, "turn"> {
  readonly calls: readonly Pick<WaitingCall, "ref" | "callId" | "approvalId" | "action" | "expiresAt">[];
}

export function toTurnView({ id, state, caller, calls, expiresAt, startedAt, changedAt }: StoredTurn): TurnView {
  const { turn: _, ...fields } = flattenCaller(caller);
  const waiting = calls.map(({ ref, callId, approvalId, action, expiresAt }) => {
    return { ref, callId, approvalId, action, expiresAt };
  });
  return { id, state, ...fields, ...omitUndefined({ expiresAt }), startedAt, changedAt, calls: waiting };
}
