import { QmError } from "../../core/errors.ts";
import { isRecord, type Json } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import type { ApiParameter } from "./compiled-api.ts";

type Encode = (text: string) => string;

/** Percent-encodes everything but letters, digits and `-._~`. */
export const encodeStrictly: Encode = (text) =>
  encodeURIComponent(Buffer.from(text).toString()).replace(
    /[!'()*]/g,
    (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`,
  );

/** Leaves reserved characters, except those that would begin another parameter or end the query. */
const encodeReserved: Encode = (text) =>
  encodeStrictly(text).replace(/%(?:3A|2F|3F|40|21|24|27|28|29|2A|2C|3B)/g, (code) => decodeURIComponent(code));

export const toText = (value: Json | undefined): string =>
  value === null || value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);

const DOT_SEGMENT = /(?:^|[/\\]|%2f|%5c)(?:\.|%2e){1,2}(?:$|[/\\;?]|%2f|%5c)/i;

/** Whether a path could lead to another one. Servers may decode it once more, so an encoded dot counts as a dot. */
export function hasDotSegment(path: string): boolean {
  try {
    return DOT_SEGMENT.test(path) || DOT_SEGMENT.test(decodeURIComponent(path));
  } catch {
    return true;
  }
}

/** A path parameter in its place. Throws `invalid_arguments` for one that would leave its segment empty or break it. */
export function formatPathParameter({ name, argument, style, explode }: ApiParameter, value: Json): string {
  const texts = (Array.isArray(value) ? value : isRecord(value) ? Object.entries(value).flat() : [value]).map((each) =>
    toText(each as Json),
  );
  const isUnsafe = texts.some((text) => /\p{Cc}/u.test(text));
  if (isUnsafe || texts.join("") === "") {
    const why = isUnsafe ? "has control characters" : "is empty";
    throw new QmError("invalid_arguments", `${argument} (${quoteName(texts.join(","))}) ${why}`, {
      hint: "Give another value.",
    });
  }
  if (style === "json") return encodeStrictly(JSON.stringify(value));
  const key = encodeStrictly(name);
  if (style === "matrix") {
    if (Array.isArray(value) && explode) return value.map((each) => `;${key}=${encodeStrictly(toText(each))}`).join("");
    if (isRecord(value) && explode) return joinPairs(value as JsonFields, encodeStrictly, ";", ";");
    return `;${key}=${joinSimple(value, false, encodeStrictly)}`;
  }
  if (style !== "label") return joinSimple(value, explode, encodeStrictly);
  if (Array.isArray(value)) return `.${value.map((each) => encodeStrictly(toText(each))).join(explode ? "." : ",")}`;
  if (isRecord(value) && explode) return joinPairs(value as JsonFields, encodeStrictly, ".", ".");
  return `.${joinSimple(value, false, encodeStrictly)}`;
}

type JsonFields = Readonly<Record<string, Json>>;

const listPairs = (value: JsonFields, encode: Encode): readonly string[] =>
  Object.entries(value).map(([key, each]) => `${encode(key)}=${encode(toText(each))}`);

const joinPairs = (value: JsonFields, encode: Encode, separator: string, start = ""): string =>
  start + listPairs(value, encode).join(separator);

function joinSimple(value: Json, explode: boolean, encode: Encode): string {
  if (Array.isArray(value)) return value.map((each) => encode(toText(each))).join(",");
  if (!isRecord(value)) return encode(toText(value));
  if (explode) return joinPairs(value as JsonFields, encode, ",");
  return Object.entries(value)
    .map(([key, each]) => `${encode(key)},${encode(toText(each as Json))}`)
    .join(",");
}

type QueryStyle = Pick<ApiParameter, "name" | "style" | "explode" | "allowReserved">;

/** The `name=value` pairs of a query or form field, encoded. */
export function formatQueryParameter(
  { name, style, explode, allowReserved }: QueryStyle,
  value: Json,
): readonly string[] {
  const encode = allowReserved === true ? encodeReserved : encodeStrictly;
  const key = encodeStrictly(name);
  if (style === "json") return [`${key}=${encode(JSON.stringify(value))}`];
  if (typeof value !== "object" || value === null) return [`${key}=${encode(toText(value))}`];
  if (style === "deepObject") return listDeepPairs(name, value, encode);
  if (explode)
    return Array.isArray(value)
      ? value.map((each) => `${key}=${encode(toText(each))}`)
      : listPairs(value as JsonFields, encode);
  const separator = style === "spaceDelimited" ? "%20" : style === "pipeDelimited" ? "%7C" : ",";
  const texts = Array.isArray(value) ? value : Object.entries(value).flat();
  return [`${key}=${texts.map((each) => encode(toText(each as Json))).join(separator)}`];
}

/** Numbered brackets keep the fields of several objects apart. Plain values have empty ones, which every server knows. */
function listDeepPairs(prefix: string, value: Json, encode: Encode): readonly string[] {
  if (typeof value !== "object" || value === null) return [`${encodeStrictly(prefix)}=${encode(toText(value))}`];
  if (Array.isArray(value))
    return value.flatMap((each, index) =>
      listDeepPairs(`${prefix}[${typeof each === "object" ? index : ""}]`, each, encode),
    );
  return Object.entries(value).flatMap(([key, each]) => listDeepPairs(`${prefix}[${key}]`, each, encode));
}

/** The value of a header. Throws `invalid_arguments` for line breaks, which would begin another header. */
export function formatHeaderParameter({ argument, style, explode }: ApiParameter, value: Json): string {
  const text = style === "json" ? JSON.stringify(value) : joinSimple(value, explode, (each) => each);
  if (isHeaderValue(text)) return text;
  throw new QmError("invalid_arguments", `${argument} has characters that a header cannot hold`, {
    hint: "Leave out line breaks and characters outside of Latin-1.",
  });
}

export const isHeaderValue = (text: string): boolean => /^[\t\x20-\x7e\x80-\xff]*$/.test(text);

/** `name=value` pairs of the Cookie header. */
export const formatCookieParameter = (parameter: ApiParameter, value: Json): readonly string[] =>
  formatQueryParameter({ ...parameter, allowReserved: false }, value);
