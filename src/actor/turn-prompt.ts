import type { Caller } from "../core/caller.ts";
import { createSection } from "../surface/system-prompt.ts";
import type { ActorServices } from "./actor-services.ts";

const ANSWERING = createSection("Answering", [
  "When you are finished, call respond with the answer. Calls beside it are run first.",
  "Calls that do not need each other's results can be made in one answer.",
]).text;

/** Builds the system prompt of a turn. Answers it with the tool that a weak model must call first. */
export async function buildSystemPrompt(services: Pick<ActorServices, "buildPrompt">, caller: Caller, message: string) {
  const { text, prefix, firstTool } = await services.buildPrompt(caller, message);
  // The parts that change from turn to turn stay at the end, so that the beginning can be cached.
  return { system: `${prefix}\n\n${ANSWERING}${text.slice(prefix.length)}`, firstTool };
}
