import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import { toOneLine } from "../../core/display-text.ts";
import { QmError } from "../../core/errors.ts";
import { clip, isRecord } from "../../core/json.ts";
import { createLineReader, type DroppedLine } from "../../core/line-reader.ts";

/** The start of a message. Servers differ in which member comes first. */
const OPENING = /\{\s{0,16}"(?:jsonrpc|id|method|params|result|error)"\s{0,16}:/;
/** More messages of a batch are dropped, since a batch is handled in one turn of the event loop. */
const BATCH_LIMIT = 1000;
/** Places tried from either end of a line; each costs one more parse. In a long line only one. */
const OPENINGS_TRIED = 4;
const LONG_LINE = 256 * 1024;

/** The messages on a line, also after other text such as a banner. `noise`: there is other text. Never throws. */
export function readMessages(line: Buffer): { readonly messages: readonly JSONRPCMessage[]; readonly noise: boolean } {
  const text = line.toString("utf8");
  // Most noise is not JSON, and an exception takes ten times as long as this test.
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

export const canHoldMessage = (head: Buffer): boolean => OPENING.test(head.toString("latin1"));

/** An error response for a result that was too long. Undefined if neither end of the line shows the id of a result. */
export function buildDroppedResponse({ head, tail, bytes }: DroppedLine): JSONRPCMessage | undefined {
  const id = `"id"\\s*:\\s*(\\d{1,15}|"[^"\\\\]{0,200}")\\s*`;
  const version = `"jsonrpc"\\s*:\\s*"2\\.0"\\s*`;
  const open = `^\\s*\\{\\s*(?:${version},\\s*)?`;
  const start = head.toString("latin1");
  const found =
    new RegExp(`${open}${id},\\s*(?:${version},\\s*)?"result"`).exec(start) ??
    (new RegExp(`${open}"result"`).test(start)
      ? new RegExp(`,\\s*${id}(?:,\\s*${version})?\\}\\s*$`).exec(tail.toString("latin1"))
      : null);
  if (found?.[1] === undefined) return undefined;
  const message = `The answer was dropped: its ${bytes} bytes are more than may be read.`;
  return { jsonrpc: "2.0", id: JSON.parse(found[1]) as string | number, error: { code: -32603, message } };
}

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

function findOpenings(text: string): readonly number[] {
  const first: number[] = [];
  const last: number[] = [];
  const tried = text.length > LONG_LINE ? 1 : OPENINGS_TRIED;
  for (const { index } of text.matchAll(new RegExp(OPENING, "g"))) {
    if (first.length < tried) first.push(index);
    else if (last.push(index) > tried) last.shift();
  }
  return [...last.reverse(), ...first];
}

interface MessageReaderOptions {
  readonly limit: number;
  readonly onLine?: () => void;
  readonly onMessage: (message: JSONRPCMessage) => void;
  readonly onProblem: (problem: QmError) => void;
}

/** Finds the messages on the stdout of a server. Counts lines with other text as `noise` and keeps a few samples. */
export function createMessageReader({ limit, onLine, onMessage, onProblem }: MessageReaderOptions) {
  let noise = 0;
  const samples: string[] = [];
  const recordNoise = (line: Buffer): void => {
    noise++;
    if (samples.length < 5) samples.push(clip(toOneLine(line.toString("utf8", 0, 400)), 200));
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
      const message = `a line of ${line.bytes} bytes was dropped: at most ${limit} bytes are read`;
      const hint = "Ask the server for less at once.";
      if (line.bytes > limit) onProblem(new QmError("too_large", message, { hint }));
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
