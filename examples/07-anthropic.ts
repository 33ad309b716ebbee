/** The tools for Anthropic's messages. The client here is scripted: one tool call, then an answer. */
import assert from "node:assert/strict";
import { client, messages, model } from "./support/anthropic-client.ts";
import { qm } from "./support/weather.ts";

// #region readme

import { answerAnthropic, toAnthropicTools } from "../src/surface/exports/anthropic.ts";

const surface = await qm.surface({ session: "chat-1" });
const tools = toAnthropicTools(surface);
for (let step = 0; step < 8; step++) {
  const { content } = await client.messages.create({ model, max_tokens: 1024, messages, tools });
  messages.push({ role: "assistant", content });
  const results = await answerAnthropic(surface, content);
  if (results.length === 0) break;
  messages.push({ role: "user", content: results });
}

// #endregion

assert.deepEqual(messages[2]?.content, [
  { type: "tool_result", tool_use_id: "call-1", content: '{"city":"Lisbon","degrees":21}', is_error: false },
]);
assert.deepEqual(messages[3]?.content, [{ type: "text", text: "It is warm." }]);

await qm.close();
