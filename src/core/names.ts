import { QmError } from "./errors.ts";
import { clip } from "./json.ts";

declare const brand: unique symbol;

/** `<category>__<entry>`. A plain string is not assignable: only `actionName` and `parseActionName` make one. */
export type ActionName = string & { readonly [brand]: "ActionName" };
export const SEPARATOR = "__";
export const NAME_LIMIT = 256;
/** The name of a stored result: `note__12`, `collection__7`. */
export const HANDLE_FORM = /^(note|collection)__([1-9]\d{0,14})$/;

// The first `__` always ends the category, so every name has one reading. An entry may contain `__`.
const CATEGORY = /^[a-z][a-z0-9]*(?:[._-][a-z0-9]+)*$/;
const ENTRY = /^[\p{L}\p{N}\p{M}_.:/@+~-]+$/u;
export const isCategory = (text: string) => typeof text === "string" && text.length <= 64 && CATEGORY.test(text);
export const isEntry = (text: string): boolean =>
  text.length <= NAME_LIMIT && ENTRY.test(text) && text.normalize("NFC") === text;

export function assertCategory(text: string): string {
  if (isCategory(text)) return text;
  const hint = "A category is lower-case letters and digits, in parts joined by single '.', '_' or '-'.";
  throw new QmError("invalid_name", `${quoteName(String(text))} is not a category name`, { hint });
}

/** Joins a category and an entry. Throws `invalid_name`, naming the wrong part and the allowed form. */
export function actionName(category: string, entry: string): ActionName {
  assertCategory(category);
  if (!isEntry(entry) || category.length + SEPARATOR.length + entry.length > NAME_LIMIT) {
    throw new QmError("invalid_name", `${quoteName(entry)} is not an entry name in category ${category}`, {
      hint: `An entry is letters, digits and _ . : / @ + ~ -, without spaces; the whole name has at most ${NAME_LIMIT} characters.`,
    });
  }
  return `${category}${SEPARATOR}${entry}` as ActionName;
}

/** The text as a name, or undefined if it has another form. The action need not exist. */
export function parseActionName(text: string): ActionName | undefined {
  const at = text.indexOf(SEPARATOR);
  if (at < 0 || text.length > NAME_LIMIT) return undefined;
  return isCategory(text.slice(0, at)) && isEntry(text.slice(at + SEPARATOR.length)) ? (text as ActionName) : undefined;
}

export const getCategory = (name: ActionName): string => name.slice(0, name.indexOf(SEPARATOR));
export const getEntry = (name: ActionName): string => name.slice(name.indexOf(SEPARATOR) + SEPARATOR.length);

/** The name without its last part: `file` of `file__read`, `mcp__github` of `mcp__github__create_issue`. */
export const getNamespace = (name: ActionName): string => name.slice(0, name.lastIndexOf(SEPARATOR));

/** Quotes an untrusted name for a message: bounded, with control and format characters escaped. */
export const quoteName = (text: string): string =>
  JSON.stringify(clip(text, 80)).replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, (character) => {
    return `\\u{${character.codePointAt(0)?.toString(16)}}`;
  });
