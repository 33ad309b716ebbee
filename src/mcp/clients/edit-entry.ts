import { isDeepStrictEqual } from "node:util";
import { QmError } from "../../core/errors.ts";
import { canonicalJson, isRecord } from "../../core/json.ts";
import { getDocumentValue, parseClientDocument } from "./client-document.ts";
import type { ClientDefinition, RawEntry } from "./clients.ts";
import { createJsonEntryEdits, createJsonRemovalEdits } from "./json-edit.ts";
import { createTomlEntryEdits, createTomlRemovalEdits } from "./toml-edit.ts";

export type TextEdit = { readonly offset: number; readonly length: number; readonly content: string };

/** The edits must not overlap. */
function applyEdits(text: string, edits: readonly TextEdit[]): string {
  return [...edits]
    .sort((a, b) => b.offset - a.offset)
    .reduce((now, { offset, length, content }) => now.slice(0, offset) + content + now.slice(offset + length), text);
}

export interface EntryLocation {
  readonly format: ClientDefinition["format"];
  readonly keys: readonly string[];
  readonly name: string;
}

/** The edits are empty if nothing changes. */
type EditedText = { readonly text: string; readonly edits: readonly TextEdit[] };

/** Adds or replaces our entry. Throws `invalid_config` if the text cannot be parsed or edited safely. */
export function putEntry(text: string, place: EntryLocation, entry: RawEntry): EditedText {
  const there = findEntry(text, place);
  if (there !== undefined && canonicalJson(there) === canonicalJson(entry)) return { text, edits: [] };
  const make = place.format === "toml" ? createTomlEntryEdits : createJsonEntryEdits;
  return checkEdit(text, make(text, place.keys, place.name, entry), place, entry);
}

export function removeEntry(text: string, place: EntryLocation): EditedText {
  if (findEntry(text, place) === undefined) return { text, edits: [] };
  const make = place.format === "toml" ? createTomlRemovalEdits : createJsonRemovalEdits;
  return checkEdit(text, make(text, place.keys, place.name), place);
}

export function findEntry(text: string, { format, keys, name }: EntryLocation): unknown {
  return getDocumentValue(parseClientDocument(text, format), [...keys, name]);
}

/** Whether two texts differ only in our entry and its layout. */
export function isSameExceptEntry(one: string, another: string, { format, keys, name }: EntryLocation): boolean {
  const make = format === "toml" ? createTomlEntryEdits : createJsonEntryEdits;
  const around = (text: string) => applyEdits(text, make(text, keys, name, {}));
  return around(one) === around(another);
}

/** Parses the result again: our entry must be as intended, and everything else unchanged. */
function checkEdit(text: string, edits: readonly TextEdit[], place: EntryLocation, entry?: RawEntry): EditedText {
  const after = applyEdits(text, edits);
  if (isExpectedResult(text, after, place, entry)) return { text: after, edits };
  const hint = "Nothing was changed. Use --print to see the entry and add it yourself.";
  throw new QmError("invalid_config", `${place.name} cannot be edited safely`, { hint });
}

function isExpectedResult(before: string, after: string, place: EntryLocation, entry?: RawEntry): boolean {
  try {
    const now = findEntry(after, place);
    const isOurs = entry === undefined ? now === undefined : canonicalJson(now) === canonicalJson(entry);
    const rest = (text: string) => omitPath(parseClientDocument(text, place.format), [...place.keys, place.name]);
    return isOurs && isDeepStrictEqual(rest(before), rest(after));
  } catch {
    return false;
  }
}

/** Omits the value and the objects that only led to it. */
function omitPath(value: RawEntry, [key = "", ...rest]: readonly string[]): RawEntry {
  const left = Object.fromEntries(Object.entries(value).filter(([each]) => each !== key));
  const inner = value[key];
  if (rest.length === 0 || !Object.hasOwn(value, key) || !isRecord(inner)) return left;
  const kept = omitPath(inner, rest);
  return Object.keys(kept).length === 0 ? left : { ...left, [key]: kept };
}
