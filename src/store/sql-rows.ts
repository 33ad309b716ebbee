import { QmError } from "../core/errors.ts";
import { isRecord } from "../core/json.ts";
import type { LeaseHolder } from "../core/lease.ts";
import { type SqlQuery, type SqlRow, sql, toStorableText } from "./sql.ts";

/** An object with this field, or without it where the column is null. */
export function optionalField<Key extends string, T>(
  key: Key,
  value: SqlRow[string] | undefined,
  read: (value: SqlRow[string]) => T,
): { readonly [K in Key]?: T } {
  if (value === null || value === undefined) return {};
  return { [key]: read(value) } as { readonly [K in Key]: T };
}

/** Sets the columns of the process that has a row. Undefined: none has it. */
export const setHolder = (holder: LeaseHolder | undefined): SqlQuery => sql`
  holder = ${holder?.id ?? null}, holder_pid = ${holder?.pid ?? null}, holder_host = ${toStorableText(holder?.host)},
  lease_until = ${holder?.leaseUntil.toISOString() ?? null}`;

/** Whether a row still has the holder that was read. One that has renewed its lease in the meantime keeps it. */
export const matchHolder = (seen: LeaseHolder | undefined): SqlQuery =>
  seen === undefined
    ? sql`holder is null`
    : sql`holder = ${seen.id} and lease_until = ${seen.leaseUntil.toISOString()}`;

/** An object with the process that has a row, or an empty one. */
export const readHolder = (row: SqlRow): { readonly holder?: LeaseHolder } =>
  optionalField("holder", row.holder, (id) => ({
    id: String(id),
    pid: Number(row.holder_pid),
    host: String(row.holder_host),
    leaseUntil: new Date(String(row.lease_until)),
  }));

export function readTexts<K extends string>(row: SqlRow, columns: Record<K, string>): Record<K, string> {
  const entries = Object.entries<string>(columns).map(([field, column]) => [field, String(row[column])]);
  return Object.fromEntries(entries) as Record<K, string>;
}

/** Reads an object from a JSON column. Throws `store_failed` if it holds something else. */
export function readJsonObject<T extends object>(row: SqlRow, column: string, what: string): T {
  const value = tryParseJson(row[column]);
  if (isRecord(value)) return value as T;
  throw damagedRowError(what, column);
}

/** Reads a list of objects from a JSON column. Throws `store_failed` if it holds something else. */
export function readJsonList<T extends object>(row: SqlRow, column: string, what: string): readonly T[] {
  const value = tryParseJson(row[column]);
  if (Array.isArray(value) && value.every(isRecord)) return value as readonly T[];
  throw damagedRowError(what, column);
}

/** Reads one of the known texts. Throws `store_failed` if the column holds another. */
export function readKnownText<T extends string>(row: SqlRow, column: string, known: readonly T[], what: string): T {
  const text = known.find((each) => each === row[column]);
  if (text === undefined) throw damagedRowError(what, column);
  return text;
}

export function damagedRowError(what: string, column: string): QmError {
  return new QmError("store_failed", `${what} is damaged in the store: its ${column} cannot be read`, {
    hint: "Another program has written to the store. Restore it from a backup, or remove this row.",
  });
}

/** Leaves out damaged rows, so that one of them does not hide the others. */
export const readIntactRows = <T>(rows: readonly SqlRow[], read: (row: SqlRow) => T): readonly T[] =>
  rows.flatMap((row) => {
    try {
      return [read(row)];
    } catch (thrown) {
      if (thrown instanceof QmError && thrown.code === "store_failed") return [];
      throw thrown;
    }
  });

function tryParseJson(value: SqlRow[string] | undefined): unknown {
  try {
    return JSON.parse(String(value));
  } catch {
    return undefined;
  }
}
