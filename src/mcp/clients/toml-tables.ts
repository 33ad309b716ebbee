import { parse } from "smol-toml";
import { isRecord } from "../../core/json.ts";

/** A `[table]` of a TOML text: from its header to its last line, without the comments that lead over to the next. */
export interface TomlTable {
  readonly keys: readonly string[];
  readonly start: number;
  readonly end: number;
}

/** The tables of a sound TOML text, in order. */
export function tomlTables(text: string): readonly TomlTable[] {
  const tables: TomlTable[] = [];
  let open: { keys: readonly string[]; start: number; end: number } | undefined;
  for (let at = 0; at < text.length; ) {
    const end = statementEnd(text, at);
    const statement = text.slice(at, end);
    const said = statement.trim();
    const start = at + (statement.length - statement.trimStart().length);
    if (said.startsWith("[")) {
      if (open !== undefined) tables.push(open);
      open = { keys: keysOf(said), start, end: start + said.length };
    } else if (open !== undefined && said !== "" && !said.startsWith("#")) open.end = start + said.length;
    at = end;
  }
  return open === undefined ? tables : [...tables, open];
}

/** Where the line ends, or, when a text or a list goes on over lines, the line in which that ends. */
function statementEnd(text: string, from: number): number {
  let depth = 0;
  let at = from;
  while (at < text.length) {
    const character = text[at] ?? "";
    if (character === "\n" && depth <= 0) return at + 1;
    if (character === "#") {
      const end = text.indexOf("\n", at);
      at = end < 0 ? text.length : end;
    } else if (character === '"' || character === "'") at = stringEnd(text, at, character);
    else {
      if (character === "[" || character === "{") depth++;
      else if (character === "]" || character === "}") depth--;
      at++;
    }
  }
  return at;
}

function stringEnd(text: string, from: number, quote: string): number {
  const isLong = text.startsWith(quote.repeat(3), from);
  const close = isLong ? quote.repeat(3) : quote;
  for (let at = from + close.length; at < text.length; at++) {
    if (text[at] === "\\" && quote === '"') at++;
    else if (text.startsWith(close, at)) {
      let end = at + close.length;
      // Up to two quotes more may stand right before the end of a long one.
      while (isLong && text[end] === quote && end < at + 5) end++;
      return end;
    }
  }
  return text.length;
}

/** The way of keys of a header: it is a document of its own, with nothing in it but that. */
function keysOf(header: string): readonly string[] {
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
