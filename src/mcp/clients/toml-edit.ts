import { stringify } from "smol-toml";
import type { Raw } from "./client.ts";
import type { TextEdit } from "./text-edit.ts";
import { type TomlTable, tomlTables } from "./toml-tables.ts";

/**
 * Puts an entry into a TOML text as a table of its own, in the place of one of that name, or at the end. Everything else
 * stays as it is, byte for byte.
 */
export function tomlEntryEdits(text: string, keys: readonly string[], name: string, entry: Raw): readonly TextEdit[] {
  const eol = /\r?\n/.exec(text)?.[0] ?? "\n";
  const [first, ...rest] = tablesOf(text, [...keys, name]);
  const table = [...keys, name].reduceRight<unknown>((inner, key) => ({ [key]: inner }), entry);
  const content = stringify(table as Record<string, unknown>)
    .trimEnd()
    .replaceAll("\n", eol);
  if (first !== undefined) {
    return [
      { offset: first.start, length: first.end - first.start, content },
      ...rest.map((table) => removal(text, table)),
    ];
  }
  const start = text === "" ? "" : text.endsWith("\n") ? eol : eol + eol;
  return [{ offset: text.length, length: 0, content: `${start}${content}${eol}` }];
}

/** Takes the entry's tables out again. */
export function tomlRemovalEdits(text: string, keys: readonly string[], name: string): readonly TextEdit[] {
  return tablesOf(text, [...keys, name]).map((table) => removal(text, table));
}

function tablesOf(text: string, keys: readonly string[]): readonly TomlTable[] {
  return tomlTables(text).filter((table) => keys.every((key, at) => table.keys[at] === key));
}

/** A table, the end of its last line, and the empty lines before it, where something else follows or is before. */
function removal(text: string, { start, end }: TomlTable): TextEdit {
  const lineEnd = /^[ \t]*\r?\n/.exec(text.slice(end))?.[0].length ?? 0;
  const from = afterBlank(text, start);
  return { offset: from, length: end + lineEnd - from, content: "" };
}

/** Where the empty lines begin that end at an offset. */
function afterBlank(text: string, offset: number): number {
  for (let at = offset; at > 0; ) {
    const line = at < 2 ? 0 : text.lastIndexOf("\n", at - 2) + 1;
    if (text.slice(line, at).trim() !== "") return at;
    at = line;
  }
  return 0;
}
