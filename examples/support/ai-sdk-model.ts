import { MockLanguageModelV3 } from "ai/test";
import { script } from "./script.ts";

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
};

export const model = new MockLanguageModelV3({
  doGenerate: [
    {
      content: [
        {
          type: "tool-call",
          toolCallId: script.callId,
          toolName: script.tool,
          input: JSON.stringify(script.args),
        },
      ],
      finishReason: { unified: "tool-calls", raw: undefined },
      usage,
      warnings: [],
    },
    {
      content: [{ type: "text", text: script.answer }],
      finishReason: { unified: "stop", raw: undefined },
      usage,
      warnings: [],
    },
  ],
});
