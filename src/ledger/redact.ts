import type { Json } from "../core/json.ts";
import type { KnownSecret, MaskedValue } from "../core/known-secret.ts";
import { createSecretNameMatcher } from "./secret-names.ts";
import { findAll, listSecretForms, REDACTED_TEXT, redactSecrets } from "./secret-text.ts";

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

const getSecretValue = (secret: KnownSecret): string => (typeof secret === "string" ? secret : secret.value);

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

/** The most nested objects, characters of one text, and characters in all (roughly). */
const limits = { depth: 24, text: 8192, total: 65_536 };
/** Formatting a number of a million digits takes seconds. */
const BIGINT_LIMIT = 2n ** 1024n;
const UNREADABLE = "[unreadable]";

/** Makes a bounded JSON copy without secrets, found by field name, shape or value. Never throws. */
export function createEventRedactor(
  options: {
    /** More names of secret fields, beside `password`, `api_key`, `authorization` and the like, in any spelling. */
    readonly names?: readonly string[];
    /** Secrets known by value, read at each use. Those under 6 characters are ignored. */
    readonly secrets?: () => Iterable<KnownSecret>;
  } = {},
): (value: unknown) => Json {
  const { names, secrets = () => [] } = options;
  const isSecretName = createSecretNameMatcher(names);
  const getForms = cacheForms(secrets);
  return (value) => {
    try {
      return createRedactingCopier(isSecretName, getForms())(value, 0);
    } catch {
      return UNREADABLE;
    }
  };
}

function createRedactingCopier(isSecretName: (name: string) => boolean, forms: readonly string[]) {
  const ancestors = new Set<object>();
  let left = limits.total;
  return copy;

  function copy(value: unknown, depth: number): Json {
    left -= 1;
    switch (typeof value) {
      case "string":
        return copyText(value);
      case "number": {
        const written = String(value);
        if (forms.some((form) => written.includes(form))) return REDACTED_TEXT;
        return Number.isFinite(value) ? value : written;
      }
      case "boolean":
        return value;
      case "undefined":
        return null;
      case "bigint":
        return value > -BIGINT_LIMIT && value < BIGINT_LIMIT ? copyText(String(value)) : "[bigint]";
      case "object":
        return value === null ? null : copyNested(value, depth);
      default:
        return `[${typeof value}]`;
    }
  }

  function copyText(value: string): string {
    const copied = redactSecrets(value, forms, Math.max(0, Math.min(limits.text, left)));
    left -= copied.length;
    return copied;
  }

  function copyNested(value: object, depth: number): Json {
    if (ancestors.has(value)) return "[cycle]";
    if (depth >= limits.depth) return "[too deep]";
    ancestors.add(value);
    try {
      return copyObject(value, depth + 1);
    } catch {
      return UNREADABLE;
    } finally {
      ancestors.delete(value);
    }
  }

  function copyObject(value: object, depth: number): Json {
    if (Array.isArray(value)) return copyItems(value, value.length, depth);
    if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`;
    if (value instanceof Set) return copyItems(value, value.size, depth);
    if (value instanceof Map) return copyFields([...value.keys()], (key) => value.get(key), depth);
    if (value instanceof Error) return copyFields(["name", "message"], (key) => Reflect.get(value, key), depth);
    if ("toJSON" in value && typeof value.toJSON === "function") return copy(value.toJSON(), depth);
    const read = (key: string): unknown => (isNamedSecret(value, key) ? REDACTED_TEXT : Reflect.get(value, key));
    return copyFields(Object.keys(value), read, depth);
  }

  /** Environments and headers are listed as `{ name: "API_KEY", value: "..." }`. */
  function isNamedSecret(value: object, key: string): boolean {
    if (key !== "value") return false;
    const name = Reflect.get(value, "name") ?? Reflect.get(value, "key");
    return typeof name === "string" && isSecretName(name);
  }

  function copyItems(values: Iterable<unknown>, size: number, depth: number): Json {
    const copies: Json[] = [];
    let before: unknown;
    for (const value of values) {
      if (left <= 0) {
        copies.push(`[cut: ${size - copies.length} more]`);
        break;
      }
      copies.push(typeof value === "string" && isSecretArgument(value, before) ? REDACTED_TEXT : copy(value, depth));
      before = value;
    }
    return copies;
  }

  /** In a list of arguments, the item after `--password` is a secret, and so is `name:password` after `-u`. */
  function isSecretArgument(value: string, before: unknown): boolean {
    if (typeof before !== "string" || !before.startsWith("-") || before.includes("=")) return false;
    return isSecretName(before) || (/^(?:-u|--(?:proxy-)?user)$/.test(before) && /^[^\s:]+:(?!\d+$)\S+$/.test(value));
  }

  function copyFields<Key>(keys: readonly Key[], read: (key: Key) => unknown, depth: number): Json {
    const copies = new Map<string, Json>();
    for (const [at, key] of keys.entries()) {
      left -= 1;
      if (left <= 0) {
        copies.set("…", `[cut: ${keys.length - at} more]`);
        break;
      }
      const name = typeof key === "string" || typeof key === "number" ? String(key) : `[${typeof key}]`;
      const value = copyField(name, () => read(key), depth);
      if (value !== undefined) copies.set(copyText(name), value);
    }
    // Plain assignment would not treat `__proto__` as a name.
    return Object.fromEntries(copies);
  }

  function copyField(name: string, read: () => unknown, depth: number): Json | undefined {
    try {
      const value = read();
      if (value === undefined) return undefined;
      const canBeSecret = value !== null && typeof value !== "boolean" && value !== "";
      return canBeSecret && isSecretName(name) ? REDACTED_TEXT : copy(value, depth);
    } catch {
      return UNREADABLE;
    }
  }
}

function cacheForms(secrets: () => Iterable<KnownSecret>): () => readonly string[] {
  let last: readonly string[] = [];
  let forms: readonly string[] = [];
  return () => {
    const now = Array.from(secrets(), getSecretValue);
    if (now.length !== last.length || now.some((secret, at) => secret !== last[at])) {
      forms = listSecretForms(now);
      last = now;
    }
    return forms;
  };
}
