import { QmError } from "../../core/errors.ts";
import { quoteName } from "../../core/names.ts";

export type ContentKind = "html" | "pdf" | "text";

/** The type without its parameters, in lower case. A response without one is judged by how it begins. */
export function readContentType(header: string | undefined, body: Uint8Array): string {
  const type = header?.split(";", 1)[0]?.trim().toLowerCase();
  if (type !== undefined && type !== "") return type;
  const start = Buffer.from(body.subarray(0, 1024)).toString("latin1").trimStart().toLowerCase();
  if (start.startsWith("%pdf-")) return "application/pdf";
  if (/^(?:<!doctype html|<html)/.test(start)) return "text/html";
  return start.includes("\0") ? "application/octet-stream" : "text/plain";
}

/** Throws `unsupported_content`. */
export function getContentKind(type: string): ContentKind {
  if (type === "text/html" || type === "application/xhtml+xml") return "html";
  if (type === "application/pdf") return "pdf";
  const isText =
    /^text\/|^application\/(?:json|xml|javascript|ecmascript|yaml|x-yaml|toml|x-ndjson|jsonl|sql)$|\+(?:json|xml|yaml)$/;
  if (isText.test(type)) return "text";
  throw new QmError("unsupported_content", `the page has the type ${quoteName(type)}, which has no text`, {
    hint: "HTML, PDF, JSON and other text can be fetched.",
    details: { content_type: type },
  });
}

/** Where HTML and XML must name their encoding. */
const DECLARATION_BYTES = 2048;
const BYTE_ORDER_MARKS = [
  ["utf-8", [0xef, 0xbb, 0xbf]],
  ["utf-16le", [0xff, 0xfe]],
  ["utf-16be", [0xfe, 0xff]],
] as const;

/** Decodes text as browsers do: a byte order mark counts first, then the header, then the page's own declaration. */
export function decodePage(body: Uint8Array, contentType: string | undefined): string {
  const marked = BYTE_ORDER_MARKS.find(([, mark]) => mark.every((byte, index) => body[index] === byte))?.[0];
  const start = Buffer.from(body.subarray(0, DECLARATION_BYTES)).toString("latin1");
  const labels = [
    marked,
    /charset\s*=\s*["']?([\w-]+)/i.exec(contentType ?? "")?.[1],
    /<meta[^>]{1,300}?charset\s*=\s*["']?([\w-]+)/i.exec(start)?.[1],
    /^\s*<\?xml[^>]{1,200}?encoding\s*=\s*["']([\w-]+)/i.exec(start)?.[1],
    "utf-8",
  ];
  for (const label of labels) {
    if (label === undefined) continue;
    try {
      return new TextDecoder(label).decode(body);
    } catch {
      // An unknown encoding: the next label counts.
    }
  }
  return "";
}
