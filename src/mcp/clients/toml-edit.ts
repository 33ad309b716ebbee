import { parse, stringify } from "smol-toml";
import { isRecord } from "../../core/json.ts";
import type { RawEntry } from "./clients.ts";
import type { TextEdit } from "./edit-entry.ts";

/** A `[table]`, from its header to its last statement. */
type TomlTable = { readonly keys: readonly string[]; readonly start: number; readonly end: number };

/** The tables of a valid TOML text, in order. */
export function parseTomlTables(text: string): readonly TomlTable[] {
  const tables: TomlTable[] = [];
  let open: { keys: readonly string[]; start: number; end: number } | undefined;
  for (let at = 0; at < text.length; ) {
    const end = findStatementEnd(text, at);
    const statement = text.slice(at, end);
    const said = statement.trim();
    const start = at + (statement.length - statement.trimStart().length);
    if (said.startsWith("[")) {
      if (open !== undefined) tables.push(open);
      open = { keys: parseHeaderKeys(said), start, end: start + said.length };
    } else if (open !== undefined && said !== "" && !said.startsWith("#")) open.end = start + said.length;
    at = end;
  }
  return open === undefined ? tables : [...tables, open];
}

/** The end of the statement, which may span several lines. */
function findStatementEnd(text: string, from: number): number {
  let depth = 0;
  for (let at = from; at < text.length; at++) {
    const character = text[at] ?? "";
    if (character === "\n" && depth <= 0) return at + 1;
    if (character === "[" || character === "{") depth++;
    else if (character === "]" || character === "}") depth--;
    else if (character === '"' || character === "'") at = findStringEnd(text, at, character) - 1;
    else if (character === "#") {
      const end = text.indexOf("\n", at);
      at = (end < 0 ? text.length : end) - 1;
    }
  }
  return text.length;
}

function findStringEnd(text: string, from: number, quote: string): number {
  const isLong = text.startsWith(quote.repeat(3), from);
  const close = isLong ? quote.repeat(3) : quote;
  for (let at = from + close.length; at < text.length; at++) {
    if (text[at] === "\\" && quote === '"') at++;
    else if (text.startsWith(close, at)) {
      let end = at + close.length;
      // A long string may end with up to two more quotes.
      while (isLong && text[end] === quote && end < at + 5) end++;
      return end;
    }
  }
  return text.length;
}

/** Parses the header as a document of its own. */
function parseHeaderKeys(header: string): readonly string[] {
  const keys: string[] = [];
  let value: unknown = parse(header);
  for (;;) {
    if (Array.isArray(value)) value = value[0];
    const [key] = isRecord(value) ? Object.keys(value) : [];
    if (key === undefined) return keys;
    keys.push(key);
    value = (value as Record<string, unknown>)[key];
  }
}

/** Replaces the table of that name, or appends it. Everything else stays byte for byte. */
export function createTomlEntryEdits(text: string, keys: readonly string[], name: string, entry: RawEntry): TextEdit[] {
  const eol = /\r?\n/.exec(text)?.[0] ?? "\n";
  const [first, ...rest] = findTables(text, [...keys, name]);
  const table = [...keys, name].reduceRight<unknown>((inner, key) => ({ [key]: inner }), entry);
  const lines = stringify(table as Record<string, unknown>).trimEnd();
  const content = lines.replaceAll("\n", eol);
  if (first !== undefined) {
    const replacement = { offset: first.start, length: first.end - first.start, content };
    return [replacement, ...rest.map((table) => createRemoval(text, table))];
  }
  const start = text === "" ? "" : text.endsWith("\n") ? eol : eol + eol;
  return [{ offset: text.length, length: 0, content: `${start}${content}${eol}` }];
}

export function createTomlRemovalEdits(text: string, keys: readonly string[], name: string): readonly TextEdit[] {
  return findTables(text, [...keys, name]).map((table) => createRemoval(text, table));
}

function findTables(text: string, keys: readonly string[]): readonly TomlTable[] {
  return parseTomlTables(text).filter((table) => keys.every((key, at) => table.keys[at] === key));
}

/** Also removes the line end and the blank lines before the table. */
function createRemoval(text: string, { start, end }: TomlTable): TextEdit {
  const lineEnd = /^[ \t]*\r?\n/.exec(text.slice(end))?.[0].length ?? 0;
  const from = findBlankStart(text, start);
  return { offset: from, length: end + lineEnd - from, content: "" };
}

function findBlankStart(text: string, offset: number): number {
  for (let at = offset; at > 0; ) {
    const line = at < 2 ? 0 : text.lastIndexOf("\n", at - 2) + 1;
    if (text.slice(line, at).trim() !== "") return at;
    at = line;
  }
  return 0;
}
