import type { Json } from "../core/json.ts";
import type { AnnotatedRecord } from "./annotated-record.ts";
import type { FieldPath } from "./field-path.ts";
import { jsonTextOf } from "./json-text.ts";
import { rulesFor } from "./rules.ts";
import { ABSENT, cut, type Treat } from "./view.ts";

export interface MissingValue {
  readonly path: FieldPath;
  readonly value: Json;
}

/**
 * The `validated` values of a record that a text does not have word for word: texts as they are, everything else as JSON,
 * a number not as a part of another. Throws `invalid_output` for a record that is not JSON.
 */
export function validatedIn(text: string, annotated: AnnotatedRecord<unknown>): readonly MissingValue[] {
  const missing: MissingValue[] = [];
  const check: Treat = ({ path, treatment }, inner) => {
    if (treatment !== "validated") return ABSENT;
    const shown = inner(check);
    if (!isIn(text, shown)) missing.push({ path, value: shown });
    return shown;
  };
  cut(JSON.parse(jsonTextOf(annotated.record)) as Json, rulesFor("llm-session", annotated.annotations), check);
  return missing;
}

function isIn(text: string, value: Json): boolean {
  if (typeof value === "string") return text.includes(value);
  const written = JSON.stringify(value);
  if (typeof value !== "number") return text.includes(written);
  for (let at = text.indexOf(written); at >= 0; at = text.indexOf(written, at + 1)) {
    const isWhole = !/[\d.,-]$/.test(text.slice(0, at).slice(-1)) && !/^[.,]?\d/.test(text.slice(at + written.length));
    if (isWhole) return true;
  }
  return false;
}
