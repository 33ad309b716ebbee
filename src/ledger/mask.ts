import type { Json } from "../core/json.ts";
import type { KnownSecret, MaskedValue } from "../core/known-secret.ts";
import { findAll, getSecretValue, listSecretForms } from "./secret-text.ts";

/** Replaces known secrets by `[secret NAME]`. It never guesses, because a caller could then choose what is hidden. */
export const createSecretMasker =
  (secrets: () => Iterable<KnownSecret>): ((value: Json) => MaskedValue) =>
  (value) => {
    const forms = listNamedForms(secrets());
    const counts = new Map<string, number>();
    const mask = (text: string): string => maskText(text, forms, counts);
    const masked = maskValue(value, mask);
    return { value: masked, masked: [...counts].map(([name, times]) => ({ name, times })) };
  };

type SecretForm = { readonly name: string; readonly form: string };

function listNamedForms(secrets: Iterable<KnownSecret>): readonly SecretForm[] {
  let unnamed = 0;
  return [...secrets].flatMap((secret) => {
    const name = typeof secret === "string" ? `unnamed ${++unnamed}` : secret.name;
    return listSecretForms([getSecretValue(secret)]).map((form) => ({ name, form }));
  });
}

function maskValue(value: Json, mask: (text: string) => string): Json {
  if (typeof value === "string") return mask(value);
  if (typeof value === "number") {
    const written = String(value);
    const masked = mask(written);
    return masked === written ? value : masked;
  }
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((item) => maskValue(item, mask));
  const fields = new Map<string, Json>();
  for (const [key, part] of Object.entries(value)) {
    const name = mask(key);
    let unique = name;
    for (let at = 2; fields.has(unique); at++) unique = `${name} (${at})`;
    fields.set(unique, maskValue(part, mask));
  }
  return Object.fromEntries(fields);
}

function maskText(text: string, forms: readonly SecretForm[], counts: Map<string, number>): string {
  const found = forms.flatMap(({ name, form }) =>
    findAll(text, form).map((start) => ({ start, end: start + form.length, name })),
  );
  if (found.length === 0) return text;
  found.sort((one, other) => one.start - other.start || other.end - one.end);
  // Overlapping secrets share one mask with all names, so that no part of them is left over.
  const merged: { start: number; end: number; names: Set<string> }[] = [];
  for (const { start, end, name } of found) {
    const last = merged.at(-1);
    if (last === undefined || start >= last.end) merged.push({ start, end, names: new Set([name]) });
    else if (end > last.end) {
      last.end = end;
      last.names.add(name);
    }
  }
  let masked = "";
  let at = 0;
  for (const { start, end, names } of merged) {
    for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
    masked += `${text.slice(at, start)}[secret ${[...names].join(", ")}]`;
    at = end;
  }
  return masked + text.slice(at);
}
