import { summaryOf } from "../core/action.ts";
import { clip } from "../core/json.ts";
import { oneLine } from "../core/plain-text.ts";
import type { Found } from "./search.ts";

const QUERY_SHOWN = 120;
const SUMMARY_SHOWN = 100;

/** A shortlist for a prompt, made anew each turn: what of all the caller may use fits what is asked of it now. */
export function renderHints(query: string, { hits }: Found): string {
  if (hits.length === 0) return "";
  const lines = hits.map(({ action }) => `- ${action.name}: ${clip(oneLine(summaryOf(action)), SUMMARY_SHOWN)}`);
  return [`## Actions that may fit ${JSON.stringify(clip(oneLine(query), QUERY_SHOWN))}`, ...lines].join("\n");
}
