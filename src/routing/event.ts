import type { Caller } from "../core/caller.ts";
import { messageOf, QmError } from "../core/errors.ts";
import { outgrows } from "../core/json.ts";

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

const WORD_LIMIT = 256;
const DATA_LIMITS = { nodes: 100_000, depth: 100 };
const DATA_CHARS = 4 * 1024 * 1024;

/** Throws `invalid_arguments` for what cannot be an event of the host's. */
export function requireEvent(source: string, type: string): void {
  for (const [what, word] of [
    ["source", source],
    ["type", type],
  ] as const) {
    if (typeof word === "string" && word !== "" && word.length <= WORD_LIMIT) continue;
    throw new QmError("invalid_arguments", `the ${what} of an event is text of 1 to ${WORD_LIMIT} characters`);
  }
  if (!type.startsWith(TOOL_CALL) && !type.startsWith(TOOL_RESULT)) return;
  throw new QmError("invalid_arguments", `only a call makes an event of type ${JSON.stringify(type)}`, {
    hint: "Call the action with invoke(): it is decided on, runs, and its event is routed.",
  });
}

/** A copy of an event's data that nobody can change, and its size in characters. */
export interface CopiedData {
  readonly value: unknown;
  readonly size: number;
}

/** Copies as JSON does. Throws `invalid_arguments` for what JSON cannot hold and `too_large` for too much of it. */
export function copyOf(data: unknown): CopiedData {
  if (data === undefined) return { value: null, size: 4 };
  try {
    // Before it is written out: a few shared objects can stand for billions.
    if (outgrows(data, DATA_LIMITS)) throw tooLarge();
    const text: string | undefined = JSON.stringify(data);
    if (text === undefined) throw notJson(`a ${typeof data} has no JSON form`);
    if (text.length > DATA_CHARS) throw tooLarge();
    return { value: JSON.parse(text, (_key, value) => Object.freeze(value)), size: text.length };
  } catch (thrown) {
    throw thrown instanceof QmError ? thrown : notJson(messageOf(thrown));
  }
}

function notJson(problem: string): QmError {
  return new QmError("invalid_arguments", `the data of an event must be JSON: ${problem}`);
}

function tooLarge(): QmError {
  return new QmError("too_large", "the data of an event is too large, too deep, or holds itself", {
    hint: "Send where it is to be found in place of the data itself.",
  });
}
