import { onAbort } from "../core/async.ts";
import type { TextListener } from "../core/model.ts";
import type { AiSdkModel, GeneratedAnswer } from "./ai-sdk-model.ts";
import { AnswerStreamError } from "./model-failure.ts";

type AnswerStream = Awaited<ReturnType<AiSdkModel["doStream"]>>["stream"];
type Writable<T> = { -readonly [Key in keyof T]: T[Key] };
type OpenPart = Writable<Extract<GeneratedAnswer["content"][number], { type: "text" | "reasoning" }>>;

interface StreamListeners {
  readonly onText: TextListener;
  /** Called for each part of the stream, also for those without text. */
  readonly onPart: () => void;
}

/**
 * Reads a stream to its end and returns the answer that the model would have given without a stream. Rejects if the stream
 * reports an error or ends early. In any case, the stream is not read further, which ends its HTTP request.
 */
export async function collectStream(
  stream: AnswerStream,
  signal: AbortSignal,
  { onText, onPart }: StreamListeners,
): Promise<Pick<GeneratedAnswer, "content" | "finishReason" | "usage">> {
  const reader = stream.getReader();
  const cancel = () => void reader.cancel().catch(() => {});
  const stopListening = onAbort(signal, cancel);
  const content: GeneratedAnswer["content"] = [];
  const open = new Map<string, OpenPart>();
  try {
    for (;;) {
      const { done, value: part } = await reader.read();
      if (done) throw new AnswerStreamError();
      onPart();
      switch (part.type) {
        case "text-start":
        case "reasoning-start": {
          const started: OpenPart = { type: part.type === "text-start" ? "text" : "reasoning", text: "" };
          addMetadata(started, part);
          open.set(part.id, started);
          content.push(started);
          break;
        }
        case "text-delta":
        case "reasoning-delta": {
          const started = open.get(part.id);
          if (started === undefined) throw new AnswerStreamError();
          started.text += part.delta;
          addMetadata(started, part);
          if (started.type === "text" && part.delta !== "") onText(part.delta);
          break;
        }
        case "text-end":
        case "reasoning-end":
          addMetadata(open.get(part.id), part);
          break;
        case "tool-call":
          content.push(part);
          break;
        case "error":
          throw toStreamError(part.error);
        case "finish":
          return { content, finishReason: part.finishReason, usage: part.usage };
      }
    }
  } finally {
    stopListening();
    cancel();
  }
}

/** A signature of reasoning comes with a later part than its text. */
function addMetadata(part: OpenPart | undefined, { providerMetadata }: Pick<OpenPart, "providerMetadata">): void {
  if (part !== undefined && providerMetadata !== undefined) part.providerMetadata = providerMetadata;
}

/** The package for OpenAI's API reports a missing end as an error with this name. */
function toStreamError(reported: unknown): Error {
  if (!(reported instanceof Error)) return new AnswerStreamError(reported);
  return reported.name === "AI_InvalidResponseDataError" ? new AnswerStreamError() : reported;
}
