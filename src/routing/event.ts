import type { Caller } from "../core/caller.ts";
import { getErrorMessage, QmError } from "../core/errors.ts";
import type { UnstampedEvent } from "../core/events.ts";
import { isLargerThan } from "../core/json.ts";
import type { Runtime } from "../core/runtime.ts";
import type { CompiledRoute } from "./rules.ts";
import type { EventDelivery, EventHeading } from "./subscribers.ts";

/** What handlers and subscribers are given. Frozen through and through: nobody can change what another sees. */
export interface RoutableEvent {
  readonly id: string;
  /** Where it comes from: `actor:<name>` for calls, a word of the host's own for its events. */
  readonly source: string;
  /** What happened: `tool_call:<action>`, `tool_result:<action>`, or a word of the host's own. */
  readonly type: string;
  /** JSON. Of a result only how it went, never what it was. */
  readonly data: unknown;
  /** ISO 8601, UTC. */
  readonly at: string;
  readonly caller?: Caller;
  /** For events of a call. */
  readonly callId?: string;
}

/** What became of an event of the host's. */
export interface RoutedEvent {
  readonly eventId: string;
  /** The rule that took it. Absent: none did, only subscribers. */
  readonly rule?: string;
  /** The handler it went to. */
  readonly to?: string;
  /** What the handler answered. */
  readonly result?: unknown;
  /** How many were told. */
  readonly subscribers: number;
}

/** The events that calls make. Nobody else may: they would tell of a call that never passed the door. */
export const TOOL_CALL = "tool_call:";
export const TOOL_RESULT = "tool_result:";

const EVENT_WORD_LIMIT = 256;
const DATA_LIMITS = { nodes: 100_000, depth: 100 };
const DATA_CHARS = 4 * 1024 * 1024;

/** Throws `invalid_arguments` for what cannot be an event of the host's. */
export function requireHostEvent(source: string, type: string): void {
  for (const [what, word] of [
    ["source", source],
    ["type", type],
  ] as const) {
    if (typeof word === "string" && word !== "" && word.length <= EVENT_WORD_LIMIT) continue;
    throw new QmError("invalid_arguments", `the ${what} of an event is text of 1 to ${EVENT_WORD_LIMIT} characters`);
  }
  if (!type.startsWith(TOOL_CALL) && !type.startsWith(TOOL_RESULT)) return;
  throw new QmError("invalid_arguments", `only a call makes an event of type ${JSON.stringify(type)}`, {
    hint: "Call the action with invoke(): it is decided on, runs, and its event is routed.",
  });
}

/** A copy of an event's data that nobody can change, and its size in characters. */
interface EventDataCopy {
  readonly value: unknown;
  readonly size: number;
}

/** Copies as JSON does. Throws `invalid_arguments` for what JSON cannot hold and `too_large` for too much of it. */
export function copyEventData(data: unknown): EventDataCopy {
  if (data === undefined) return { value: null, size: 4 };
  try {
    // Before it is written out: a few shared objects can stand for billions.
    if (isLargerThan(data, DATA_LIMITS)) throw tooLargeError();
    const text: string | undefined = JSON.stringify(data);
    if (text === undefined) throw notJsonError(`a ${typeof data} has no JSON form`);
    if (text.length > DATA_CHARS) throw tooLargeError();
    return { value: JSON.parse(text, (_key, value) => Object.freeze(value)), size: text.length };
  } catch (thrown) {
    throw thrown instanceof QmError ? thrown : notJsonError(getErrorMessage(thrown));
  }
}

function notJsonError(problem: string): QmError {
  return new QmError("invalid_arguments", `the data of an event must be JSON: ${problem}`);
}

function tooLargeError(): QmError {
  return new QmError("too_large", "the data of an event is too large, too deep, or holds itself", {
    hint: "Send where it is to be found in place of the data itself.",
  });
}

/** What routing writes down. */
export type RoutingLedgerEvent = UnstampedEvent<"event.routed" | "call.retried">;

/** Writes to the ledger. What it throws fails what was to be written down and has not begun. */
export type RecordRoutingEvent = (caller: Caller | undefined, note: RoutingLedgerEvent) => void;

/** Where an event comes from and which rule took it. */
export interface EventOrigin {
  readonly heading: EventHeading;
  readonly caller: Caller | undefined;
  readonly callId?: string;
  readonly rule: CompiledRoute | undefined;
}

/** Events that lead to one another further than this are taken for a loop. */
const EVENT_DEPTH_LIMIT = 16;

/** How many events have led to the next one. Throws `conflict` when that is too many. */
export function requireNextDepth(depth: number | undefined, type: string): number {
  const next = (depth ?? 0) + 1;
  if (next <= EVENT_DEPTH_LIMIT) return next;
  throw new QmError("conflict", `${EVENT_DEPTH_LIMIT} events have led to one another, and ${type} would be one more`, {
    hint: "A handler or a subscriber causes what it reacts to. Break the circle there.",
  });
}

/** Puts the event of that origin together. Throws as `copyOf` does. */
export function createEventDelivery(
  runtime: Runtime,
  { heading, caller, callId }: EventOrigin,
  data: unknown,
  depth: number,
): EventDelivery {
  const { value, size } = copyEventData(data);
  const event: RoutableEvent = Object.freeze({
    id: runtime.newId(),
    source: heading.source,
    type: heading.type,
    data: value,
    at: runtime.now().toISOString(),
    ...(caller === undefined ? {} : { caller: copyEventData(caller).value as Caller }),
    ...(callId === undefined ? {} : { callId }),
  });
  return { event, size, depth };
}

export function recordRouted(
  note: RecordRoutingEvent,
  eventId: string,
  origin: EventOrigin,
  subscribers: number,
): void {
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
