import { createScanner, type Node } from "jsonc-parser";
import { quoteName } from "../../core/names.ts";
import { createUnreadableError, parseJsonTree } from "./client-document.ts";
import type { RawEntry } from "./clients.ts";
import type { TextEdit } from "./edit-entry.ts";

/**
 * Replaces the entry of that name, or inserts it first, where no comment or comma is in the way. Everything else stays
 * byte for byte.
 */
export function createJsonEntryEdits(text: string, keys: readonly string[], name: string, entry: RawEntry): TextEdit[] {
  const style = { eol: /\r?\n/.exec(text)?.[0] ?? "\n", unit: /\n([ \t]+)"/.exec(text)?.[1] ?? "  " };
  const root = parseJsonTree(text);
  if (root === undefined) {
    const start = text === "" || text.endsWith("\n") ? "" : style.eol;
    const made = formatValue(nestValue([...keys, name], entry), "", style);
    return [{ offset: text.length, length: 0, content: `${start}${made}${style.eol}` }];
  }
  let object = requireObject(root, "the file");
  for (const [at, key] of keys.entries()) {
    const property = findProperties(object, key).at(-1);
    if (property === undefined)
      return [insertProperty(text, object, key, nestValue([...keys.slice(at + 1), name], entry), style)];
    object = requireObject(property.children?.[1], key);
  }
  const there = findProperties(object, name).at(-1);
  const value = there?.children?.[1];
  if (there === undefined || value === undefined) return [insertProperty(text, object, name, entry, style)];
  const content = formatValue(entry, detectIndent(text, there.offset), style);
  return [{ offset: value.offset, length: value.length, content }];
}

/** Removes the entry with its comma and whitespace. */
export function createJsonRemovalEdits(text: string, keys: readonly string[], name: string): readonly TextEdit[] {
  let object = parseJsonTree(text);
  for (const key of keys) object = object && findProperties(object, key).at(-1)?.children?.[1];
  const all = object?.children ?? [];
  const ours = object === undefined ? [] : findProperties(object, name);
  const [only] = all;
  if (object !== undefined && only !== undefined && all.length === 1 && ours.length === 1) {
    const inside = [object.offset + 1, object.offset + object.length - 1] as const;
    const around = text.slice(inside[0], only.offset) + text.slice(only.offset + only.length, inside[1]);
    if (/^[\s,]*$/.test(around)) return [{ offset: inside[0], length: inside[1] - inside[0], content: "" }];
  }
  // Remove every duplicate: clients differ in which one they use.
  return ours.map((property) => {
    const [start, end] = [property.offset, property.offset + property.length];
    const comma = findComma(text, end);
    if (comma !== undefined) {
      // Keep a comment between the entry and its comma.
      const comments = text.slice(end, comma).trim() === "" ? "" : text.slice(end, comma);
      const space = comments === "" ? (/^\s*/.exec(text.slice(comma + 1))?.[0].length ?? 0) : 0;
      return { offset: start, length: comma + 1 + space - start, content: comments };
    }
    const before = all[all.indexOf(property) - 1];
    const from = before === undefined ? start : before.offset + before.length;
    return { offset: from, length: end - from, content: removeComma(text, from, start, end) };
  });
}

/** The offset of the next comma, after any comments. */
function findComma(text: string, offset: number): number | undefined {
  const scanner = createScanner(text, true);
  scanner.setPosition(offset);
  scanner.scan();
  return text[scanner.getTokenOffset()] === "," ? scanner.getTokenOffset() : undefined;
}

/** The text between two entries without the comma. Empty if only whitespace is left. */
function removeComma(text: string, from: number, start: number, end: number): string {
  const comma = findComma(text, from);
  const left = comma === undefined ? "" : text.slice(from, comma) + text.slice(comma + 1, start);
  if (left.trim() === "") return "";
  // A line comment needs its line break.
  return left.trimEnd() + (left.includes("//") && !/^[ \t]*\r?\n/.test(text.slice(end)) ? "\n" : "");
}

type JsonStyle = { readonly eol: string; readonly unit: string };

function insertProperty(text: string, object: Node, key: string, value: unknown, style: JsonStyle): TextEdit {
  const first = object.children?.[0];
  const property = (indent: string | undefined) => `${JSON.stringify(key)}: ${formatValue(value, indent, style)}`;
  if (first !== undefined) {
    const indent = detectIndent(text, first.offset);
    const space = indent === undefined ? " " : style.eol + indent;
    return { offset: first.offset, length: 0, content: `${property(indent)},${space}` };
  }
  const outer = /^[ \t]*/.exec(text.slice(text.lastIndexOf("\n", object.offset) + 1))?.[0] ?? "";
  const indent = outer + style.unit;
  const isOpen = text.slice(object.offset, object.offset + object.length).includes("\n");
  const content = `${style.eol}${indent}${property(indent)}${isOpen ? "" : style.eol + outer}`;
  return { offset: object.offset + 1, length: 0, content };
}

/** The whitespace before a token that starts its line, otherwise undefined. */
function detectIndent(text: string, offset: number): string | undefined {
  const before = text.slice(text.lastIndexOf("\n", offset - 1) + 1, offset);
  return offset > before.length && /^[ \t]*$/.test(before) ? before : undefined;
}

function formatValue(value: unknown, indent: string | undefined, { eol, unit }: JsonStyle): string {
  if (indent === undefined) return JSON.stringify(value);
  return JSON.stringify(value, undefined, unit).replaceAll("\n", eol + indent);
}

function nestValue(keys: readonly string[], value: unknown): unknown {
  return keys.reduceRight((inner, key) => ({ [key]: inner }), value);
}

function findProperties(object: Node, key: string): readonly Node[] {
  return (object.children ?? []).filter(({ children }) => children?.[0]?.value === key);
}

function requireObject(node: Node | undefined, what: string): Node {
  if (node?.type === "object") return node;
  throw createUnreadableError(`${what === "the file" ? what : quoteName(what)} is not an object`);
}
