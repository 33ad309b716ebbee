import { createScanner, type Node, type ParseError, parseTree } from "jsonc-parser";
import { parse as parseToml, TomlError } from "smol-toml";
import { QmError } from "../../core/errors.ts";
import { getOwn, isLargerThan, isRecord } from "../../core/json.ts";
import type { ClientDefinition, RawEntry } from "./clients.ts";

/** Claude Code stores its history in the same file, so the limit is generous. */
export const CLIENT_FILE_LIMIT = 16 * 1024 * 1024;
const DEPTH_LIMIT = 64;
const PART_LIMIT = 1_000_000;
const BOM = "\uFEFF";

/** Decodes UTF-8 text with an optional byte order mark. Throws `invalid_config`. */
export function decodeClientText(bytes: Uint8Array): { readonly text: string; readonly hasBom: boolean } {
  if (bytes.byteLength > CLIENT_FILE_LIMIT) throw createUnreadableError(`it has more than ${CLIENT_FILE_LIMIT} bytes`);
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    return text.startsWith(BOM) ? { text: text.slice(1), hasBom: true } : { text, hasBom: false };
  } catch {
    throw createUnreadableError("it is not UTF-8 text");
  }
}

export const encodeClientText = (text: string, hasBom: boolean): string => (hasBom ? BOM + text : text);

/** Parses a file. An empty file is an empty object. Throws `invalid_config` with the position. */
export function parseClientDocument(text: string, format: ClientDefinition["format"]): RawEntry {
  const value = format === "toml" ? parseTomlValue(text) : parseJsonValue(text);
  if (!isRecord(value)) throw createUnreadableError("it does not contain an object");
  return value;
}

export function getDocumentValue(document: RawEntry, keys: readonly string[]): unknown {
  let value: unknown = document;
  for (const key of keys) value = isRecord(value) ? getOwn(value, key) : undefined;
  return value;
}

/** Parses JSON with comments. Undefined if the text holds only whitespace and comments. */
export function parseJsonTree(text: string): Node | undefined {
  requireShallow(text);
  const errors: ParseError[] = [];
  const tree = parseTree(text, errors, { allowTrailingComma: true, allowEmptyContent: true });
  const [first] = errors;
  if (first !== undefined) throw createUnreadableError(`it is not JSON ${formatPosition(text, first.offset)}`);
  return tree;
}

function parseJsonValue(text: string): unknown {
  const tree = parseJsonTree(text);
  return tree === undefined ? {} : toNodeValue(tree);
}

/** The library's own conversion would let a key named `__proto__` set the prototype. */
function toNodeValue(node: Node): unknown {
  if (node.type === "array") return (node.children ?? []).map(toNodeValue);
  if (node.type !== "object") return node.value;
  const object: Record<string, unknown> = Object.create(null);
  for (const { children: [key, value] = [] } of node.children ?? [])
    if (key !== undefined && value !== undefined) object[String(key.value)] = toNodeValue(value);
  return object;
}

/** The parser is recursive, so the depth is checked first. */
function requireShallow(text: string): void {
  const scanner = createScanner(text, true);
  let depth = 0;
  for (scanner.scan(); scanner.getTokenLength() > 0; scanner.scan()) {
    // Only bracket tokens start with a bracket.
    const first = text[scanner.getTokenOffset()] ?? "";
    if ("{[".includes(first)) depth++;
    else if ("}]".includes(first)) depth--;
    if (depth > DEPTH_LIMIT) throw createUnreadableError(`it is nested more than ${DEPTH_LIMIT} levels deep`);
  }
}

function parseTomlValue(text: string): unknown {
  let value: unknown;
  try {
    value = parseToml(text, { maxDepth: DEPTH_LIMIT, integersAsBigInt: "asNeeded" });
  } catch (thrown) {
    // The parser's message quotes the line, which may contain a secret.
    const where = thrown instanceof TomlError ? `at line ${thrown.line}, column ${thrown.column}` : "at all";
    throw createUnreadableError(`it is not TOML ${where}`);
  }
  if (isLargerThan(value, { nodes: PART_LIMIT, depth: DEPTH_LIMIT }))
    throw createUnreadableError("it is nested too deeply or has too many values");
  return value;
}

function formatPosition(text: string, offset: number): string {
  const before = text.slice(0, offset).split("\n");
  return `at line ${before.length}, column ${(before.at(-1) ?? "").length + 1}`;
}

export function createUnreadableError(why: string): QmError {
  return new QmError("invalid_config", `the file cannot be read: ${why}`);
}
