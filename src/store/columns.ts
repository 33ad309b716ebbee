import { QmError } from "../core/errors.ts";
import { isRecord } from "../core/json.ts";
import type { Row } from "./sql.ts";

/** Half a surrogate pair and NUL have no place in a text column; a column of JSON has them escaped. */
export function keepable(text: string): string;
export function keepable(text: string | undefined): string | null;
export function keepable(text: string | undefined): string | null {
  return text === undefined ? null : text.replace(/\p{Surrogate}|\0/gu, "\uFFFD");
}

/** Of `undefined`, nothing: a column that is null is a field that is not there. */
export function optional<Key extends string, T>(
  key: Key,
  value: Row[string] | undefined,
  read: (value: Row[string]) => T,
): { readonly [K in Key]?: T } {
  if (value === null || value === undefined) return {};
  return { [key]: read(value) } as { readonly [K in Key]: T };
}

/** The object in a column of JSON. Throws `store_failed` where it holds none: somebody else has written there. */
export function storedObject<T extends object>(row: Row, column: string, what: string): T {
  const value = parsed(row[column]);
  if (isRecord(value)) return value as T;
  throw damaged(what, column);
}

/** The list of objects in a column of JSON. Throws `store_failed` as well. */
export function storedList<T extends object>(row: Row, column: string, what: string): readonly T[] {
  const value = parsed(row[column]);
  if (Array.isArray(value) && value.every(isRecord)) return value as readonly T[];
  throw damaged(what, column);
}

export function damaged(what: string, column: string): QmError {
  return new QmError("store_failed", `${what} is damaged in the store: its ${column} cannot be read`, {
    hint: "Something else has written to the store. Restore it from a backup, or remove this one row.",
  });
}

/** What can be read; one damaged row must not hide the others. Whoever asks for it by its id is told. */
export function readable<T>(rows: readonly Row[], read: (row: Row) => T): readonly T[] {
  return rows.flatMap((row) => {
    try {
      return [read(row)];
    } catch (thrown) {
      if (thrown instanceof QmError && thrown.code === "store_failed") return [];
      throw thrown;
    }
  });
}

function parsed(value: Row[string] | undefined): unknown {
  try {
    return JSON.parse(String(value));
  } catch {
    return undefined;
  }
}
