import { hash } from "node:crypto";
import type { Json } from "../core/json.ts";
import type { StoredContent } from "./infospace-store.ts";

/** A JSON value as a note keeps it. */
export function jsonContent(content: Json): StoredContent {
  const text = JSON.stringify(content);
  return {
    format: typeof content === "string" ? "text" : "json",
    text,
    bytes: Buffer.byteLength(text),
    hash: hash("sha256", text, "hex"),
  };
}

/** Bytes as a note keeps them. */
export function fileContent(file: Uint8Array, mediaType: string): StoredContent {
  return {
    format: "file",
    text: JSON.stringify({ media_type: mediaType, size: file.byteLength }),
    file,
    bytes: file.byteLength,
    hash: hash("sha256", file, "hex"),
  };
}
