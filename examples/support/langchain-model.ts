import { AIMessage } from "@langchain/core/messages";
import { FakeBuiltModel } from "@langchain/core/testing";
import { script } from "./script.ts";

export const model = new FakeBuiltModel()
  .respond(
    new AIMessage({
      content: "",
      tool_calls: [{ type: "tool_call", id: script.callId, name: script.tool, args: script.args }],
    }),
  )
  .respond(new AIMessage(script.answer));
