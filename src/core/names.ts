import { QmError } from "./errors.ts";
import { clip } from "./json.ts";

/** A type that only its own parser can make: `Brand<string, "ActionName">` is not assignable from a plain string. */
type Brand<T, Name extends string> = T & { readonly [brand]: Name };

declare const brand: unique symbol;

/** `<category>__<entry>`: the one spelling of an action everywhere, from catalog to ledger. */
export type ActionName = Brand<string, "ActionName">;

export const SEPARATOR = "__";

export const NAME_LIMIT = 256;

// A category never holds or ends with what could be read as the separator, so the first `__` always ends it and
// every name has exactly one reading; an entry may hold `__` itself (`mcp` + `github__create_issue`).
const CATEGORY = /^[a-z][a-z0-9]*(?:[._-][a-z0-9]+)*$/;
const ENTRY = /^[\p{L}\p{N}\p{M}_.:/@+~-]+$/u;

export function isCategory(text: string): boolean {
  return typeof text === "string" && text.length <= 64 && CATEGORY.test(text);
}

export function isEntry(text: string): boolean {
  return text.length <= NAME_LIMIT && ENTRY.test(text) && text.normalize("NFC") === text;
}

/** The text as it is, or `invalid_name` saying what a category looks like. */
export function assertCategory(text: string): string {
  if (isCategory(text)) return text;
  throw new QmError("invalid_name", `${quoteName(String(text))} is not a category name`, {
    hint: "A category is lower-case letters and digits, in parts joined by single '.', '_' or '-'.",
  });
}

/** Builds a name from its parts. Throws `invalid_name` saying which part is wrong and what is allowed. */
export function actionName(category: string, entry: string): ActionName {
  assertCategory(category);
  if (!isEntry(entry) || category.length + SEPARATOR.length + entry.length > NAME_LIMIT) {
    throw new QmError("invalid_name", `${quoteName(entry)} is not an entry name in category ${category}`, {
      hint: `An entry is letters, digits and _ . : / @ + ~ -, without spaces; the whole name has at most ${NAME_LIMIT} characters.`,
    });
  }
  return `${category}${SEPARATOR}${entry}` as ActionName;
}

/** The reading of `text` as a name, or undefined when it has none. Says nothing about whether the action exists. */
export function parseActionName(text: string): ActionName | undefined {
  const at = text.indexOf(SEPARATOR);
  if (at < 0 || text.length > NAME_LIMIT) return undefined;
  return isCategory(text.slice(0, at)) && isEntry(text.slice(at + SEPARATOR.length)) ? (text as ActionName) : undefined;
}

export function getCategory(name: ActionName): string {
  return name.slice(0, name.indexOf(SEPARATOR));
}

export function getEntry(name: ActionName): string {
  return name.slice(name.indexOf(SEPARATOR) + SEPARATOR.length);
}

/** What comes before the last part: `file` of `file__read`, `mcp__github` of `mcp__github__create_issue`. */
export function getNamespace(name: ActionName): string {
  return name.slice(0, name.lastIndexOf(SEPARATOR));
}

/** A name from outside as it may be shown: bounded, and with nothing in it that could rewrite a terminal or a log. */
export function quoteName(text: string): string {
  return JSON.stringify(clip(text, 80)).replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, (character) => {
    return `\\u{${character.codePointAt(0)?.toString(16)}}`;
  });
}
