import type { ChosenEmbedder } from "./embedder.ts";
import { createLocalMiniEmbedder, type LocalMiniChoice, type ModuleLoader } from "./local-mini.ts";
import { createOpenAiEmbedder, type EndpointChoice } from "./openai-compatible.ts";

/** An OpenAI-compatible endpoint with a small, medium or large model, a small model in this process, or none. */
export type EmbedderChoice = EndpointChoice | LocalMiniChoice | { readonly class: "null" };

/** Makes no request and loads no model. That happens when the first text is embedded. */
export function createEmbedder(choice: EmbedderChoice, modules?: ModuleLoader): ChosenEmbedder {
  if (choice.class === "null") return { off: true };
  return choice.class === "local-mini" ? createLocalMiniEmbedder(choice, modules) : createOpenAiEmbedder(choice);
}
