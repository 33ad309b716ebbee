/** A value that can be bound. `undefined` is not one: a forgotten value must not become NULL. */
export type SqlValue = string | number | bigint | boolean | null | Uint8Array;
/** A row as the engine returns it: no booleans, integers as numbers. */
export type SqlRow = { readonly [column: string]: string | number | bigint | null | Uint8Array };
/** SQL text and its bound values. The driver writes its placeholder for a value between each two parts. */
export type SqlQuery = { readonly parts: readonly string[]; readonly values: readonly SqlValue[] };

/** SQL that every engine understands; anything specific to one engine is in its driver. */
export interface Sql {
  all(query: SqlQuery): Promise<readonly SqlRow[]>;
  /**
   * Runs `work` in one transaction and rolls back if it throws. Inside, await only the given `Sql`: the outer one waits
   * until the transaction has ended. A nested transaction can fail alone.
   */
  transaction<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
}

export interface SqlDialect {
  readonly name: "sqlite" | "postgres";
  /** The type of a primary key that the engine counts up. */
  readonly identity: SqlQuery;
  readonly bytes: SqlQuery;
}

export interface SqlDriver extends Sql {
  readonly dialect: SqlDialect;
  /** Waits for pending statements, then refuses every further one. */
  close(): Promise<void>;
}

/** Tags a template as SQL: values are bound, queries are spliced in. */
export function sql(strings: TemplateStringsArray, ...inserts: readonly (SqlValue | SqlQuery)[]): SqlQuery {
  if (!inserts.some(isQuery)) return { parts: strings, values: inserts as readonly SqlValue[] };
  const pieces = strings.flatMap((text, at) => {
    const insert = inserts[at];
    const piece = { parts: [text], values: [] };
    if (at === inserts.length) return [piece];
    return [piece, isQuery(insert) ? insert : bindValue(insert as SqlValue)];
  });
  return joinQueries(pieces, "");
}

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

const isQuery = (insert: SqlValue | SqlQuery | undefined): insert is SqlQuery =>
  typeof insert === "object" && insert !== null && "parts" in insert;
const bindValue = (value: SqlValue): SqlQuery => ({ parts: ["", ""], values: [value] });

/** The values as the list of an `in (…)`. An empty list matches nothing. */
export function bindList(values: Iterable<SqlValue>): SqlQuery {
  const list = Array.from(values, bindValue);
  return list.length === 0 ? sql`null` : joinQueries(list, ", ");
}

// Engines limit the bound values of one statement; a row has up to 13.
const BATCH_SIZE = 500;

/** Splits a list into parts that fit into one statement. */
export function* splitIntoBatches<T>(list: readonly T[], size = BATCH_SIZE): Generator<readonly T[]> {
  for (let at = 0; at < list.length; at += size) yield list.slice(at, at + size);
}

/** A `where` clause of all the conditions, or nothing if there are none. */
export const whereAll = (conditions: readonly SqlQuery[]): SqlQuery =>
  conditions.length === 0 ? sql`` : sql`where ${joinQueries(conditions, " and ")}`;

/** One `column = text` for each text that is defined. The columns are trusted SQL. */
export const matchTexts = (
  columns: { readonly [column: string]: string | undefined },
  encode: (text: string) => string = toStorableText,
): SqlQuery[] =>
  Object.entries(columns).flatMap(([column, text]) =>
    text === undefined ? [] : [{ parts: [`${column} = `, ""], values: [encode(text)] }],
  );

/** Creates a tag that runs its statement, which has a `returning`, and tells whether it wrote a row. */
export function createWriteTag(db: Sql): (...template: Parameters<typeof sql>) => Promise<boolean> {
  return async (...template) => (await db.all(sql(...template))).length > 0;
}

/** Replaces NUL and lone surrogates, which a text column cannot hold. JSON columns have them escaped. */
export function toStorableText(text: string): string;
export function toStorableText(text: string | undefined): string | null;
export function toStorableText(text: string | undefined): string | null {
  if (text === undefined) return null;
  // Most texts have neither, and testing is faster than replacing nothing.
  return /[\0\ud800-\udfff]/.test(text) ? text.replace(/\p{Surrogate}|\0/gu, "\uFFFD") : text;
}
