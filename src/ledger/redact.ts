import type { Json } from "../core/json.ts";
import type { KnownSecret } from "../core/known-secret.ts";
import { createSecretNameMatcher } from "./secret-names.ts";
import { findSecretSpans, getSecretValue, listSecretForms, REDACTED_TEXT, redactSecrets } from "./secret-text.ts";

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
  const { names, secrets } = options;
  const isSecretName = createSecretNameMatcher(names);
  const getForms = secrets === undefined ? () => NO_FORMS : cacheForms(secrets);
  const clean = createCleanTexts();
  return (value) => {
    try {
      return new RedactingCopier(isSecretName, getForms(), clean).copy(value, 0);
    } catch {
      return UNREADABLE;
    }
  };
}

const CLEAN_TEXT_LENGTH = 64;
const CLEAN_TEXTS = 1000;

/** Remembers short texts without secrets: the same few are in every event, and each event has the id of its call. */
function createCleanTexts() {
  const known = new Set<string>();
  let knownFor = NO_FORMS;
  return (text: string, forms: readonly string[]): boolean => {
    if (text.length > CLEAN_TEXT_LENGTH) return false;
    if (forms !== knownFor) {
      known.clear();
      knownFor = forms;
    }
    if (known.has(text)) return true;
    if (findSecretSpans(text, forms).length > 0) return false;
    if (known.size === CLEAN_TEXTS) known.clear();
    known.add(text);
    return true;
  };
}

class RedactingCopier {
  readonly #isSecretName: (name: string) => boolean;
  readonly #forms: readonly string[];
  readonly #isClean: (text: string, forms: readonly string[]) => boolean;
  readonly #ancestors: object[] = [];
  #left = limits.total;

  constructor(
    isSecretName: (name: string) => boolean,
    forms: readonly string[],
    isClean: (text: string, forms: readonly string[]) => boolean,
  ) {
    this.#isSecretName = isSecretName;
    this.#forms = forms;
    this.#isClean = isClean;
  }

  copy(value: unknown, depth: number): Json {
    this.#left -= 1;
    switch (typeof value) {
      case "string":
        return this.#copyText(value);
      case "number": {
        if (this.#forms.length === 0 && Number.isFinite(value)) return value;
        const written = String(value);
        if (this.#forms.some((form) => written.includes(form))) return REDACTED_TEXT;
        return Number.isFinite(value) ? value : written;
      }
      case "boolean":
        return value;
      case "undefined":
        return null;
      case "bigint":
        return value > -BIGINT_LIMIT && value < BIGINT_LIMIT ? this.#copyText(String(value)) : "[bigint]";
      case "object":
        return value === null ? null : this.#copyNested(value, depth);
      default:
        return `[${typeof value}]`;
    }
  }

  #copyText(value: string): string {
    const limit = Math.max(0, Math.min(limits.text, this.#left));
    const isWhole = value.length <= limit && this.#isClean(value, this.#forms);
    const copied = isWhole ? value : redactSecrets(value, this.#forms, limit);
    this.#left -= copied.length;
    return copied;
  }

  #copyNested(value: object, depth: number): Json {
    if (this.#ancestors.includes(value)) return "[cycle]";
    if (depth >= limits.depth) return "[too deep]";
    this.#ancestors.push(value);
    try {
      return this.#copyObject(value, depth + 1);
    } catch {
      return UNREADABLE;
    } finally {
      this.#ancestors.pop();
    }
  }

  #copyObject(value: object, depth: number): Json {
    if (Array.isArray(value)) return this.#copyItems(value, value.length, depth);
    if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`;
    if (value instanceof Set) return this.#copyItems(value, value.size, depth);
    if (value instanceof Map) return this.#copyFields([...value.keys()], (key) => value.get(key), depth);
    if (value instanceof Error) return this.#copyFields(["name", "message"], (key) => Reflect.get(value, key), depth);
    if ("toJSON" in value && typeof value.toJSON === "function") return this.copy(value.toJSON(), depth);
    const read = (key: string): unknown => (this.#isNamedSecret(value, key) ? REDACTED_TEXT : Reflect.get(value, key));
    return this.#copyFields(Object.keys(value), read, depth);
  }

  /** Environments and headers are listed as `{ name: "API_KEY", value: "..." }`. */
  #isNamedSecret(value: object, key: string): boolean {
    if (key !== "value") return false;
    const name = Reflect.get(value, "name") ?? Reflect.get(value, "key");
    return typeof name === "string" && this.#isSecretName(name);
  }

  #copyItems(values: Iterable<unknown>, size: number, depth: number): Json {
    const copies: Json[] = [];
    let before: unknown;
    for (const value of values) {
      if (this.#left <= 0) {
        copies.push(`[cut: ${size - copies.length} more]`);
        break;
      }
      const isSecret = typeof value === "string" && this.#isSecretArgument(value, before);
      copies.push(isSecret ? REDACTED_TEXT : this.copy(value, depth));
      before = value;
    }
    return copies;
  }

  /** In a list of arguments, the item after `--password` is a secret, and so is `name:password` after `-u`. */
  #isSecretArgument(value: string, before: unknown): boolean {
    if (typeof before !== "string" || !before.startsWith("-") || before.includes("=")) return false;
    if (this.#isSecretName(before)) return true;
    return /^(?:-u|--(?:proxy-)?user)$/.test(before) && /^[^\s:]+:(?!\d+$)\S+$/.test(value);
  }

  #copyFields<Key>(keys: readonly Key[], read: (key: Key) => unknown, depth: number): Json {
    const copies: Record<string, Json> = {};
    for (const [at, key] of keys.entries()) {
      this.#left -= 1;
      if (this.#left <= 0) {
        copies["…"] = `[cut: ${keys.length - at} more]`;
        break;
      }
      const name = typeof key === "string" || typeof key === "number" ? String(key) : `[${typeof key}]`;
      const value = this.#copyField(name, key, read, depth);
      if (value !== undefined) setField(copies, this.#copyText(name), value);
    }
    return copies;
  }

  #copyField<Key>(name: string, key: Key, read: (key: Key) => unknown, depth: number): Json | undefined {
    try {
      const value = read(key);
      if (value === undefined) return undefined;
      const canBeSecret = value !== null && typeof value !== "boolean" && value !== "";
      return canBeSecret && this.#isSecretName(name) ? REDACTED_TEXT : this.copy(value, depth);
    } catch {
      return UNREADABLE;
    }
  }
}

function setField(record: Record<string, Json>, name: string, value: Json): void {
  if (name !== "__proto__") record[name] = value;
  // Plain assignment would not treat it as a name.
  else Object.defineProperty(record, name, { value, enumerable: true, configurable: true, writable: true });
}

const NO_FORMS: readonly string[] = [];

function cacheForms(secrets: () => Iterable<KnownSecret>): () => readonly string[] {
  let last: readonly string[] = [];
  let forms = NO_FORMS;
  return () => {
    const now = Array.from(secrets(), getSecretValue);
    if (now.length !== last.length || now.some((secret, at) => secret !== last[at])) {
      forms = listSecretForms(now);
      last = now;
    }
    return forms;
  };
}
