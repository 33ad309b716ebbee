/** What can be bound. `undefined` is not among them: a forgotten value must not become NULL. */
export type SqlValue = string | number | bigint | boolean | null | Uint8Array;

/** A row as the engine gives it: no booleans, integers as numbers. */
export type Row = { readonly [column: string]: string | number | bigint | null | Uint8Array };

/** SQL with its values apart: a value stands between each two parts, written as the driver's placeholder. */
export interface Query {
  readonly parts: readonly string[];
  readonly values: readonly SqlValue[];
}

/** SQL written once for all engines; what only one of them understands lives in its driver. */
export interface Sql {
  all(query: Query): Promise<readonly Row[]>;
  /**
   * Runs `work` in one transaction; a throw rolls back and is thrown on. Inside, only the given `Sql` may be waited
   * for: the outer one is let in when the transaction has ended. A transaction inside a transaction can fail alone.
   */
  transaction<T>(work: (sql: Sql) => Promise<T>): Promise<T>;
}

/** The words of table definitions in which engines differ. */
export interface Dialect {
  readonly name: "sqlite" | "postgres";
  /** The type of a primary key that the engine counts up. */
  readonly identity: Query;
  /** The type of a column of bytes. */
  readonly bytes: Query;
}

export interface SqlDriver extends Sql {
  readonly dialect: Dialect;
  /** Waits for what was asked for before; afterwards every statement is refused. */
  close(): Promise<void>;
}

/** Tags a template as SQL: values are bound, queries are spliced in. */
export function sql(strings: TemplateStringsArray, ...inserts: readonly (SqlValue | Query)[]): Query {
  if (!inserts.some(isQuery)) return { parts: strings, values: inserts as readonly SqlValue[] };
  const pieces = strings.flatMap((text, at) => {
    const insert = inserts[at];
    const piece = { parts: [text], values: [] };
    if (at === inserts.length) return [piece];
    return [piece, isQuery(insert) ? insert : { parts: ["", ""], values: [insert as SqlValue] }];
  });
  return join(pieces, "");
}

/** One query after the other with `separator` between: a list of values, of rows, of conditions. */
export function join(queries: readonly Query[], separator: string): Query {
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

function isQuery(insert: SqlValue | Query | undefined): insert is Query {
  return typeof insert === "object" && insert !== null && "parts" in insert;
}
