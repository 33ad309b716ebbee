import { isRecord, type Json } from "../../core/json.ts";

/** Shorter ones are words that stand in every other line, and no secrets. */
const SHORTEST = 8;

export type ValueRedactor = (text: string) => string;

/**
 * A function that puts the name of a value where the value stands: servers print what they were started with. The values
 * are those that were given to this server; they may be secrets, and nobody says which.
 */
export function createValueRedactor(...given: readonly Readonly<Record<string, string>>[]): ValueRedactor {
  const hidden = given
    .flatMap((values) => Object.entries(values))
    // What has several lines, as keys have, is printed on several lines.
    .flatMap(([name, value]) => value.split(/\r?\n/).map((part) => ({ name, part: part.trim() })))
    .filter(({ part }) => part.length >= SHORTEST)
    .flatMap(({ name, part }) => [...new Set([part, encodeForUrl(part)])].map((form) => ({ name, form })))
    .sort((a, b) => b.form.length - a.form.length);
  return (text) => hidden.reduce((shown, { name, form }) => shown.replaceAll(form, () => `[${name}]`), text);
}

/** The same in every text of a value, the names in it included. */
export function redactJson(value: Json, hide: ValueRedactor): Json {
  if (typeof value === "string") return hide(value);
  if (Array.isArray(value)) return value.map((part) => redactJson(part, hide));
  if (!isRecord(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [hide(name), redactJson(part as Json, hide)]));
}

function encodeForUrl(text: string): string {
  try {
    return encodeURIComponent(text);
  } catch {
    // Half a character cannot stand in a URL.
    return text;
  }
}
