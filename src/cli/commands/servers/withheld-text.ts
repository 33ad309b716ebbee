import { getOwn } from "../../../core/json.ts";
import type { SignKind } from "../../../mcp/manifest/scan/sign.ts";

/** What was found in a definition, for a person. */
export const signText: Readonly<Record<SignKind, string>> = {
  hidden_characters: "it holds characters that nobody sees",
  disguised_letters: "it holds letters that look like others",
  instructions: "it gives orders to the model",
  concealment: "it says that you are not to know something",
  prompt_imitation: "it imitates the marks that prompts are built with",
  exfiltration: "it wants data to be sent somewhere",
  secrets: "it asks for keys, passwords or the files they are in",
  encoded_text: "it holds text that must be decoded to be read",
  hidden_tail: "it holds text so far away that nobody scrolls there",
  other_tools: "it says what to do with tools of others",
  shadowing: "its name can be taken for another's",
};

const changes = {
  changed: "its definition has changed since it was accepted",
  new: "it was not there when the server was accepted",
  duplicate: "the server offers several tools of this name, and nobody can tell which a call would reach",
};

/** Why a definition is withheld, for a person. */
export function reasonText(reason: string): string {
  return getOwn<string>({ ...changes, ...signText }, reason) ?? reason;
}
