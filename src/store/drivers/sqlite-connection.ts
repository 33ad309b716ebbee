import { closeSync, openSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync, type StatementSyncInstance } from "@photostructure/sqlite";
import { QmError } from "../../core/errors.ts";
import { makePrivateFolder } from "../../files/private-folder.ts";
import type { Query, Row, SqlValue } from "../sql.ts";

/** One open database file, as synchronous as SQLite is. Throws what SQLite or the file system throws. */
export interface SqliteConnection {
  /** Settings that are written to the file or need a lock on it. May find it locked; can be tried again. */
  prepareFile(): void;
  run(query: Query): readonly Row[];
  /** One statement that answers nothing. */
  exec(text: string): void;
  inTransaction(): boolean;
  close(): void;
}

const STATEMENT_LIMIT = 256;
const BUSY_TIMEOUT_MS = 5;

export function connectSqlite(path: string): SqliteConnection {
  if (path !== ":memory:") createFile(path);
  const db = new DatabaseSync(path);
  db.exec(`pragma busy_timeout = ${BUSY_TIMEOUT_MS}`);
  const statements = new Map<string, StatementSyncInstance>();

  function prepared(text: string): StatementSyncInstance {
    const known = statements.get(text);
    if (known !== undefined) return known;
    const made = db.prepare(text);
    if (statements.size === STATEMENT_LIMIT) statements.clear();
    statements.set(text, made);
    return made;
  }

  return {
    // The same few pages take every new line: moving them to the file less often is most of what can be saved.
    prepareFile: () =>
      db.exec(
        "pragma journal_mode = wal; pragma synchronous = normal; pragma wal_autocheckpoint = 4000; pragma foreign_keys = on",
      ),
    run: (query) => prepared(query.parts.join("?")).all(...query.values.map(bound)),
    exec: (text) => void prepared(text).run(),
    inTransaction: () => db.isTransaction,
    close() {
      if (db.isOpen) db.close();
    },
  };
}

// SQLite would make it readable for everybody; its helper files take over the mode of this one.
function createFile(path: string): void {
  makePrivateFolder(dirname(path));
  closeSync(openSync(path, "a", 0o600));
}

/** Refuses what SQLite would keep as something else: NaN as NULL, text only up to its first NUL. */
function bound(value: SqlValue | undefined, at: number): string | number | bigint | null | Uint8Array {
  if (typeof value === "boolean") return value ? 1 : 0;
  const unfit =
    value === undefined ||
    (typeof value === "number" && !Number.isFinite(value)) ||
    (typeof value === "string" && value.includes("\0"));
  if (!unfit) return value;
  const what = typeof value === "string" ? "text with a NUL character" : String(value);
  throw new QmError("internal", `value ${at + 1} of a statement is ${what}, which no store can keep`);
}
