import type { Json } from "../core/json.ts";
import type { KnownSecret, MaskedValue } from "../core/known-secret.ts";
import { createSecretNameMatcher } from "./secret-names.ts";
import { listSecretForms, REDACTED_TEXT, redactSecrets } from "./secret-text.ts";

function getSecretValue(secret: KnownSecret): string {
  return typeof secret === "string" ? secret : secret.value;
}

/**
 * Makes the function that hides known secrets from whoever must judge a call, and nothing else: each is replaced by
 * `[secret NAME]`. Unlike the ledger's redactor it never guesses, because then the caller could choose what is hidden.
 */
export function createSecretMasker(secrets: () => Iterable<KnownSecret>): (value: Json) => MaskedValue {
  return (value) => {
    const forms = listNamedForms(secrets());
    const counts = new Map<string, number>();
    const copied = createMaskingCopier(forms, counts)(value);
    return { value: copied, masked: [...counts].map(([name, times]) => ({ name, times })) };
  };
}

interface SecretForm {
  readonly name: string;
  readonly text: string;
}

function listNamedForms(secrets: Iterable<KnownSecret>): readonly SecretForm[] {
  let unnamed = 0;
  return [...secrets].flatMap((secret) => {
    const name = typeof secret === "string" ? `unnamed ${++unnamed}` : secret.name;
    return listSecretForms([getSecretValue(secret)]).map((text) => ({ name, text }));
  });
}

function createMaskingCopier(forms: readonly SecretForm[], counts: Map<string, number>) {
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

function maskText(text: string, forms: readonly SecretForm[], counts: Map<string, number>): string {
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

interface RedactorOptions {
  /** Fields that hold secrets, beside the usual ones (`password`, `api_key`, `authorization`, ...), in any spelling. */
  readonly names?: readonly string[];
  /** Secrets known by value, asked for at each use. Those under 6 characters are not looked for. */
  readonly secrets?: () => Iterable<KnownSecret>;
}

/** Objects inside objects, characters of one text, and roughly of everything together. */
const limits = { depth: 24, text: 8192, total: 65_536 };

const UNREADABLE = "[unreadable]";

/**
 * Makes the function that everything passes before it is written: a bounded JSON copy, with "[redacted]" in place of
 * secrets, known by the name of their field, by their look, or by value. It takes anything and never throws.
 */
export function createEventRedactor({ names, secrets = () => [] }: RedactorOptions = {}): (value: unknown) => Json {
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
        return text(value);
      case "number":
        return number(value);
      case "boolean":
        return value;
      case "undefined":
        return null;
      case "bigint":
        return bigint(value);
      case "object":
        return value === null ? null : copyNested(value, depth);
      default:
        return `[${typeof value}]`;
    }
  }

  function text(value: string): string {
    const copied = redactSecrets(value, forms, Math.max(0, Math.min(limits.text, left)));
    left -= copied.length;
    return copied;
  }

  function number(value: number): Json {
    const written = String(value);
    if (forms.some((form) => written.includes(form))) return REDACTED_TEXT;
    return Number.isFinite(value) ? value : written;
  }

  function bigint(value: bigint): string {
    // Writing out a number of a million digits takes seconds.
    return value > -BIGINT_LIMIT && value < BIGINT_LIMIT ? text(String(value)) : "[bigint]";
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
    if (Array.isArray(value)) return items(value, value.length, depth);
    if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`;
    if (value instanceof Set) return items(value, value.size, depth);
    if (value instanceof Map) return fields([...value.keys()], (key) => value.get(key), depth);
    if (value instanceof Error) return fields(["name", "message"], (key) => Reflect.get(value, key), depth);
    if ("toJSON" in value && typeof value.toJSON === "function") return copy(value.toJSON(), depth);
    return fields(
      Object.keys(value),
      (key) => (isNamedSecret(value, key) ? REDACTED_TEXT : Reflect.get(value, key)),
      depth,
    );
  }

  /** `{ name: "API_KEY", value: "..." }`, as environments and headers are listed. */
  function isNamedSecret(value: object, key: string): boolean {
    if (key !== "value") return false;
    const name = Reflect.get(value, "name") ?? Reflect.get(value, "key");
    return typeof name === "string" && isSecretName(name);
  }

  function items(values: Iterable<unknown>, size: number, depth: number): Json {
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

  /** In a list of arguments, what follows `--password` is one, and `name:password` after `-u`. */
  function isSecretArgument(value: string, before: unknown): boolean {
    if (typeof before !== "string" || !before.startsWith("-") || before.includes("=")) return false;
    return isSecretName(before) || (/^(?:-u|--(?:proxy-)?user)$/.test(before) && /^[^\s:]+:(?!\d+$)\S+$/.test(value));
  }

  function fields<Key>(keys: readonly Key[], read: (key: Key) => unknown, depth: number): Json {
    const copies = new Map<string, Json>();
    for (const [at, key] of keys.entries()) {
      left -= 1;
      if (left <= 0) {
        copies.set("…", `[cut: ${keys.length - at} more]`);
        break;
      }
      const name = typeof key === "string" || typeof key === "number" ? String(key) : `[${typeof key}]`;
      const value = field(name, () => read(key), depth);
      if (value !== undefined) copies.set(text(name), value);
    }
    // Not by assignment, which would take `__proto__` for something else than a name.
    return Object.fromEntries(copies);
  }

  function field(name: string, read: () => unknown, depth: number): Json | undefined {
    try {
      const value = read();
      if (value === undefined) return undefined;
      const telling = value !== null && typeof value !== "boolean" && value !== "";
      return telling && isSecretName(name) ? REDACTED_TEXT : copy(value, depth);
    } catch {
      return UNREADABLE;
    }
  }
}

const BIGINT_LIMIT = 2n ** 1024n;

/** The written forms of the secrets, made anew only when the secrets have changed. */
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
