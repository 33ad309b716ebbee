import type { ChosenEmbedder } from "./embedder.ts";
import { type LocalMiniChoice, localMini, type Modules } from "./local-mini.ts";
import { type EndpointChoice, openAiCompatible } from "./openai-compatible.ts";

/**
 * - `light`, `standard`, `strong`: an endpoint that speaks as OpenAI's does, with a small, usual or large model
 * - `local-mini`: a small model in this process
 * - `null`: none
 */
export type EmbedderChoice = EndpointChoice | LocalMiniChoice | { readonly class: "null" };

/** Looks at no network and loads no model: that happens when the first text is embedded. */
export function createEmbedder(choice: EmbedderChoice, modules?: Modules): ChosenEmbedder {
  switch (choice.class) {
    case "light":
    case "standard":
    case "strong":
      return openAiCompatible(choice);
    case "local-mini":
      return localMini(choice, modules);
    case "null":
      return { off: true };
  }
}
