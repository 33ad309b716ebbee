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
}

/** Whether two are the same for whoever asks whose something is: the conversation it was asked in does not count. */
export function isSameCaller(one: Caller, other: Caller): boolean {
  return one.actor === other.actor && one.tenant === other.tenant && one.user?.id === other.user?.id;
}
