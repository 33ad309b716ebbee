import type { JsonObject } from "./json.ts";

/** Who asks. Every decision, view and record is made for one of these. */
export interface Caller {
  /** The named configuration the caller acts under: which actions, which surface. */
  readonly actor: string;
  /** The conversation; one hash chain in the ledger. */
  readonly session: string;
  /** One model loop inside the session. */
  readonly turn?: string;
  /** The user the session belongs to, with whatever the host knows of them (`tier`, `roles`, ...). */
  readonly user?: { readonly id: string } & JsonObject;
  /** The human behind several users, where known. */
  readonly person?: string;
  readonly tenant?: string;
  /** Which client it came through, where a gateway knows that: a hash of profile, token, description and session name. */
  readonly client?: string;
}

/**
 * Whether what one caller began is the other's. A known client stays the same when it reconnects and its session is
 * another one. Without a client the session must be the same.
 */
export function isSameCaller(one: Caller, other: Caller): boolean {
  if (one.actor !== other.actor || one.tenant !== other.tenant || one.user?.id !== other.user?.id) return false;
  return one.client === other.client && (one.client !== undefined || one.session === other.session);
}
