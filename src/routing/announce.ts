import type { Caller } from "../core/caller.ts";
import { QmError } from "../core/errors.ts";
import type { UnstampedEvent } from "../core/events.ts";
import type { Runtime } from "../core/runtime.ts";
import { copyOf, type RoutableEvent } from "./event.ts";
import type { CompiledRule } from "./rules.ts";
import type { Delivery, Heading } from "./subscribers.ts";

/** What routing writes down. */
export type RoutingNote = UnstampedEvent<"event.routed" | "call.retried">;

/** Writes to the ledger. What it throws fails what was to be written down and has not begun. */
export type Note = (caller: Caller | undefined, note: RoutingNote) => void;

/** Where an event comes from and which rule took it. */
export interface Origin {
  readonly heading: Heading;
  readonly caller: Caller | undefined;
  readonly callId?: string;
  readonly rule: CompiledRule | undefined;
}

/** Events that lead to one another further than this are taken for a loop. */
const DEPTH_LIMIT = 16;

/** How many events have led to the next one. Throws `conflict` when that is too many. */
export function nextDepth(depth: number | undefined, type: string): number {
  const next = (depth ?? 0) + 1;
  if (next <= DEPTH_LIMIT) return next;
  throw new QmError("conflict", `${DEPTH_LIMIT} events have led to one another, and ${type} would be one more`, {
    hint: "A handler or a subscriber causes what it reacts to. Break the circle there.",
  });
}

/** Puts the event of that origin together. Throws as `copyOf` does. */
export function deliveryOf(
  runtime: Runtime,
  { heading, caller, callId }: Origin,
  data: unknown,
  depth: number,
): Delivery {
  const { value, size } = copyOf(data);
  const event: RoutableEvent = Object.freeze({
    id: runtime.newId(),
    source: heading.source,
    type: heading.type,
    data: value,
    at: runtime.now().toISOString(),
    ...(caller === undefined ? {} : { caller: copyOf(caller).value as Caller }),
    ...(callId === undefined ? {} : { callId }),
  });
  return { event, size, depth };
}

export function noteRouted(note: Note, eventId: string, origin: Origin, subscribers: number): void {
  const { heading, caller, callId, rule } = origin;
  const { source, type, actor, isPrivate } = heading;
  const data = {
    source,
    event: type,
    eventId,
    ...(callId === undefined ? {} : { callId }),
    ...(rule === undefined ? {} : { rule: rule.label }),
    ...(rule?.to === undefined ? {} : { to: rule.to }),
    ...(isPrivate && actor !== undefined ? { privateTo: actor } : {}),
    subscribers,
  };
  note(caller, { type: "event.routed", data });
}
