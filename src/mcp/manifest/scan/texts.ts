import { isRecord } from "../../../core/json.ts";
import type { OfferedTool } from "../offer.ts";

/** One text of a definition that a model may get to read. */
export interface DefinitionText {
  /** A JSON pointer; of a property's name, the one to the property. */
  readonly where: string;
  readonly text: string;
  /** `name`: of the tool or of a property, an identifier rather than prose. */
  readonly role: "name" | "prose";
}

// Beyond these nobody reads. Offers are bounded before; a definition from elsewhere must not be worse.
const TEXTS = 20_000;
const LENGTH = 256 * 1024;

/** Every text of a definition that is pinned: keys and values of its schemas and annotations among them. */
export function textsOf({ name, title, description, inputSchema, outputSchema, annotations }: OfferedTool) {
  const texts: DefinitionText[] = [];
  let left = LENGTH;
  const add = (where: string, text: string, role: DefinitionText["role"]): void => {
    if (texts.length >= TEXTS || left <= 0) return;
    texts.push({ where, text: text.slice(0, left), role });
    left -= text.length;
  };
  add("/name", name, "name");
  const open: { readonly where: string; readonly value: unknown }[] = [];
  for (const [field, value] of Object.entries({ title, description, inputSchema, outputSchema, annotations })) {
    open.push({ where: `/${field}`, value });
  }
  // Without recursion: a schema may be as deep as it likes.
  for (let next = open.pop(); next !== undefined && left > 0; next = open.pop()) {
    const { where, value } = next;
    if (typeof value === "string") add(where, value, "prose");
    else if (Array.isArray(value)) {
      for (const [at, part] of value.entries()) open.push({ where: `${where}/${at}`, value: part });
    } else if (isRecord(value)) {
      for (const [key, part] of Object.entries(value)) {
        const place = `${where}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
        if (!KEYWORDS.has(key)) add(place, key, "name");
        open.push({ where: place, value: part });
      }
    }
  }
  return texts;
}

/** Keys that say nothing: the commonest words of JSON Schema and of annotations. */
const KEYWORDS: ReadonlySet<string> = new Set(
  "type properties required description title items enum default anyOf oneOf allOf format minimum maximum additionalProperties readOnlyHint destructiveHint idempotentHint openWorldHint $schema minLength maxLength examples const pattern $ref $defs minItems maxItems".split(
    " ",
  ),
);
