import type { ActorSettings } from "../policy/actors.ts";

const RULES = `Use the tools to do what the user asks. Calls that do not need each other's results can be made in one answer.
A result that says an error tells you what to do next. Do not invent results.
When you are finished, call respond with the answer.`;

/** What the actor's model is told before the conversation. */
export function buildSystemPrompt({ instructions }: ActorSettings): string {
  return instructions === undefined ? RULES : `${instructions.trim()}\n\n${RULES}`;
}
