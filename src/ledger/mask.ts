import type { Json } from "../core/json.ts";
import type { KnownSecret, Masked } from "../core/known-secret.ts";
import { writtenForms } from "./secret-text.ts";

export function secretValue(secret: KnownSecret): string {
  return typeof secret === "string" ? secret : secret.value;
}

/**
 * Makes the function that hides known secrets from whoever must judge a call, and nothing else: each is replaced by
 * `[secret NAME]`. Unlike the ledger's redactor it never guesses, because then the caller could choose what is hidden.
 */
export function secretMasker(secrets: () => Iterable<KnownSecret>): (value: Json) => Masked {
  return (value) => {
    const forms = namedForms(secrets());
    const counts = new Map<string, number>();
    const copied = copier(forms, counts)(value);
    return { value: copied, masked: [...counts].map(([name, times]) => ({ name, times })) };
  };
}

interface Form {
  readonly name: string;
  readonly text: string;
}

function namedForms(secrets: Iterable<KnownSecret>): readonly Form[] {
  let unnamed = 0;
  return [...secrets].flatMap((secret) => {
    const name = typeof secret === "string" ? `unnamed ${++unnamed}` : secret.name;
    return writtenForms([secretValue(secret)]).map((text) => ({ name, text }));
  });
}

function copier(forms: readonly Form[], counts: Map<string, number>) {
  return function copy(value: Json): Json {
    if (typeof value === "string") return maskText(value, forms, counts);
    if (typeof value === "number") {
      const written = String(value);
      const masked = maskText(written, forms, counts);
      return masked === written ? value : masked;
    }
    if (typeof value !== "object" || value === null) return value;
    if (Array.isArray(value)) return value.map(copy);
    const fields = new Map<string, Json>();
    for (const [key, part] of Object.entries(value)) {
      const name = maskText(key, forms, counts);
      // Two keys that are masked alike are still two.
      let unique = name;
      for (let at = 2; fields.has(unique); at++) unique = `${name} (${at})`;
      fields.set(unique, copy(part));
    }
    return Object.fromEntries(fields);
  };
}

function maskText(text: string, forms: readonly Form[], counts: Map<string, number>): string {
  const found: { start: number; end: number; names: Set<string> }[] = [];
  for (const { name, text: form } of forms) {
    for (let at = text.indexOf(form); at >= 0; at = text.indexOf(form, at + 1))
      found.push({ start: at, end: at + form.length, names: new Set([name]) });
  }
  if (found.length === 0) return text;
  found.sort((one, other) => one.start - other.start || other.end - one.end);
  let masked = "";
  let at = 0;
  for (let index = 0; index < found.length; ) {
    const span = found[index];
    if (span === undefined) break;
    // What overlaps is one mask with every name: no part of any of them is left over.
    for (index++; (found[index]?.start ?? Infinity) < span.end; index++) {
      const other = found[index];
      if (other === undefined) break;
      if (other.end > span.end) {
        span.end = other.end;
        for (const name of other.names) span.names.add(name);
      }
    }
    for (const name of span.names) counts.set(name, (counts.get(name) ?? 0) + 1);
    masked += `${text.slice(at, span.start)}[secret ${[...span.names].join(", ")}]`;
    at = span.end;
  }
  return masked + text.slice(at);
}
