import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import { QmError } from "../../core/errors.ts";
import { clip } from "../../core/json.ts";
import { lineReader } from "../../core/line-reader.ts";
import { oneLine } from "../../core/plain-text.ts";
import { mayHoldMessage, readMessages, refusalOf } from "./message-line.ts";

export interface MessageReaderOptions {
  readonly limit: number;
  /** Before the messages of each line, and for each line that is none. */
  readonly onLine?: () => void;
  readonly onMessage: (message: JSONRPCMessage) => void;
  /** Something was lost. */
  readonly onProblem: (problem: QmError) => void;
}

/** The messages in what a server writes to its stdout, whatever else it writes there. */
export interface MessageReader {
  push(chunk: Buffer): void;
  end(): void;
  /** How many lines were no messages, or not only. */
  readonly noise: number;
  /** The first few of them. */
  readonly samples: readonly string[];
}

const SAMPLES = 5;
const SAMPLE = 200;

export function messageReader({ limit, onLine, onMessage, onProblem }: MessageReaderOptions): MessageReader {
  let noise = 0;
  const samples: string[] = [];
  const heard = (line: Buffer): void => {
    noise++;
    if (samples.length < SAMPLES) samples.push(clip(oneLine(line.toString("utf8", 0, SAMPLE * 2)), SAMPLE));
  };

  const reader = lineReader({
    limit,
    worthwhile: mayHoldMessage,
    onLine(line) {
      onLine?.();
      const { messages, noise } = readMessages(line);
      if (noise) heard(line);
      for (const message of messages) onMessage(message);
    },
    onGivenUp: heard,
    onDropped(line) {
      const refusal = refusalOf(line);
      if (line.bytes > limit) onProblem(tooLong(line.bytes, limit));
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

function tooLong(bytes: number, limit: number): QmError {
  return new QmError("too_large", `a line of ${bytes} bytes was dropped: at most ${limit} bytes are read`, {
    hint: "Ask the server for less at once.",
  });
}
