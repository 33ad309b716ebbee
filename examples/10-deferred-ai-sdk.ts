/** The deferred surface with the AI SDK: a tool that was found is available from the next step on. */
import assert from "node:assert/strict";
import { MockLanguageModelV3 } from "ai/test";
import { z } from "zod";
import { createQuartermaster } from "../src/index.ts";

const qm = await createQuartermaster({ surface: { kind: "deferred", selection: "promote" } });
qm.register({
  name: "weather",
  description: "Tell today's weather in a city.",
  inputSchema: z.object({ city: z.string() }),
  effect: "read",
  scope: "generalist",
  handler: ({ city }) => ({ city, degrees: 21 }),
});

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
};
const calling = (toolName: string, args: object) => ({
  content: [{ type: "tool-call" as const, toolCallId: toolName, toolName, input: JSON.stringify(args) }],
  finishReason: { unified: "tool-calls" as const, raw: undefined },
  usage,
  warnings: [],
});
const model = new MockLanguageModelV3({
  doGenerate: [
    calling("tool_search", { query: "weather" }),
    calling("tool_get", { names: ["tool__weather"] }),
    calling("tool__weather", { city: "Lisbon" }),
    {
      content: [{ type: "text", text: "It is warm." }],
      finishReason: { unified: "stop", raw: undefined },
      usage,
      warnings: [],
    },
  ],
});

// #region deferred

import { generateText, stepCountIs } from "ai";
import { toAiSdkTools } from "../src/surface/exports/ai-sdk.ts";

const surface = await qm.surface({ session: "chat-1" });
const tools = toAiSdkTools(surface);
const { text } = await generateText({
  model,
  prompt: "How warm is it in Lisbon?",
  tools,
  stopWhen: stepCountIs(8),
  prepareStep: () => {
    Object.assign(tools, toAiSdkTools(surface)); // the tools found since the last step
    return {};
  },
});

// #endregion

assert.equal(text, "It is warm.");
assert.deepEqual(
  model.doGenerateCalls.map(({ tools: shown = [] }) => shown.map(({ name }) => name)),
  [
    ["tool_get", "tool_search"],
    ["tool_get", "tool_search"],
    ["tool_get", "tool_search", "tool__weather"],
    ["tool_get", "tool_search", "tool__weather"],
  ],
);
assert.match(JSON.stringify(model.doGenerateCalls[3]?.prompt), /\\"degrees\\":21/);

await qm.close();
