import {
  type GetPromptResult,
  type InputRequiredResult,
  inputRequired,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { PIXEL } from "./fixture-media.ts";
import { allAnswered, form } from "./fixture-questions.ts";

type Content = GetPromptResult["messages"][number]["content"];

export interface FixturePrompt {
  readonly name: string;
  readonly description: string;
  readonly arguments?: readonly { readonly name: string; readonly description: string; readonly required: boolean }[];
  get(args: Readonly<Record<string, string>>, ctx: ServerContext): GetPromptResult | InputRequiredResult;
}

const says = (...contents: readonly Content[]): GetPromptResult => ({
  messages: contents.map((content) => ({ role: "user", content })),
});
const needs = (...names: readonly string[]) =>
  names.map((name) => ({ name, description: `The ${name}.`, required: true }));

export const fixturePrompts: readonly FixturePrompt[] = [
  {
    name: "test_simple_prompt",
    description: "One line.",
    get: () => says({ type: "text", text: "A plain prompt." }),
  },
  {
    name: "test_prompt_with_arguments",
    description: "Says its arguments.",
    arguments: needs("arg1", "arg2"),
    get: ({ arg1, arg2 }) => says({ type: "text", text: `First ${arg1}, then ${arg2}.` }),
  },
  {
    name: "test_prompt_with_embedded_resource",
    description: "Has a resource inside.",
    arguments: needs("resourceUri"),
    get: ({ resourceUri = "" }) =>
      says(
        { type: "resource", resource: { uri: resourceUri, mimeType: "text/plain", text: "Inside." } },
        { type: "text", text: "Read that." },
      ),
  },
  {
    name: "test_prompt_with_image",
    description: "Has a picture inside.",
    get: () => says({ type: "image", data: PIXEL, mimeType: "image/png" }, { type: "text", text: "Look at that." }),
  },
  {
    name: "test_input_required_result_prompt",
    description: "Asks before it answers.",
    get(_args, { mcpReq: { inputResponses } }) {
      const questions = { user_context: form("In which context?", { context: { type: "string" } }) };
      if (!allAnswered(questions, inputResponses)) return inputRequired({ inputRequests: questions });
      return says({ type: "text", text: `In this context: ${JSON.stringify(inputResponses)}` });
    },
  },
];
