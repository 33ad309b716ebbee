import type { Json } from "../core/json.ts";
import type { KnownSecret } from "../core/known-secret.ts";
import { secretValue } from "./mask.ts";
import { secretNames } from "./secret-names.ts";
import { REDACTED, redactForms, writtenForms } from "./secret-text.ts";

export interface RedactorOptions {
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
export function redactor({ names, secrets = () => [] }: RedactorOptions = {}): (value: unknown) => Json {
  const isSecretName = secretNames(names);
  const formsNow = remembered(secrets);
  return (value) => {
    try {
      return copier(isSecretName, formsNow())(value, 0);
    } catch {
      return UNREADABLE;
    }
  };
}

function copier(isSecretName: (name: string) => boolean, forms: readonly string[]) {
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
        return value === null ? null : entered(value, depth);
      default:
        return `[${typeof value}]`;
    }
  }

  function text(value: string): string {
    const copied = redactForms(value, forms, Math.max(0, Math.min(limits.text, left)));
    left -= copied.length;
    return copied;
  }

  function number(value: number): Json {
    const written = String(value);
    if (forms.some((form) => written.includes(form))) return REDACTED;
    return Number.isFinite(value) ? value : written;
  }

  function bigint(value: bigint): string {
    // Writing out a number of a million digits takes seconds.
    return value > -BIGINT_LIMIT && value < BIGINT_LIMIT ? text(String(value)) : "[bigint]";
  }

  function entered(value: object, depth: number): Json {
    if (ancestors.has(value)) return "[cycle]";
    if (depth >= limits.depth) return "[too deep]";
    ancestors.add(value);
    try {
      return opened(value, depth + 1);
    } catch {
      return UNREADABLE;
    } finally {
      ancestors.delete(value);
    }
  }

  function opened(value: object, depth: number): Json {
    if (Array.isArray(value)) return items(value, value.length, depth);
    if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`;
    if (value instanceof Set) return items(value, value.size, depth);
    if (value instanceof Map) return fields([...value.keys()], (key) => value.get(key), depth);
    if (value instanceof Error) return fields(["name", "message"], (key) => Reflect.get(value, key), depth);
    if ("toJSON" in value && typeof value.toJSON === "function") return copy(value.toJSON(), depth);
    return fields(Object.keys(value), (key) => (namesSecret(value, key) ? REDACTED : Reflect.get(value, key)), depth);
  }

  /** `{ name: "API_KEY", value: "..." }`, as environments and headers are listed. */
  function namesSecret(value: object, key: string): boolean {
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
      copies.push(typeof value === "string" && isSecretArgument(value, before) ? REDACTED : copy(value, depth));
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
      return telling && isSecretName(name) ? REDACTED : copy(value, depth);
    } catch {
      return UNREADABLE;
    }
  }
}

const BIGINT_LIMIT = 2n ** 1024n;

/** The written forms of the secrets, made anew only when the secrets have changed. */
function remembered(secrets: () => Iterable<KnownSecret>): () => readonly string[] {
  let last: readonly string[] = [];
  let forms: readonly string[] = [];
  return () => {
    const now = Array.from(secrets(), secretValue);
    if (now.length !== last.length || now.some((secret, at) => secret !== last[at])) {
      forms = writtenForms(now);
      last = now;
    }
    return forms;
  };
}
