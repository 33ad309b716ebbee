import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import { toOneLine } from "../../core/display-text.ts";
import { QmError } from "../../core/errors.ts";
import { clip, isRecord } from "../../core/json.ts";
import { createLineReader, type DroppedLine } from "../../core/line-reader.ts";

interface ParsedLine {
  readonly messages: readonly JSONRPCMessage[];
  /** Whether there was something on the line that is no message. */
  readonly noise: boolean;
}

/** How a message begins. Servers do not agree on what comes first in it. */
const OPENING = /\{\s{0,16}"(?:jsonrpc|id|method|params|result|error)"\s{0,16}:/;
/** So many messages of a batch are read: they are handled in one turn of the event loop. */
const BATCH_LIMIT = 1000;
/** So many openings are tried from either end of a line: each costs reading it once more. Of a long line, only one. */
const OPENINGS_TRIED = 4;
const LONG_LINE = 256 * 1024;

/**
 * The messages on a line: one, those of a batch, or the one that follows something printed without a line end, such as
 * a banner. Never throws.
 */
export function readMessages(line: Buffer): ParsedLine {
  const text = line.toString("utf8");
  // Most noise is no JSON at all, and finding that out by an exception takes ten times as long.
  const whole = /^\s*[[{]/.test(text) ? parseJson(text) : undefined;
  if (whole !== undefined) {
    const parts = Array.isArray(whole.value) ? whole.value : [whole.value];
    const messages = parts.slice(0, BATCH_LIMIT).filter(isMessage);
    return { messages, noise: messages.length < parts.length || parts.length === 0 };
  }
  for (const opening of findOpenings(text)) {
    const message = parseJson(text.slice(opening))?.value;
    if (isMessage(message)) return { messages: [message], noise: true };
  }
  return { messages: [], noise: true };
}

/** Whether a long line with this beginning may hold a message. */
export function canHoldMessage(head: Buffer): boolean {
  return OPENING.test(head.toString("latin1"));
}

const ID = `(\\d{1,15}|"[^"\\\\]{0,200}")`;
const VERSION = `"jsonrpc"\\s*:\\s*"2\\.0"`;
const ID_FIRST = new RegExp(
  `^\\s*\\{\\s*(?:${VERSION}\\s*,\\s*)?"id"\\s*:\\s*${ID}\\s*,\\s*(?:${VERSION}\\s*,\\s*)?"result"`,
);
const RESULT_FIRST = new RegExp(`^\\s*\\{\\s*(?:${VERSION}\\s*,\\s*)?"result"`);
const ID_LAST = new RegExp(`,\\s*"id"\\s*:\\s*${ID}\\s*(?:,\\s*${VERSION}\\s*)?\\}\\s*$`);

/**
 * What to tell whoever waits for a result that was too long: its id stands at one of its ends. Undefined where the line
 * was no result, or does not show which.
 */
export function buildDroppedResponse({ head, tail, bytes }: DroppedLine): JSONRPCMessage | undefined {
  const start = head.toString("latin1");
  const found = ID_FIRST.exec(start) ?? (RESULT_FIRST.test(start) ? ID_LAST.exec(tail.toString("latin1")) : null);
  if (found?.[1] === undefined) return undefined;
  const message = `The answer was dropped: its ${bytes} bytes are more than may be read.`;
  return { jsonrpc: "2.0", id: JSON.parse(found[1]) as string | number, error: { code: INTERNAL_ERROR, message } };
}

const INTERNAL_ERROR = -32603;

function parseJson(text: string): { readonly value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}

function isMessage(value: unknown): value is JSONRPCMessage {
  if (!isRecord(value) || value.jsonrpc !== "2.0") return false;
  return typeof value.method === "string" || Object.hasOwn(value, "result") || Object.hasOwn(value, "error");
}

/** Where a message may begin: the first few places and the last few. */
function findOpenings(text: string): readonly number[] {
  const first: number[] = [];
  const last: number[] = [];
  const tried = text.length > LONG_LINE ? 1 : OPENINGS_TRIED;
  for (const { index } of text.matchAll(new RegExp(OPENING, "g"))) {
    if (first.length < tried) first.push(index);
    else {
      last.push(index);
      if (last.length > tried) last.shift();
    }
  }
  return [...last.reverse(), ...first];
}

interface MessageReaderOptions {
  readonly limit: number;
  /** Before the messages of each line, and for each line that is none. */
  readonly onLine?: () => void;
  readonly onMessage: (message: JSONRPCMessage) => void;
  /** Something was lost. */
  readonly onProblem: (problem: QmError) => void;
}

/** The messages in what a server writes to its stdout, whatever else it writes there. */
interface MessageReader {
  push(chunk: Buffer): void;
  end(): void;
  /** How many lines were no messages, or not only. */
  readonly noise: number;
  /** The first few of them. */
  readonly samples: readonly string[];
}

const SAMPLES = 5;
const SAMPLE = 200;

export function createMessageReader({ limit, onLine, onMessage, onProblem }: MessageReaderOptions): MessageReader {
  let noise = 0;
  const samples: string[] = [];
  const recordNoise = (line: Buffer): void => {
    noise++;
    if (samples.length < SAMPLES) samples.push(clip(toOneLine(line.toString("utf8", 0, SAMPLE * 2)), SAMPLE));
  };

  const reader = createLineReader({
    limit,
    worthwhile: canHoldMessage,
    onLine(line) {
      onLine?.();
      const { messages, noise } = readMessages(line);
      if (noise) recordNoise(line);
      for (const message of messages) onMessage(message);
    },
    onGivenUp: recordNoise,
    onDropped(line) {
      const refusal = buildDroppedResponse(line);
      if (line.bytes > limit) onProblem(lineTooLongError(line.bytes, limit));
      if (refusal !== undefined) onMessage(refusal);
    },
  });

  return {
    push: reader.push,
    end: reader.end,
    get noise() {
      return noise;
    },
    samples,
  };
}

function lineTooLongError(bytes: number, limit: number): QmError {
  return new QmError("too_large", `a line of ${bytes} bytes was dropped: at most ${limit} bytes are read`, {
    hint: "Ask the server for less at once.",
  });
}
