/** The tools for the AI SDK. The model here is scripted: it calls the weather tool once, then answers. */
import assert from "node:assert/strict";
import { model } from "./support/ai-sdk-model.ts";
import { qm } from "./support/weather.ts";

// #region readme

import { generateText, stepCountIs } from "ai";
import { toAiSdkTools } from "../src/surface/exports/ai-sdk.ts";

const surface = await qm.surface({ session: "chat-1" });
const { text } = await generateText({
  model,
  prompt: "How warm is it in Lisbon?",
  tools: toAiSdkTools(surface),
  stopWhen: stepCountIs(8),
});

// #endregion

assert.equal(text, "It is warm.");
assert.match(JSON.stringify(model.doGenerateCalls[1]?.prompt), /\\"degrees\\":21/);

await qm.close();
