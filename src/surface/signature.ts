import type { Action, JsonSchema } from "../core/action.ts";
import { toOneLine } from "../core/display-text.ts";
import { clip, getOwn, isRecord, type Json } from "../core/json.ts";

const UNION_LIMIT = 4;
const WORD_LIMIT = 24;
/** Longer than real names: a cut name cannot be passed. */
const NAME_LIMIT = 64;

/** The parameters on one line, all required ones first: `(path: string, limit?: integer, +2)`. The rest is counted. */
export function formatSignature(
  { inputSchema }: Pick<Action, "inputSchema">,
  optional = 8,
  required = Infinity,
): string {
  const properties = asObject(getOwn(inputSchema, "properties"));
  const listed = getOwn(inputSchema, "required");
  const needed = Array.isArray(listed) ? [...new Set(listed.filter((name) => typeof name === "string"))] : [];
  const others = Object.keys(properties).filter((name) => !needed.includes(name));
  const format = (mark: string) => (name: string) =>
    `${clip(toOneLine(name), NAME_LIMIT)}${mark}: ${formatType(getOwn(properties, name) ?? {})}`;
  const shown = [...needed.slice(0, required).map(format("")), ...others.slice(0, optional).map(format("?"))];
  return `(${joinCounted(shown, needed.length + others.length)})`;
}

const joinCounted = (shown: readonly string[], total: number): string =>
  [...shown, ...(total > shown.length ? [`+${total - shown.length}`] : [])].join(", ");

function formatType(schema: Json, depth = 0): string {
  const { type, enum: values, const: only, items, anyOf, oneOf } = asObject(schema);
  if (only !== undefined) return formatLiteral(only);
  if (Array.isArray(values)) return formatUnion(values.map(formatLiteral));
  const either = anyOf ?? oneOf;
  if (Array.isArray(either) && depth < 2) return formatUnion(either.map((each) => formatType(each, depth + 1)));
  if (type === "array" && depth < 2) {
    const item = items === undefined ? "any" : formatType(items, depth + 1);
    return item.includes("|") ? `(${item})[]` : `${item}[]`;
  }
  if (type === "object" && depth < 2) return formatShape(asObject(schema));
  if (Array.isArray(type)) return formatUnion(type.map((each) => clipWord(String(each))));
  return typeof type === "string" ? clipWord(type) : "any";
}

/** `{start, end, +2}` */
function formatShape(schema: JsonSchema): string {
  const names = Object.keys(asObject(getOwn(schema, "properties"))).map(clipWord);
  return names.length === 0 ? "object" : `{${joinCounted(names.slice(0, UNION_LIMIT), names.length)}}`;
}

function formatUnion(members: readonly string[]): string {
  const different = [...new Set(members)];
  const shown = different.slice(0, UNION_LIMIT).join("|");
  return different.length > UNION_LIMIT ? `${shown}|…` : shown || "any";
}

/** One line, because text from a foreign schema must not look like a line of the answer. */
const clipWord = (text: string): string => clip(toOneLine(text), WORD_LIMIT);
const formatLiteral = (value: Json): string => clipWord(JSON.stringify(value));
const asObject = (value: Json | undefined): JsonSchema => (isRecord(value) ? (value as JsonSchema) : {});
