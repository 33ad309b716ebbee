import { QmError } from "../core/errors.ts";
import { isRecord } from "../core/json.ts";

// Engines bound the values of one statement; a row has up to 13.
const BATCH_SIZE = 500;

/** A list in parts that one statement can take. */
export function* splitIntoBatches<T>(list: readonly T[]): Generator<readonly T[]> {
  for (let at = 0; at < list.length; at += BATCH_SIZE) yield list.slice(at, at + BATCH_SIZE);
}

/** What can be bound. `undefined` is not among them: a forgotten value must not become NULL. */
export type SqlValue = string | number | bigint | boolean | null | Uint8Array;

/** A row as the engine gives it: no booleans, integers as numbers. */
export type SqlRow = { readonly [column: string]: string | number | bigint | null | Uint8Array };

/** SQL with its values apart: a value stands between each two parts, written as the driver's placeholder. */
export interface SqlQuery {
  readonly parts: readonly string[];
  readonly values: readonly SqlValue[];
}

/** SQL written once for all engines; what only one of them understands lives in its driver. */
export interface Sql {
  all(query: SqlQuery): Promise<readonly SqlRow[]>;
  /**
   * Runs `work` in one transaction; a throw rolls back and is thrown on. Inside, only the given `Sql` may be waited
   * for: the outer one is let in when the transaction has ended. A transaction inside a transaction can fail alone.
   */
  transaction<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
}

/** The words of table definitions in which engines differ. */
export interface SqlDialect {
  readonly name: "sqlite" | "postgres";
  /** The type of a primary key that the engine counts up. */
  readonly identity: SqlQuery;
  /** The type of a column of bytes. */
  readonly bytes: SqlQuery;
}

export interface SqlDriver extends Sql {
  readonly dialect: SqlDialect;
  /** Waits for what was asked for before; afterwards every statement is refused. */
  close(): Promise<void>;
}

/** Tags a template as SQL: values are bound, queries are spliced in. */
export function sql(strings: TemplateStringsArray, ...inserts: readonly (SqlValue | SqlQuery)[]): SqlQuery {
  if (!inserts.some(isQuery)) return { parts: strings, values: inserts as readonly SqlValue[] };
  const pieces = strings.flatMap((text, at) => {
    const insert = inserts[at];
    const piece = { parts: [text], values: [] };
    if (at === inserts.length) return [piece];
    return [piece, isQuery(insert) ? insert : { parts: ["", ""], values: [insert as SqlValue] }];
  });
  return joinQueries(pieces, "");
}

/** One query after the other with `separator` between: a list of values, of rows, of conditions. */
export function joinQueries(queries: readonly SqlQuery[], separator: string): SqlQuery {
  const parts: string[] = [];
  const values: SqlValue[] = [];
  let open = "";
  queries.forEach((query, at) => {
    if (at > 0) open += separator;
    query.parts.forEach((part, index) => {
      if (index > 0) {
        parts.push(open);
        open = "";
      }
      open += part;
    });
    values.push(...query.values);
  });
  return { parts: [...parts, open], values };
}

function isQuery(insert: SqlValue | SqlQuery | undefined): insert is SqlQuery {
  return typeof insert === "object" && insert !== null && "parts" in insert;
}

/** Half a surrogate pair and NUL have no place in a text column; a column of JSON has them escaped. */
export function toStorableText(text: string): string;
export function toStorableText(text: string | undefined): string | null;
export function toStorableText(text: string | undefined): string | null {
  return text === undefined ? null : text.replace(/\p{Surrogate}|\0/gu, "\uFFFD");
}

/** Of `undefined`, nothing: a column that is null is a field that is not there. */
export function optionalField<Key extends string, T>(
  key: Key,
  value: SqlRow[string] | undefined,
  read: (value: SqlRow[string]) => T,
): { readonly [K in Key]?: T } {
  if (value === null || value === undefined) return {};
  return { [key]: read(value) } as { readonly [K in Key]: T };
}

/** The object in a column of JSON. Throws `store_failed` where it holds none: somebody else has written there. */
export function readJsonObject<T extends object>(row: SqlRow, column: string, what: string): T {
  const value = tryParseJson(row[column]);
  if (isRecord(value)) return value as T;
  throw damagedRowError(what, column);
}

/** The list of objects in a column of JSON. Throws `store_failed` as well. */
export function readJsonList<T extends object>(row: SqlRow, column: string, what: string): readonly T[] {
  const value = tryParseJson(row[column]);
  if (Array.isArray(value) && value.every(isRecord)) return value as readonly T[];
  throw damagedRowError(what, column);
}

export function damagedRowError(what: string, column: string): QmError {
  return new QmError("store_failed", `${what} is damaged in the store: its ${column} cannot be read`, {
    hint: "Something else has written to the store. Restore it from a backup, or remove this one row.",
  });
}

/** What can be read; one damaged row must not hide the others. Whoever asks for it by its id is told. */
export function readIntactRows<T>(rows: readonly SqlRow[], read: (row: SqlRow) => T): readonly T[] {
  return rows.flatMap((row) => {
    try {
      return [read(row)];
    } catch (thrown) {
      if (thrown instanceof QmError && thrown.code === "store_failed") return [];
      throw thrown;
    }
  });
}

function tryParseJson(value: SqlRow[string] | undefined): unknown {
  try {
    return JSON.parse(String(value));
  } catch {
    return undefined;
  }
}
