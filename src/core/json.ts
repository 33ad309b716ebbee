export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };
export type JsonObject = { readonly [key: string]: Json };

type WithoutUndefined<T> = { [K in keyof T as undefined extends T[K] ? never : K]: T[K] } & {
  [K in keyof T as undefined extends T[K] ? K : never]?: Exclude<T[K], undefined>;
};

export function omitUndefined<const T extends object>(value: T): WithoutUndefined<T> {
  const parts = Object.entries(value);
  const kept = parts.filter(([, part]) => part !== undefined);
  return (kept.length === parts.length ? { ...value } : Object.fromEntries(kept)) as WithoutUndefined<T>;
}

export function getOrCreate<K, V>(
  map: { get(key: K): V | undefined; set(key: K, value: V): unknown },
  key: K,
  create: () => V,
): V {
  const found = map.get(key);
  if (found !== undefined) return found;
  const created = create();
  map.set(key, created);
  return created;
}

export const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** An own property or undefined. Names come from models, so `constructor` and `__proto__` must not be found. */
export const getOwn = <T>(record: { readonly [key: string]: T }, key: string): T | undefined =>
  Object.hasOwn(record, key) ? record[key] : undefined;

/** JSON with sorted keys and no spaces, so that equal values give equal text. Otherwise like `JSON.stringify`. */
export const canonicalJson = (value: unknown): string =>
  (isInOrder(value) ? JSON.stringify(value) : writeCanonical(value)) ?? "null";

/** Whether it is plain and its keys are sorted already, so that `JSON.stringify`, which is faster, writes the same. */
function isInOrder(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return true;
  if (Array.isArray(value)) return value.every(isInOrder);
  const prototype: unknown = Object.getPrototypeOf(value);
  if ((prototype !== Object.prototype && prototype !== null) || "toJSON" in value) return false;
  let before = "";
  for (const key in value) {
    if (key < before || !isInOrder((value as Record<string, unknown>)[key])) return false;
    before = key;
  }
  return true;
}

function writeCanonical(value: unknown): string | undefined {
  if (typeof value === "string") return quote(value);
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map((part) => writeCanonical(part) ?? "null").join(",")}]`;
  if ("toJSON" in value && typeof value.toJSON === "function") return writeCanonical(value.toJSON());
  const record = value as Record<string, unknown>;
  let fields = "";
  for (const key of listSortedKeys(record)) {
    const text = writeCanonical(record[key]);
    if (text !== undefined) fields += `${fields === "" ? "" : ","}${quote(key)}:${text}`;
  }
  return `{${fields}}`;
}

/** Most names and short texts need no escapes, and `JSON.stringify` costs more than to see that. */
const quote = (text: string): string =>
  text.length <= 64 && /^[ !#-[\]-~]*$/.test(text) ? `"${text}"` : JSON.stringify(text);

function listSortedKeys(record: object): readonly string[] {
  const keys = Object.keys(record);
  for (let at = 1; at < keys.length; at++) if ((keys[at - 1] ?? "") > (keys[at] ?? "")) return keys.sort();
  return keys;
}

/** Whether a value has more parts or levels. Stops at the limit without recursion, so it is safe on cycles. */
export function isLargerThan(
  value: unknown,
  limits: { readonly nodes: number; readonly depth: number; readonly fields?: number },
): boolean {
  const open = [{ value, depth: 0 }];
  let fields = 0;
  for (let nodes = 1, next = open.pop(); next !== undefined; nodes++, next = open.pop()) {
    if (nodes > limits.nodes || next.depth > limits.depth) return true;
    if (typeof next.value !== "object" || next.value === null) continue;
    const parts: readonly unknown[] = Array.isArray(next.value) ? next.value : Object.values(next.value);
    if (parts !== next.value) fields += parts.length;
    if (limits.fields !== undefined && fields > limits.fields) return true;
    for (const part of parts) open.push({ value: part, depth: next.depth + 1 });
  }
  return false;
}

/** A field of an object costs far more than an item of a list. */
export const OBJECT_FIELD_LIMIT = 20_000;

/** Whether a parsed value has an object with more fields than the limit. */
export function hasWideObject(value: unknown): boolean {
  const open: unknown[] = [value];
  for (let part = open.pop(); part !== undefined; part = open.pop()) {
    if (typeof part !== "object" || part === null) continue;
    if (!Array.isArray(part) && Object.keys(part).length > OBJECT_FIELD_LIMIT) return true;
    for (const inner of Object.values(part)) if (typeof inner === "object" && inner !== null) open.push(inner);
  }
  return false;
}

export const cloneFrozen = <T>(value: T): T => deepFreeze(structuredClone(value));

export function isDeepFrozen(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return true;
  return Object.isFrozen(value) && Object.values(value).every(isDeepFrozen);
}

function deepFreeze<T>(value: T): T {
  if (typeof value === "object" && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const part of Object.values(value)) deepFreeze(part);
  }
  return value;
}

/** The first `limit` characters, ending in an ellipsis if cut. Never splits a surrogate pair. */
export function clip(text: string, limit: number): string {
  if (text.length <= limit) return text;
  const cut = text.slice(0, limit - 1);
  return `${/[\uD800-\uDBFF]$/.test(cut) ? cut.slice(0, -1) : cut}…`;
}
