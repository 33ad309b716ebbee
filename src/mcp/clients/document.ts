import { createScanner, type Node, type ParseError, parseTree } from "jsonc-parser";
import { parse as parseToml, TomlError } from "smol-toml";
import { QmError } from "../../core/errors.ts";
import { getOwn, isRecord, outgrows } from "../../core/json.ts";
import type { Client, Raw } from "./client.ts";

/** Claude Code keeps its history in the same file, so this is generous. */
export const BYTE_LIMIT = 16 * 1024 * 1024;
const DEPTH_LIMIT = 64;
const PART_LIMIT = 1_000_000;
const BOM = "\uFEFF";

/** A file's bytes as text, and whether it began with a mark of its encoding. Throws `invalid_config`. */
export function decoded(bytes: Uint8Array): { readonly text: string; readonly hasBom: boolean } {
  if (bytes.byteLength > BYTE_LIMIT) throw unreadable(`it has more than ${BYTE_LIMIT} bytes`);
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    return text.startsWith(BOM) ? { text: text.slice(1), hasBom: true } : { text, hasBom: false };
  } catch {
    throw unreadable("it is not UTF-8 text");
  }
}

export function encoded(text: string, hasBom: boolean): string {
  return hasBom ? BOM + text : text;
}

/** What a file says. An empty one says nothing. Throws `invalid_config`, with the place, when it cannot be read. */
export function parsed(text: string, format: Client["format"]): Raw {
  const value = format === "toml" ? tomlValue(text) : jsonValue(text);
  if (!isRecord(value)) throw unreadable("it does not hold an object");
  return value;
}

/** What lies under a way of keys. */
export function valueAt(document: Raw, keys: readonly string[]): unknown {
  let value: unknown = document;
  for (const key of keys) value = isRecord(value) ? getOwn(value, key) : undefined;
  return value;
}

/** The tree of a JSON text with comments. Undefined: there is nothing but space and comments in it. */
export function jsonTree(text: string): Node | undefined {
  refuseDeep(text);
  const errors: ParseError[] = [];
  const tree = parseTree(text, errors, { allowTrailingComma: true, allowEmptyContent: true });
  const [first] = errors;
  if (first !== undefined) throw unreadable(`it is not JSON ${placeIn(text, first.offset)}`);
  return tree;
}

function jsonValue(text: string): unknown {
  const tree = jsonTree(text);
  return tree === undefined ? {} : nodeValue(tree);
}

/** Not the library's own: it would let a key called `__proto__` give an object other properties than it has. */
function nodeValue(node: Node): unknown {
  if (node.type === "array") return (node.children ?? []).map(nodeValue);
  if (node.type !== "object") return node.value;
  const object: Record<string, unknown> = Object.create(null);
  for (const { children: [key, value] = [] } of node.children ?? [])
    if (key !== undefined && value !== undefined) object[String(key.value)] = nodeValue(value);
  return object;
}

/** The parser calls itself for every level. */
function refuseDeep(text: string): void {
  const scanner = createScanner(text, true);
  let depth = 0;
  for (scanner.scan(); scanner.getTokenLength() > 0; scanner.scan()) {
    // Of all tokens, only brackets begin with one.
    const first = text[scanner.getTokenOffset()] ?? "";
    if ("{[".includes(first)) depth++;
    else if ("}]".includes(first)) depth--;
    if (depth > DEPTH_LIMIT) throw unreadable(`it is more than ${DEPTH_LIMIT} levels deep`);
  }
}

function tomlValue(text: string): unknown {
  let value: unknown;
  try {
    value = parseToml(text, { maxDepth: DEPTH_LIMIT, integersAsBigInt: "asNeeded" });
  } catch (thrown) {
    // Its own message quotes the line, which may hold a key.
    const where = thrown instanceof TomlError ? `at line ${thrown.line}, column ${thrown.column}` : "at all";
    throw unreadable(`it is not TOML ${where}`);
  }
  if (outgrows(value, { nodes: PART_LIMIT, depth: DEPTH_LIMIT }))
    throw unreadable("it is too deep or has too many parts");
  return value;
}

function placeIn(text: string, offset: number): string {
  const before = text.slice(0, offset).split("\n");
  return `at line ${before.length}, column ${(before.at(-1) ?? "").length + 1}`;
}

export function unreadable(why: string): QmError {
  return new QmError("invalid_config", `the file cannot be read: ${why}`);
}
