import { isRecord, type Json } from "../../core/json.ts";

/** Shorter values are common words rather than secrets. */
const MIN_LENGTH = 8;
export type ValueRedactor = (text: string) => string;

/** Replaces values by their names in brackets: servers print the values they were started with, and these may be secrets. */
export function createValueRedactor(...values: readonly Readonly<Record<string, string>>[]): ValueRedactor {
  const hidden = values
    .flatMap((record) => Object.entries(record))
    // A value of several lines, such as a private key, is printed on several lines.
    .flatMap(([name, value]) => value.split(/\r?\n/).map((part) => ({ name, part: part.trim() })))
    .filter(({ part }) => part.length >= MIN_LENGTH)
    .flatMap(({ name, part }) => [...new Set([part, encodeForUrl(part)])].map((form) => ({ name, form })))
    .sort((a, b) => b.form.length - a.form.length);
  return (text) => hidden.reduce((redacted, { name, form }) => redacted.replaceAll(form, () => `[${name}]`), text);
}

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
    // A lone surrogate cannot be encoded.
    return text;
  }
}
