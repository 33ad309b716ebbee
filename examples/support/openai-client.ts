import OpenAI from "openai";
import type { ChatCompletionMessageParam } from "openai/resources/chat/completions";
import { script, scriptedFetch } from "./script.ts";

const call = {
  id: script.callId,
  type: "function",
  function: { name: script.tool, arguments: JSON.stringify(script.args) },
};

export const client = new OpenAI({
  apiKey: "none",
  fetch: scriptedFetch(
    [{ content: null, tool_calls: [call] }, { content: script.answer }].map((message) => ({
      choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", ...message } }],
    })),
  ),
});

/** In a real program, any model of the provider. */
export const model = "scripted";

export const messages: ChatCompletionMessageParam[] = [{ role: "user", content: script.question }];
