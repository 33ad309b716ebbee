import { messageOf } from "../../core/errors.ts";
import { clip, type Json } from "../../core/json.ts";
import { isList } from "../content.ts";
import { type Path, valueAt, withValueAt } from "../path.ts";
import { createReasons, type Derived, type Inputs, type Reason } from "./derived.ts";

export const coercions = ["string", "text", "int", "float", "bool", "json", "list"] as const;

/**
 * `string`: a text as it is, everything else as its JSON; `text`: to be read, a list line by line, an object as
 * `name: value` lines; `int`, `float`, `bool`: what a text says, and only where it says just that; `json`: what a text is
 * the JSON of; `list`: a text taken apart at the delimiter, everything else as the only item.
 */
export type Coercion = (typeof coercions)[number];

/** What becomes of a value that cannot be made into it: its item goes, stays as it is, or has null in its place. */
export const whenFailing = ["drop", "keep", "null"] as const;

export interface Coercing {
  readonly to: Coercion;
  /** What is coerced; the rest of the item stays as it is. */
  readonly path: Path;
  readonly delimiter: string;
  readonly failing: (typeof whenFailing)[number];
}

export type Coerced = {
  readonly input: number;
  readonly dropped: number;
  readonly failed: number;
  readonly reasons: readonly Reason[];
};

export function coerce(inputs: Inputs, { to, path, delimiter, failing }: Coercing): Derived<Coerced> {
  const reasons = createReasons();
  let input = 0;
  let failed = 0;
  let dropped = 0;

  async function* items() {
    for await (const { content } of inputs) {
      const position = input++;
      const found = valueAt(content, path);
      const made = found.found ? coerced(found.value, to, delimiter) : { reason: found.missing };
      if ("value" in made) {
        yield { content: withValueAt(content, path, made.value) };
        continue;
      }
      failed++;
      reasons.add(position, made.reason);
      if (failing === "keep" || (failing === "null" && !found.found)) yield { content };
      else if (failing === "null") yield { content: withValueAt(content, path, null) };
      else dropped++;
    }
  }

  return { items: items(), report: () => ({ input, dropped, failed, reasons: reasons.first() }) };
}

type Made = { readonly value: Json } | { readonly reason: string };

const TRUE = new Set(["true", "1", "yes", "on"]);
const FALSE = new Set(["false", "0", "no", "off"]);
const NUMBER = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/;

function coerced(value: Json, to: Coercion, delimiter: string): Made {
  switch (to) {
    case "string":
      return { value: typeof value === "string" ? value : JSON.stringify(value) };
    case "text":
      return { value: readable(value) };
    case "int":
      return whole(number(value));
    case "float":
      return number(value);
    case "bool":
      return truth(value);
    case "json":
      return typeof value === "string" ? parsed(value) : { value };
    case "list":
      return { value: listOf(value, delimiter) };
  }
}

function number(value: Json): Made {
  if (typeof value === "number") return { value };
  if (typeof value === "boolean") return { value: value ? 1 : 0 };
  const text = typeof value === "string" ? value.trim() : "";
  const read = NUMBER.test(text) ? Number(text) : Number.NaN;
  return Number.isFinite(read) ? { value: read } : { reason: `${told(value)} is not a number` };
}

/** What would be lost is not cut off. */
function whole(made: Made): Made {
  if (!("value" in made)) return made;
  return Number.isSafeInteger(made.value) ? made : { reason: `${told(made.value)} is not a whole number that fits` };
}

function truth(value: Json): Made {
  if (typeof value === "boolean") return { value };
  const text = typeof value === "number" || typeof value === "string" ? String(value).trim().toLowerCase() : "";
  if (TRUE.has(text)) return { value: true };
  return FALSE.has(text) ? { value: false } : { reason: `${told(value)} is neither true nor false` };
}

function parsed(text: string): Made {
  try {
    return { value: JSON.parse(text) as Json };
  } catch (thrown) {
    return { reason: `it is not JSON: ${messageOf(thrown)}` };
  }
}

function listOf(value: Json, delimiter: string): readonly Json[] {
  if (isList(value)) return value;
  if (typeof value !== "string") return [value];
  return value.trim() === "" ? [] : value.split(delimiter).map((part) => part.trim());
}

/** A value as text that is read by people and models. */
export function readable(value: Json): string {
  if (typeof value === "string") return value;
  if (isList(value)) return value.map(inLine).join("\n");
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  return Object.entries(value)
    .map(([name, part]) => `${name}: ${inLine(part)}`)
    .join("\n");
}

function inLine(value: Json): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function told(value: Json): string {
  if (typeof value === "object" && value !== null) return isList(value) ? "a list" : "an object";
  return clip(JSON.stringify(value), 60);
}
