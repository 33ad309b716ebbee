import type { StoredTurn, WaitingCall } from "./turn-store.ts";

/** A turn as operators are shown it. */
export interface ShownTurn extends Pick<StoredTurn, "id" | "state" | "startedAt" | "changedAt"> {
  readonly actor: string;
  readonly session: string;
  readonly tenant?: string;
  readonly user?: string;
  readonly person?: string;
  /** Those that waited when it was last kept. */
  readonly calls: readonly Pick<WaitingCall, "ref" | "callId" | "approvalId" | "action" | "expiresAt">[];
}

export function shownTurn({ id, state, caller, calls, startedAt, changedAt }: StoredTurn): ShownTurn {
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
