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

const toText = (value: Json | undefined): string =>
  value === null || value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);

/** A path parameter in its place. Throws `invalid_arguments` for a value that could lead to another path. */
export function formatPathParameter({ name, argument, style, explode }: ApiParameter, value: Json): string {
  const texts = Array.isArray(value)
    ? value.map(toText)
    : isRecord(value)
      ? Object.entries(value)
          .flat()
          .map((each) => toText(each as Json))
      : [toText(value)];
  const isUnsafe = texts.some((text) => /(?:^|[/\\])\.{1,2}(?:$|[/\\])/.test(text) || /[\p{Cc}]/u.test(text));
  if (isUnsafe || texts.length === 0 || texts.join("") === "") {
    const why = isUnsafe ? "could lead to another path" : "is empty";
    throw new QmError("invalid_arguments", `${argument} (${quoteName(texts.join(","))}) ${why}`, {
      hint: "Give another value.",
    });
  }
  if (style === "json") return encodeStrictly(JSON.stringify(value));
  const key = encodeStrictly(name);
  if (style === "matrix") {
    if (Array.isArray(value) && explode) return value.map((each) => `;${key}=${encodeStrictly(toText(each))}`).join("");
    if (isRecord(value) && explode)
      return joinPairs(value as Record<string, Json>, encodeStrictly)
        .map((pair) => `;${pair}`)
        .join("");
    return `;${key}=${joinSimple(value, false, encodeStrictly)}`;
  }
  if (style === "label") {
    const separator = explode ? "." : ",";
    if (Array.isArray(value)) return `.${value.map((each) => encodeStrictly(toText(each))).join(separator)}`;
    if (isRecord(value) && explode) return `.${joinPairs(value as Record<string, Json>, encodeStrictly).join(".")}`;
    return `.${joinSimple(value, false, encodeStrictly)}`;
  }
  return joinSimple(value, explode, encodeStrictly);
}

const joinPairs = (value: Readonly<Record<string, Json>>, encode: Encode): readonly string[] =>
  Object.entries(value).map(([key, each]) => `${encode(key)}=${encode(toText(each))}`);

function joinSimple(value: Json, explode: boolean, encode: Encode): string {
  if (Array.isArray(value)) return value.map((each) => encode(toText(each))).join(",");
  if (!isRecord(value)) return encode(toText(value));
  const record = value as Record<string, Json>;
  if (explode) return joinPairs(record, encode).join(",");
  return Object.entries(record)
    .map(([key, each]) => `${encode(key)},${encode(toText(each))}`)
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
  if (Array.isArray(value)) {
    if (explode && style !== "deepObject") return value.map((each) => `${key}=${encode(toText(each))}`);
    if (style === "deepObject")
      return value.map((each, index) => `${key}${encodeStrictly(`[${index}]`)}=${encode(toText(each))}`);
    const separator = style === "spaceDelimited" ? "%20" : style === "pipeDelimited" ? "%7C" : ",";
    return [`${key}=${value.map((each) => encode(toText(each))).join(separator)}`];
  }
  if (!isRecord(value)) return [`${key}=${encode(toText(value))}`];
  const record = value as Record<string, Json>;
  if (style === "deepObject") return listDeepPairs(name, record, encode);
  if (explode) return joinPairs(record, encode);
  const separator = style === "spaceDelimited" ? "%20" : style === "pipeDelimited" ? "%7C" : ",";
  return [
    `${key}=${Object.entries(record)
      .flatMap(([inner, each]) => [encode(inner), encode(toText(each))])
      .join(separator)}`,
  ];
}

function listDeepPairs(prefix: string, value: Json, encode: Encode): readonly string[] {
  if (typeof value !== "object" || value === null) return [`${encodeStrictly(prefix)}=${encode(toText(value))}`];
  if (Array.isArray(value)) return value.flatMap((each) => listDeepPairs(`${prefix}[]`, each, encode));
  return Object.entries(value).flatMap(([key, each]) => listDeepPairs(`${prefix}[${key}]`, each, encode));
}

/** The value of a header. Throws `invalid_arguments` for line breaks, which would begin another header. */
export function formatHeaderParameter({ argument, style, explode }: ApiParameter, value: Json): string {
  const text = style === "json" ? JSON.stringify(value) : joinSimple(value, explode, (each) => each);
  if (!/^[\t\x20-\x7e\x80-\xff]*$/.test(text))
    throw new QmError("invalid_arguments", `${argument} has characters that a header cannot hold`, {
      hint: "Leave out line breaks and characters outside of Latin-1.",
    });
  return text;
}

/** `name=value` pairs of the Cookie header. */
export const formatCookieParameter = (parameter: ApiParameter, value: Json): readonly string[] =>
  formatQueryParameter({ ...parameter, allowReserved: false }, value);
