import type { Caller } from "../core/caller.ts";
import type { UnstampedEvent } from "../core/events.ts";
import { handleOf, type ResourceKind } from "./handle.ts";
import type { Collection, NoteFacts, Origin } from "./note.ts";

/** In whose name, and by which call, something is written. */
export interface Maker {
  readonly caller: Caller;
  readonly action: string;
  readonly callId: string;
}

export function originOf({ caller, action, callId }: Maker, at: Date): Origin {
  const { actor, session, turn, tenant, user } = caller;
  return {
    action,
    callId,
    actor,
    session,
    ...(turn === undefined ? {} : { turn }),
    ...(tenant === undefined ? {} : { tenant }),
    ...(user === undefined ? {} : { user: user.id }),
    at: at.toISOString(),
  };
}

const SHORT = 1024;

/** That it was made, or has a new version, as the ledger has it. */
export function writtenEvent(
  { callId }: Pick<Maker, "callId">,
  kind: ResourceKind,
  made: NoteFacts | Collection,
): UnstampedEvent<"resource.written"> {
  const { id, version, bytes, name } = made;
  // The hash of something short would give it away to whoever tries all values.
  const facts = "count" in made ? { count: made.count } : bytes > SHORT ? { hash: made.hash } : {};
  const label = name === undefined ? {} : { name };
  const data = { callId, handle: handleOf(kind, id), version, bytes, ...facts, ...label };
  return { type: "resource.written", data };
}
