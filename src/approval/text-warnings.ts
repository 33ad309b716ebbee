import { listCharacterWarnings } from "../core/display-text.ts";
import { isRecord, type Json } from "../core/json.ts";

/** A caller may write text like a mask, so that a harmless secret seems to be there. */
const LIKE_A_MASK = /\[\s*(?:secret|redacted)\b/i;

/** `masked`: what is shown of `exact`. */
export function listWarnings(exact: Json, masked: Json): readonly string[] {
  const warnings = listCharacterWarnings(collectText(masked));
  if (!LIKE_A_MASK.test(collectText(exact))) return warnings;
  return [...warnings, "contains text that looks like a masked secret but is not one"];
}

function collectText(value: Json): string {
  const texts: string[] = [];
  const collect = (part: Json): void => {
    if (typeof part === "string") texts.push(part);
    else if (Array.isArray(part)) part.forEach(collect);
    else if (isRecord(part)) for (const [key, inner] of Object.entries(part)) [key, inner as Json].forEach(collect);
  };
  collect(value);
  return texts.join("\n");
}
