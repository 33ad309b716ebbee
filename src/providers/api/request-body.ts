import { QmError } from "../../core/errors.ts";
import { isRecord, type Json, type JsonObject } from "../../core/json.ts";
import { type ApiBody, isTextType } from "./compiled-api.ts";
import { formatQueryParameter, toText } from "./parameter-style.ts";

export interface EncodedBody {
  readonly contentType: string;
  readonly content: string | Uint8Array;
}

/** The body of a request, or undefined if the arguments have none. `boundary` separates the parts of a form. */
export function encodeBody(
  body: ApiBody,
  args: JsonObject,
  parameters: ReadonlySet<string>,
  boundary: string,
): EncodedBody | undefined {
  const value = collectBody(body, args, parameters);
  if (value === undefined) return undefined;
  const { mediaType } = body;
  if (/ndjson|jsonl|json-seq/.test(mediaType) && Array.isArray(value)) {
    const start = mediaType.includes("json-seq") ? "\u001e" : "";
    return { contentType: mediaType, content: value.map((each) => `${start}${JSON.stringify(each)}\n`).join("") };
  }
  if (mediaType.includes("json")) return { contentType: mediaType, content: JSON.stringify(value) };
  if (mediaType.includes("x-www-form-urlencoded"))
    return {
      contentType: mediaType,
      content: typeof value === "string" ? value : encodeForm(body, requireObject(value)),
    };
  if (mediaType.startsWith("multipart/"))
    return {
      contentType: `${mediaType.split(";", 1)[0]}; boundary=${boundary}`,
      content: encodeMultipart(body, requireObject(value), boundary),
    };
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return { contentType: mediaType, content: isTextType(mediaType) ? text : decodeBase64(text) };
}

function collectBody(body: ApiBody, args: JsonObject, parameters: ReadonlySet<string>): Json | undefined {
  const { fields, required, takesOthers } = body;
  if (fields === undefined) {
    const argument = body.argument ?? "body";
    return Object.hasOwn(args, argument) ? args[argument] : undefined;
  }
  const entries = Object.entries(args).flatMap(([argument, value]): [string, Json][] => {
    if (Object.hasOwn(fields, argument)) return [[fields[argument] ?? argument, value]];
    return takesOthers === true && !parameters.has(argument) ? [[argument, value]] : [];
  });
  return entries.length === 0 && !required ? undefined : Object.fromEntries(entries);
}

function requireObject(value: Json): JsonObject {
  if (isRecord(value)) return value as JsonObject;
  throw new QmError("invalid_arguments", "the body of a form must be an object", { hint: "Give an object of fields." });
}

/** Forms have no null: such a field is left out. */
const listGiven = (value: JsonObject): [string, Json][] => Object.entries(value).filter(([, each]) => each !== null);

/** Fields without a style are sent as OpenAPI 3.0.4 and 3.1.1 say: lists repeat the field, objects are JSON. */
function encodeForm({ encoding = {} }: ApiBody, value: JsonObject): string {
  const pairs = listGiven(value).flatMap(([name, each]) => {
    const { contentType, style, explode, allowReserved } = (Object.hasOwn(encoding, name) && encoding[name]) || {};
    const isJson = contentType?.includes("json") || (style === undefined && isRecord(each));
    const reserved = allowReserved === true ? { allowReserved } : {};
    return formatQueryParameter(
      { name, style: isJson ? "json" : (style ?? "form"), explode: explode ?? true, ...reserved },
      each,
    );
  });
  // A form writes a space as +.
  return pairs.join("&").replaceAll("%20", "+");
}

function encodeMultipart(body: ApiBody, value: JsonObject, boundary: string): Uint8Array {
  const { encoding = {}, files } = body;
  const chunks: Uint8Array[] = [];
  for (const [name, each] of listGiven(value).flatMap((pair) => listStyledParts(body, pair))) {
    const declared = Object.hasOwn(encoding, name) ? encoding[name]?.contentType : undefined;
    const contentType = declared === undefined || /[,*\r\n]/.test(declared) ? undefined : declared;
    const parts = Array.isArray(each) && !contentType?.includes("json") ? each : [each];
    for (const part of parts) {
      const file = files === undefined || files.includes(name) ? readFilePart(part, files !== undefined) : undefined;
      const type = file?.type ?? contentType ?? (file || typeof part !== "object" ? file && BYTES : "application/json");
      const filename = file === undefined ? "" : `; filename="${escapeQuoted(file.filename)}"`;
      const head = `--${boundary}\r\nContent-Disposition: form-data; name="${escapeQuoted(name)}"${filename}\r\n`;
      const typed = type === undefined ? "" : `Content-Type: ${type}\r\n`;
      chunks.push(Buffer.from(`${head}${typed}\r\n`), file?.content ?? Buffer.from(toText(part)), Buffer.from("\r\n"));
    }
  }
  return Buffer.concat([...chunks, Buffer.from(`--${boundary}--\r\n`)]);
}

/** A field with a style has a part for each pair of a query with that style. */
function listStyledParts({ encoding = {}, files }: ApiBody, [name, value]: [string, Json]): [string, Json][] {
  const { contentType, style, explode = true } = (Object.hasOwn(encoding, name) && encoding[name]) || {};
  const isPlain = style === undefined || contentType?.includes("json") || files?.includes(name);
  if (isPlain || typeof value !== "object") return [[name, value]];
  return formatQueryParameter({ name, style, explode }, value).map((pair): [string, Json] => {
    const [key = "", text = ""] = pair.split("=", 2).map(decodeURIComponent);
    return [key, text];
  });
}

const BYTES = "application/octet-stream";
const FILE_KEYS = new Set(["filename", "content", "base64", "content_type"]);

/** `isKnown`: the document says that the field is a file, so a plain text is one too. */
function readFilePart(part: Json, isKnown: boolean) {
  if (typeof part === "string" && isKnown) return { content: Buffer.from(part), filename: "file", type: undefined };
  const isFile = isRecord(part) && Object.keys(part).every((key) => FILE_KEYS.has(key));
  const { content, base64, filename, content_type: type } = isFile ? part : {};
  if (typeof content === "string" || typeof base64 === "string")
    return {
      content: typeof base64 === "string" ? decodeBase64(base64) : Buffer.from(String(content)),
      filename: typeof filename === "string" ? filename : "file",
      type: typeof type === "string" ? type.replace(/[\r\n]/g, "") : undefined,
    };
  if (!isKnown) return undefined;
  throw new QmError("invalid_arguments", "a file has neither content nor base64", {
    hint: "Give its text as content, or its bytes as base64.",
  });
}

const escapeQuoted = (text: string) =>
  text.replace(/[\r\n"]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`);

function decodeBase64(text: string): Uint8Array {
  if (/^[A-Za-z0-9+/_=\s-]*$/.test(text)) return Buffer.from(text, "base64");
  throw new QmError("invalid_arguments", "the content is not base64", { hint: "Give the bytes as base64." });
}
