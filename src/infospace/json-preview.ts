import { UNSAFE_CHARACTERS } from "../core/display-text.ts";
import { clip, type Json, type JsonObject } from "../core/json.ts";
import { quoteName } from "../core/names.ts";

/** `whole`: nothing was cut. */
export type FittedJson = Readonly<{ value: Json; whole: boolean }>;
const KEY_LIMIT = 60;
const LISTED_KEYS = 4;
const SAMPLED_ITEMS = 100;
const MAX_NODES = 400;
type FitLimits = Readonly<{ text: number; items: number; keys: number; depth: number }>;

const fitLimits: readonly FitLimits[] = [
  { text: 400, items: 20, keys: 40, depth: 6 },
  { text: 160, items: 5, keys: 24, depth: 4 },
  { text: 80, items: 3, keys: 12, depth: 3 },
  { text: 40, items: 2, keys: 8, depth: 2 },
  { text: 24, items: 1, keys: 4, depth: 1 },
];

/** A field name for display: short, without control or invisible characters, quoted if it had to be changed. */
export function formatKey(key: string): string {
  return key.length <= KEY_LIMIT && key.search(UNSAFE_CHARACTERS) < 0 ? key : quoteName(clip(key, KEY_LIMIT));
}

/** `array of 120 objects {id, title}`. Without sizes the text is the same for similar items. */
export function describeJson(value: Json, sizes: boolean): string {
  if (value === null) return "null";
  if (typeof value === "string") return sizes ? `string of ${value.length} characters` : "string";
  if (isList(value)) {
    const count = sizes ? `${value.length} ` : "";
    return value.length === 0 ? "empty array" : `array of ${count}${describeItems(value)}`;
  }
  if (typeof value === "object") return `object${listKeys(value)}`;
  return typeof value;
}

/** The value in at most `limit` characters of JSON. A text in place of a part says what was cut. */
export function fitJson(value: Json, limit: number): FittedJson {
  if (typeof value === "string") return fitString(value, limit);
  for (const measure of fitLimits) {
    const cutting = { nodes: MAX_NODES, cut: false };
    const shrunk = shrink(value, measure, cutting);
    if (JSON.stringify(shrunk).length <= limit) return { value: shrunk, whole: !cutting.cut };
  }
  return { value: fitString(describeJson(value, true), limit).value, whole: false };
}

function fitString(text: string, limit: number): FittedJson {
  for (let size = Math.min(text.length, Math.max(limit - 2, 0)); ; size = Math.floor(size * 0.7)) {
    const cut = size === 0 ? "" : clip(text, size);
    if (size === 0 || JSON.stringify(cut).length <= limit) return { value: cut, whole: size >= text.length };
  }
}

function shrink(value: Json, measure: FitLimits, cutting: { nodes: number; cut: boolean }): Json {
  cutting.nodes--;
  if (typeof value === "string") {
    if (value.length <= measure.text) return value;
    cutting.cut = true;
    return `${clip(value, measure.text)} (${value.length} characters)`;
  }
  if (typeof value !== "object" || value === null) return value;
  const size = isList(value) ? value.length : Object.keys(value).length;
  if (size > 0 && (measure.depth === 0 || cutting.nodes <= 0)) {
    cutting.cut = true;
    return describeJson(value, true);
  }
  const inner = { ...measure, depth: measure.depth - 1 };
  if (isList(value)) {
    const items = value.slice(0, measure.items).map((item) => shrink(item, inner, cutting));
    if (items.length === size) return items;
    cutting.cut = true;
    return [...items, `… ${size - items.length} more`];
  }
  const entries = Object.keys(value)
    .slice(0, measure.keys)
    .map((key): [string, Json] => {
      const label = formatKey(key);
      if (label !== key) cutting.cut = true;
      return [label, shrink(value[key] ?? null, inner, cutting)];
    });
  if (entries.length < size) {
    cutting.cut = true;
    entries.push(["…", `${size - entries.length} more fields`]);
  }
  return Object.fromEntries(entries);
}

function describeItems(list: readonly Json[]): string {
  const sample = list.slice(0, SAMPLED_ITEMS);
  const [first = null] = sample;
  const kind = getJsonKind(first);
  if (kind === "null" || sample.some((item) => getJsonKind(item) !== kind)) return "values";
  return kind === "object" ? `objects${listKeys(first as JsonObject)}` : `${kind}s`;
}

/** `null`, `boolean`, `number`, `string`, `array` or `object`. */
export function getJsonKind(value: Json): string {
  if (value === null) return "null";
  return isList(value) ? "array" : typeof value;
}

function listKeys(value: JsonObject): string {
  const keys = Object.keys(value);
  const named = keys.slice(0, LISTED_KEYS).map((key) => clip(formatKey(key), 24));
  return ` {${named.join(", ")}${keys.length > LISTED_KEYS ? ", …" : ""}}`;
}

function isFileContent(value: Json): boolean {
  if (getJsonKind(value) !== "object") return false;
  const { media_type, size, base64, ...more } = value as JsonObject;
  const isFile = typeof media_type === "string" && typeof size === "number" && typeof base64 === "string";
  return isFile && Object.keys(more).length === 0;
}

/** The content without the bytes of a file, which no reader can use. */
export function stripFileBytes(value: Json): Json {
  if (!isFileContent(value)) return value;
  const { media_type = null, size = null } = value as JsonObject;
  return { media_type, size };
}

export function isList(value: Json): value is readonly Json[] {
  return Array.isArray(value);
}
