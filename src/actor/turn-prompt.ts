import { createSection, joinSections, type SystemPrompt } from "../surface/system-prompt.ts";

const ANSWERS = createSection("Answers", [
  "Calls that do not need each other's results can be made in one answer.",
  "When you are finished, call respond with the answer.",
]);

/** What the actor's model is told before the conversation: its prompt, with the rules of a turn at the end of the constant part. */
export function buildTurnPrompt({ text, prefix }: Pick<SystemPrompt, "text" | "prefix">): string {
  return joinSections([{ title: "", text: prefix }, ANSWERS]) + text.slice(prefix.length);
}
