import { contentText } from "../core/content.ts";
import type { ActionName } from "../core/names.ts";
import { type Ending, type Outcome, valueText } from "../core/outcome.ts";
import type { CheckedResult } from "./result.ts";

export function doneOutcome(
  { callId, durationMs, valueLimit }: Ending,
  action: ActionName,
  { data, content, forModel, kept }: Pick<CheckedResult, "data" | "content" | "forModel" | "kept">,
): Outcome {
  const ended = { status: "done", callId, durationMs, action, data } as const;
  if (kept !== undefined) {
    const { shown, ...where } = kept;
    const rest = content === undefined ? {} : { content };
    return { ...ended, ...rest, kept: where, forModel: shown, value: valueText(shown, valueLimit) };
  }
  if (forModel !== undefined) return { ...ended, forModel, value: valueText(forModel, valueLimit) };
  if (content === undefined) return { ...ended, value: valueText(data, valueLimit) };
  return { ...ended, content, value: contentText(content.blocks, valueLimit) };
}
