import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { AGAIN, FOUND, LEAST, PAGE, type Records, WORD } from "./records.ts";
import type { Side } from "./side.ts";

/** SQL written for these records: one row with JSON for each, and a prepared full-text index. */
export function byHand({ orders, customers }: Records): Side {
  const folder = mkdtempSync(join(tmpdir(), "qm-bench-"));
  const db = new DatabaseSync(join(folder, "by-hand.db"));
  db.exec("pragma journal_mode = wal; pragma synchronous = normal");
  db.exec("create table made (id integer primary key, run integer, content text not null)");
  db.exec("create table orders (id integer primary key, content text not null)");
  db.exec("create table customers (id integer primary key, content text not null)");
  db.exec("create table chosen (run integer, id integer)");
  db.exec("create table joined (run integer, content text)");
  db.exec("create virtual table words using fts5(content)");
  const fill = (table: string, rows: readonly unknown[]): void => {
    const insert = db.prepare(`insert into ${table} (content) values (?)`);
    db.exec("begin");
    for (const row of rows) insert.run(JSON.stringify(row));
    db.exec("commit");
  };
  fill("orders", orders);
  fill("customers", customers);
  fill("words", orders);
  const insert = db.prepare("insert into made (run, content) values (?, ?)");
  const load = db.prepare("select content from orders order by id limit ? offset ?");
  const all = db.prepare("select content from orders order by id");
  const filter = db.prepare(
    "insert into chosen select ?, id from orders where json_extract(content, '$.amount') >= ? and json_extract(content, '$.status') = 'open'",
  );
  const joining = db.prepare(
    `insert into joined select ?, json_patch(o.content, json_object('region', json_extract(c.content, '$.region')))
     from orders o join customers c on json_extract(c.content, '$.id') = json_extract(o.content, '$.customer')`,
  );
  const search = db.prepare("select rowid, content from words where words match ? order by bm25(words) limit ?");
  const find = () => parsed(search.all(WORD, FOUND)).length;
  let run = 0;
  db.exec("create index customers_by_id on customers (json_extract(content, '$.id'))");

  return {
    name: "SQLite by hand",
    create() {
      run++;
      db.exec("begin");
      for (const order of orders) insert.run(run, JSON.stringify(order));
      db.exec("commit");
      return orders.length;
    },
    load: () => parsed(load.all(PAGE, orders.length / 2)).length,
    "read all": () => parsed(all.all()).length,
    filter: () => Number(filter.run(++run, LEAST).changes),
    join: () => Number(joining.run(++run).changes),
    search: find,
    "search again": () => Array.from({ length: AGAIN }, find).reduce((sum, found) => sum + found, 0),
    close() {
      db.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function parsed(rows: readonly unknown[]): readonly unknown[] {
  return rows.map((row) => JSON.parse((row as { readonly content: string }).content) as unknown);
}
