import { QmError } from "../../core/errors.ts";
import { isRecord, type Json, type JsonObject } from "../../core/json.ts";
import type { ApiBody } from "./compiled-api.ts";
import { formatQueryParameter } from "./parameter-style.ts";

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
  if (mediaType.includes("json")) return { contentType: mediaType, content: JSON.stringify(value) };
  if (mediaType.includes("x-www-form-urlencoded"))
    return { contentType: mediaType, content: encodeForm(body, requireObject(value)) };
  if (mediaType.startsWith("multipart/"))
    return {
      contentType: `${mediaType}; boundary=${boundary}`,
      content: encodeMultipart(body, requireObject(value), boundary),
    };
  const text = typeof value === "string" ? value : JSON.stringify(value);
  const isText = /^text\/|xml|yaml|sdp/.test(mediaType);
  return { contentType: mediaType, content: isText ? text : decodeBase64(text) };
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

function encodeForm({ encoding = {} }: ApiBody, value: JsonObject): string {
  const pairs = Object.entries(value).flatMap(([name, each]) => {
    const own = Object.hasOwn(encoding, name) ? encoding[name] : undefined;
    if (own?.contentType?.includes("json")) return formatQueryParameter({ name, style: "json", explode: false }, each);
    const style = own?.style ?? (isRecord(each) ? "deepObject" : "form");
    return formatQueryParameter({ name, style, explode: own?.explode ?? true }, each);
  });
  // A form writes a space as +.
  return pairs.join("&").replaceAll("%20", "+");
}

function encodeMultipart({ encoding = {} }: ApiBody, value: JsonObject, boundary: string): Uint8Array {
  const chunks: Uint8Array[] = [];
  for (const [name, each] of Object.entries(value)) {
    const contentType = Object.hasOwn(encoding, name) ? encoding[name]?.contentType : undefined;
    const parts = Array.isArray(each) && !contentType?.includes("json") ? each : [each];
    for (const part of parts) {
      const file = readFilePart(part);
      const type =
        file?.type ??
        (contentType?.includes(",") ? undefined : contentType) ??
        (typeof part === "object" ? "application/json" : undefined);
      const filename = file === undefined ? "" : `; filename="${escapeQuoted(file.filename)}"`;
      const head = `--${boundary}\r\nContent-Disposition: form-data; name="${escapeQuoted(name)}"${filename}\r\n`;
      const typed = type === undefined ? "" : `Content-Type: ${type.replace(/[\r\n]/g, "")}\r\n`;
      const content = file?.content ?? Buffer.from(typeof part === "string" ? part : JSON.stringify(part));
      chunks.push(Buffer.from(`${head}${typed}\r\n`), content, Buffer.from("\r\n"));
    }
  }
  return Buffer.concat([...chunks, Buffer.from(`--${boundary}--\r\n`)]);
}

function readFilePart(part: Json) {
  if (!isRecord(part) || (typeof part.content !== "string" && typeof part.base64 !== "string")) return undefined;
  const known = ["filename", "content", "base64", "content_type"];
  if (Object.keys(part).some((key) => !known.includes(key))) return undefined;
  const content = typeof part.base64 === "string" ? decodeBase64(part.base64) : Buffer.from(String(part.content));
  const filename = typeof part.filename === "string" ? part.filename : "file";
  return {
    content,
    filename,
    type: typeof part.content_type === "string" ? part.content_type : "application/octet-stream",
  };
}

const escapeQuoted = (text: string) =>
  text.replace(/[\r\n"]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`);

function decodeBase64(text: string): Uint8Array {
  if (/^[A-Za-z0-9+/_=\s-]*$/.test(text)) return Buffer.from(text, "base64");
  throw new QmError("invalid_arguments", "the content is not base64", { hint: "Give the bytes as base64." });
}
