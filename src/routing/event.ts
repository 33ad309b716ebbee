import type { Caller } from "../core/caller.ts";
import { getErrorMessage, QmError } from "../core/errors.ts";
import type { UnstampedEvent } from "../core/events.ts";
import { isLargerThan } from "../core/json.ts";
import type { Runtime } from "../core/runtime.ts";
import type { CompiledRoute } from "./rules.ts";
import type { EventDelivery, EventHeading } from "./subscribers.ts";

/** An event as handlers and subscribers get it. Deeply frozen, so that one cannot change what another sees. */
export interface RoutableEvent {
  readonly id: string;
  /** `actor:<name>` for calls, a word of the host for its events. */
  readonly source: string;
  /** `tool_call:<action>`, `tool_result:<action>`, or a word of the host. */
  readonly type: string;
  /** JSON. For a result only its status, never the result itself. */
  readonly data: unknown;
  /** ISO 8601, UTC. */
  readonly at: string;
  readonly caller?: Caller;
  readonly callId?: string;
}

export interface RoutedEvent {
  readonly eventId: string;
  readonly rule?: string;
  readonly to?: string;
  readonly result?: unknown;
  readonly subscribers: number;
}

/** Prefixes reserved for calls, so that the host cannot report a call that never passed the pipeline. */
export const TOOL_CALL = "tool_call:";
export const TOOL_RESULT = "tool_result:";
const EVENT_WORD_LIMIT = 256;
const DATA_LIMITS = { nodes: 100_000, depth: 100 };
const DATA_CHARS = 4 * 1024 * 1024;

/** Throws `invalid_arguments` unless it can be an event of the host. */
export function requireHostEvent(source: string, type: string): void {
  for (const [what, word] of Object.entries({ source, type })) {
    if (typeof word === "string" && word !== "" && word.length <= EVENT_WORD_LIMIT) continue;
    throw new QmError("invalid_arguments", `the ${what} of an event is text of 1 to ${EVENT_WORD_LIMIT} characters`);
  }
  if (!type.startsWith(TOOL_CALL) && !type.startsWith(TOOL_RESULT)) return;
  const hint = "Call the action with invoke(): it is decided on, runs, and its event is routed.";
  throw new QmError("invalid_arguments", `only a call makes an event of type ${JSON.stringify(type)}`, { hint });
}

/** A frozen copy, and its size in characters. Throws `invalid_arguments` if it is not JSON, `too_large` if it is too much. */
export function copyEventData(data: unknown): { readonly value: unknown; readonly size: number } {
  if (data === undefined) return { value: null, size: 4 };
  try {
    // Checked before it is serialized: a few shared objects can expand to billions.
    if (isLargerThan(data, DATA_LIMITS)) throw tooLargeError();
    const text: string | undefined = JSON.stringify(data);
    if (text === undefined) throw notJsonError(`a ${typeof data} has no JSON form`);
    if (text.length > DATA_CHARS) throw tooLargeError();
    return { value: JSON.parse(text, (_key, value) => Object.freeze(value)), size: text.length };
  } catch (thrown) {
    throw thrown instanceof QmError ? thrown : notJsonError(getErrorMessage(thrown));
  }
}

const notJsonError = (problem: string): QmError =>
  new QmError("invalid_arguments", `the data of an event must be JSON: ${problem}`);

function tooLargeError(): QmError {
  const hint = "Send a reference to the data instead.";
  return new QmError("too_large", "the data of an event is too large, too deep, or holds itself", { hint });
}

export type RoutingLedgerEvent = UnstampedEvent<"event.routed" | "call.retried">;

/** Writes to the ledger, before the work begins: if it throws, the work does not run. */
export type RecordRoutingEvent = (caller: Caller | undefined, event: RoutingLedgerEvent) => void;

export interface EventOrigin {
  readonly heading: EventHeading;
  readonly caller: Caller | undefined;
  readonly callId?: string;
  readonly rule: CompiledRoute | undefined;
}

/** A longer chain of events that cause one another counts as a loop. */
const EVENT_DEPTH_LIMIT = 16;

/** The depth of the next event. Throws `conflict` past the limit. */
export function requireNextDepth(depth: number | undefined, type: string): number {
  const next = (depth ?? 0) + 1;
  if (next <= EVENT_DEPTH_LIMIT) return next;
  throw new QmError("conflict", `${EVENT_DEPTH_LIMIT} events have caused one another, and ${type} would be one more`, {
    hint: "A handler or a subscriber causes the events it reacts to. Break the loop there.",
  });
}

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
  record: RecordRoutingEvent,
  eventId: string,
  { heading: { source, type, actor, isPrivate }, caller, callId, rule }: EventOrigin,
  subscribers: number,
): void {
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
  record(caller, { type: "event.routed", data });
}
