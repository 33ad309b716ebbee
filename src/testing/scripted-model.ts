import { QmError } from "../core/errors.ts";
import type { ModelRequest } from "../core/model.ts";
import { createTestModel, type PlayedAnswer, type TestModel } from "./language-model.ts";

/** The answers in order, or a function of the request and the number of requests before it. Text alone is an answer, too. */
export type ModelScript =
  | readonly (string | PlayedAnswer)[]
  | ((request: ModelRequest, at: number) => string | PlayedAnswer | Promise<string | PlayedAnswer>);

/**
 * Creates a language model that plays a script: for tests of a program around a model. It is a model of the AI SDK, so it
 * works with `createQuartermaster({ models })`, `generateText`, `streamText` and `startModelServer`.
 *
 * A list is played once. The next request fails. A function can answer each request by what it says, or throw.
 */
export function createScriptedModel(script: ModelScript): TestModel {
  return createTestModel("scripted", async (request, at) => {
    const answer = typeof script === "function" ? await script(request, at) : script[at];
    // An error of our own reaches the envelope as it is: others are taken for a failure of the model's API.
    if (answer === undefined) throw new QmError("model_failed", `the script has no answer for request ${at + 1}`);
    return typeof answer === "string" ? { text: answer } : answer;
  });
}
