import { DatabaseSync } from "@photostructure/sqlite";
import { type Entry, textsOf } from "../corpus.ts";
import type { Ranking } from "../ranker.ts";

/** SQLite's full-text search as tool routers use it: stemmed, matching any word, with the highest weight for the name. */
export function fts5(entries: readonly Entry[]): Ranking {
  const db = new DatabaseSync(":memory:");
  db.exec(
    "create virtual table tools using fts5(id unindexed, name, server, description, parameters, tokenize='porter unicode61')",
  );
  const insert = db.prepare("insert into tools values (?, ?, ?, ?, ?)");
  db.exec("begin");
  for (const { id, action } of entries) {
    const { name, server, description, parameters } = textsOf(action);
    insert.run(id, name, server, description, parameters);
  }
  db.exec("commit");
  const select = db.prepare(
    "select id from tools where tools match ? order by bm25(tools, 0, 3.0, 1.5, 1.0, 0.5), id limit ?",
  );
  return {
    rank(query, limit) {
      const words = [...new Set(query.match(/[\p{L}\p{N}]+/gu) ?? [])];
      if (words.length === 0) return [];
      const rows = select.all(words.map((word) => `"${word}"`).join(" OR "), limit);
      return rows.map((row) => String((row as { id: unknown }).id));
    },
    close: () => db.close(),
  };
}
