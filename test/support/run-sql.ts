import { DatabaseSync } from "@photostructure/sqlite";

/** Changes a SQLite file behind the back of the store. */
export function runSql(path: string, text: string): void {
  const db = new DatabaseSync(path);
  db.exec(text);
  db.close();
}
