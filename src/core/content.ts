import { clip, type JsonObject } from "./json.ts";

/** One piece of a result in the words of MCP: `text`, `image`, `audio`, `resource` or `resource_link`. */
export type ContentBlock = JsonObject & { readonly type: string };

/** A result as an interface shows it, beside the same result as data. */
export interface Content {
  readonly blocks: readonly ContentBlock[];
  /** Whether `data` is what the tool itself gave as its structured result, beside the blocks. */
  readonly structured?: boolean;
  readonly meta?: JsonObject;
}

/** What a handler answers when its result is more than data: pictures, links, several texts. */
export class WithContent {
  readonly data: unknown;
  readonly content: Content;

  constructor(data: unknown, content: Content) {
    this.data = data;
    this.content = content;
  }
}

/** The blocks as a model reads them: texts as they are, of everything else what it is. */
export function contentText(blocks: readonly ContentBlock[], limit: number): string {
  const text = blocks.map(blockText).join("\n");
  if (text.length <= limit) return text;
  const note = ` [cut: ${text.length} characters in all]`;
  return clip(text, limit - note.length) + note;
}

/** How much of a result is in its blocks and not in its data, in characters. */
export function mediaSize(blocks: readonly ContentBlock[]): number {
  return blocks.reduce((size, block) => size + encodedOf(block).length, 0);
}

function blockText(block: ContentBlock): string {
  const { type, text, uri, name, mimeType } = block;
  if (type === "text" && typeof text === "string") return text;
  const what = [type, mimeType, name, uri].filter((part) => typeof part === "string").join(" ");
  const inner = typeof block.resource === "object" && block.resource !== null ? (block.resource as JsonObject) : {};
  if (typeof inner.text === "string") return inner.text;
  const size = encodedOf(block).length;
  const where = typeof inner.uri === "string" ? ` ${inner.uri}` : "";
  return `[${what}${where}${size > 0 ? `, ${size} characters of base64` : ""}]`;
}

function encodedOf(block: ContentBlock): string {
  const inner = typeof block.resource === "object" && block.resource !== null ? (block.resource as JsonObject) : {};
  for (const encoded of [block.data, inner.blob]) if (typeof encoded === "string") return encoded;
  return "";
}
