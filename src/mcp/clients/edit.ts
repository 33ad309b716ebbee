import { isDeepStrictEqual } from "node:util";
import { QmError } from "../../core/errors.ts";
import { canonicalJson, isRecord } from "../../core/json.ts";
import type { Client, Raw } from "./client.ts";
import { parsed, valueAt } from "./document.ts";
import { jsonEntryEdits, jsonRemovalEdits } from "./json-edit.ts";
import { edited, type TextEdit } from "./text-edit.ts";
import { tomlEntryEdits, tomlRemovalEdits } from "./toml-edit.ts";

/** Where an entry of ours is. */
export interface EntryPlace {
  readonly format: Client["format"];
  readonly keys: readonly string[];
  readonly name: string;
}

export interface EditedText {
  readonly text: string;
  /** None: nothing is different. */
  readonly edits: readonly TextEdit[];
}

/** A text with our entry in it. Throws `invalid_config` when it cannot be read, or cannot be changed without harm. */
export function withEntry(text: string, { format, keys, name }: EntryPlace, entry: Raw): EditedText {
  const there = valueAt(parsed(text, format), [...keys, name]);
  if (there !== undefined && canonicalJson(there) === canonicalJson(entry)) return { text, edits: [] };
  const make = format === "toml" ? tomlEntryEdits : jsonEntryEdits;
  return checked(text, make(text, keys, name, entry), { format, keys, name }, entry);
}

/** A text without our entry. */
export function withoutEntry(text: string, { format, keys, name }: EntryPlace): EditedText {
  if (valueAt(parsed(text, format), [...keys, name]) === undefined) return { text, edits: [] };
  const make = format === "toml" ? tomlRemovalEdits : jsonRemovalEdits;
  return checked(text, make(text, keys, name), { format, keys, name }, undefined);
}

/** Whether two texts differ in nothing but what our entry says, and how that is laid out. */
export function isSameAround(one: string, another: string, { format, keys, name }: EntryPlace): boolean {
  const make = format === "toml" ? tomlEntryEdits : jsonEntryEdits;
  const around = (text: string) => edited(text, make(text, keys, name, {}));
  return around(one) === around(another);
}

/** An edit is only as good as what can be read afterwards: our entry as it is meant, and everything else as before. */
function checked(text: string, edits: readonly TextEdit[], place: EntryPlace, entry: Raw | undefined): EditedText {
  const after = edited(text, edits);
  if (isAsMeant(text, after, place, entry)) return { text: after, edits };
  throw new QmError("invalid_config", `${place.name} is written in a way that cannot be changed without harm`, {
    hint: "Nothing was changed. --print shows the entry, so that you can write it there yourself.",
  });
}

function isAsMeant(before: string, after: string, { format, keys, name }: EntryPlace, entry: Raw | undefined): boolean {
  try {
    const [was, is] = [parsed(before, format), parsed(after, format)];
    const now = valueAt(is, [...keys, name]);
    const isOurs = entry === undefined ? now === undefined : canonicalJson(now) === canonicalJson(entry);
    return isOurs && isDeepStrictEqual(without(was, [...keys, name]), without(is, [...keys, name]));
  } catch {
    return false;
  }
}

/** Without what lies there, and without the objects that were there for that alone. */
function without(value: Raw, [key = "", ...rest]: readonly string[]): Raw {
  const left = Object.fromEntries(Object.entries(value).filter(([each]) => each !== key));
  const inner = value[key];
  if (rest.length === 0 || !Object.hasOwn(value, key) || !isRecord(inner)) return left;
  const kept = without(inner, rest);
  return Object.keys(kept).length === 0 ? left : { ...left, [key]: kept };
}
