import Anthropic from "@anthropic-ai/sdk";
import type { MessageParam } from "@anthropic-ai/sdk/resources/messages";
import { script, scriptedFetch } from "./script.ts";

const call = { type: "tool_use", id: script.callId, name: script.tool, input: script.args };

export const client = new Anthropic({
  apiKey: "none",
  fetch: scriptedFetch(
    [[call], [{ type: "text", text: script.answer }]].map((content) => ({
      type: "message",
      role: "assistant",
      content,
    })),
  ),
});

/** In a real program, any model of the provider. */
export const model = "scripted";

export const messages: MessageParam[] = [{ role: "user", content: script.question }];
