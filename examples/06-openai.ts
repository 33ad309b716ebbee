/** The tools for OpenAI's chat completions. The client here is scripted: one tool call, then an answer. */
import assert from "node:assert/strict";
import { client, messages, model } from "./support/openai-client.ts";
import { qm } from "./support/weather.ts";

// #region readme

import { answerOpenAiChat, toOpenAiChatTools } from "../src/surface/exports/openai.ts";

const surface = await qm.surface({ session: "chat-1" });
const tools = toOpenAiChatTools(surface);
for (let step = 0; step < 8; step++) {
  const { choices } = await client.chat.completions.create({ model, messages, tools });
  const message = choices[0]?.message;
  if (message === undefined) break;
  messages.push(message, ...(await answerOpenAiChat(surface, message.tool_calls)));
  if (!message.tool_calls?.length) break;
}

// #endregion

const [, , answer, last] = messages;
assert.equal(answer?.role, "tool");
assert.equal(answer.content, '{"city":"Lisbon","degrees":21}');
assert.equal(last?.content, "It is warm.");

await qm.close();
