/** The tools for LangChain. The model here is scripted: it calls the weather tool once, then answers. */
import assert from "node:assert/strict";
import { model } from "./support/langchain-model.ts";
import { qm } from "./support/weather.ts";

// #region readme

import { createAgent } from "langchain";
import { toLangChainTools } from "../src/surface/exports/langchain.ts";

const surface = await qm.surface({ session: "chat-1" });
const agent = createAgent({ model, tools: toLangChainTools(surface) });
const { messages } = await agent.invoke({ messages: [{ role: "user", content: "How warm is it in Lisbon?" }] });

// #endregion

assert.equal(messages.at(-2)?.text, '{"city":"Lisbon","degrees":21}');
assert.equal(messages.at(-1)?.text, "It is warm.");

await qm.close();
