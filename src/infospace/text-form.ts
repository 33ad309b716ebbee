import type { Json } from "../core/json.ts";
import { jsonLinesOf } from "./json-lines.ts";

/** What a text is: one JSON value, JSON lines, or just text. */
export type TextForm =
  | { readonly form: "json"; readonly value: Json }
  | { readonly form: "lines" }
  | { readonly form: "text" };

const TEXT: TextForm = { form: "text" };

/** A number that is not the same any more once it was read. */
const LONG_NUMBER = /\d{16}/;

/**
 * Only a list or an object is more than a text, and of JSON lines every line must be one. What would not come out as it went
 * in stays a text: numbers with more digits than a number can hold are somebody's ids.
 */
export function textForm(text: string): TextForm {
  const start = /\S/.exec(text)?.[0];
  if (start !== "{" && start !== "[") return TEXT;
  if (areLines(text)) return { form: "lines" };
  try {
    const value = JSON.parse(text) as Json;
    return LONG_NUMBER.test(text) && losesDigits(value) ? TEXT : { form: "json", value };
  } catch {
    return TEXT;
  }
}

/** Looks at every line before one of them is kept: a line that is none makes all of it a text. */
function areLines(text: string): boolean {
  const end = text.indexOf("\n");
  if (end < 0 || text.slice(end).trim() === "") return false;
  const checksDigits = LONG_NUMBER.test(text);
  const { values, counts } = jsonLinesOf(text);
  try {
    for (const value of values) {
      if (typeof value !== "object" || value === null || (checksDigits && losesDigits(value))) return false;
    }
    return counts.values > 1;
  } catch {
    return false;
  }
}

function losesDigits(value: Json): boolean {
  if (typeof value === "number") return Number.isInteger(value) && !Number.isSafeInteger(value);
  return typeof value === "object" && value !== null && Object.values(value).some(losesDigits);
}
