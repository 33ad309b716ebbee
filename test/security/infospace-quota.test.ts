import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { json } from "node:stream/consumers";
import { afterEach, describe, expect, onTestFinished, test } from "vitest";
import { cleanUp, createTestFolder, qm } from "../../src/cli/testing.ts";
import type { Outcome, QuartermasterOptions } from "../../src/index.ts";
import { openSqlite } from "../../src/store/drivers/sqlite.ts";
import { createSqlInfospaceStore } from "../../src/store/infospace.ts";
import { type Migration, migrate, migrations } from "../../src/store/migrations.ts";
import { type SqlDriver, sql } from "../../src/store/sql.ts";
import { createFilledCollection, createNumberedNotes, note, origin, transient } from "../cases/infospace-fixtures.ts";
import { closeWorlds, me, type World, world } from "../fixtures/infospace-world.ts";
import { findCompiled } from "../support/compiled.ts";

afterEach(closeWorlds);
afterEach(cleanUp);

type Quota = NonNullable<NonNullable<QuartermasterOptions["infospace"]>["quota"]>;

const createLimited = (quota: Quota, options: QuartermasterOptions = {}) => world({ ...options, infospace: { quota } });

const same = (count: number) => Array.from({ length: count }, (_, at) => ({ key: 1, at, text: "x".repeat(50) }));

function failure(outcome: Outcome): { readonly code?: string; readonly scope?: string } {
  return "error" in outcome ? (outcome.error as object) : {};
}

async function readUsage({ qm }: World) {
  const [session] = await qm.notes.usage(me);
  return session === undefined ? { notes: 0, bytes: 0, rows: 0 } : session;
}

describe("the infospace quota", () => {
  /** Each write creates more than 40 notes. */
  const large: Readonly<Record<string, (w: World) => Promise<unknown>>> = {
    "a join of few items with one key": (w) =>
      w.call("infospace__join", { target: same(9), with: same(9), on: "key", clash: "prefix" }),
    "a map": (w) => w.call("infospace__map", { target: same(60), action: "tool__short" }),
    "a union": (w) => w.call("infospace__union", { target: same(30), with: same(60), path: "at" }),
    "a split": (w) => w.call("infospace__split", { target: ["a\n".repeat(60)], by: "line" }),
    "create-collection": (w) => w.call("infospace__create-collection", { items: same(60) }),
    "an endless stream": (w) => w.call("tool__endless"),
    "an import": async (w) => {
      const other = await world();
      for (let at = 0; at < 60; at++) await other.qm.notes.write({ at }, {}, me);
      const lines: string[] = [];
      for await (const line of other.qm.notes.export()) lines.push(line);
      return w.qm.notes.import(lines, {}, me).catch((thrown) => ({ error: thrown }));
    },
  };

  test.each(Object.entries(large))(
    "rejects a write that exceeds it, with a reason, and stores nothing: %s",
    async (_what, write) => {
      const w = await createLimited({ session: { notes: 40 } });

      const { error } = (await write(w)) as { readonly error: { readonly code: string; readonly hint: string } };

      expect(error).toMatchObject({ code: "quota_exceeded", hint: expect.stringMatching(/infospace__remove|Remove/) });
      const details = "details" in error ? error.details : error;
      expect(details).toMatchObject({ scope: "session", of: "notes", limit: 40 });
      expect(await readUsage(w)).toEqual({ notes: 0, bytes: 0, rows: 0 });
      expect((await w.qm.notes.list({ parts: true })).items).toEqual([]);
    },
  );

  test("lets a write add either all of its items to a collection or none", async () => {
    const w = await createLimited({ session: { notes: 900 } });
    const { handle } = await w.done("infospace__create-collection", { items: [1, 2] });
    const before = await readUsage(w);

    const outcome = await w.call("infospace__add", { target: handle, items: same(1_200) });

    expect(outcome).toMatchObject({ status: "failed", error: { code: "quota_exceeded" } });
    expect(await readUsage(w)).toEqual(before);
    expect(await w.qm.notes.read(String(handle), {}, me)).toEqual([1, 2]);
    expect(await w.done("infospace__add", { target: handle, items: same(800) })).toMatchObject({ count: 802 });
    expect(await readUsage(w)).toMatchObject({ notes: 803, rows: 2 });
  });

  test("cuts the result of a finished call that exceeds it and says so", async () => {
    const w = await createLimited({ session: { bytes: 1_000 } });

    const outcome = await w.call("tool__report");

    expect(outcome.status).toBe("done");
    expect(outcome.value).toContain("The call is done");
    expect(outcome.value).toContain("word word");
    expect((outcome as { readonly kept?: unknown }).kept).toBeUndefined();
    expect(await readUsage(w)).toMatchObject({ notes: 0 });
  });

  test("has room again after a note was removed or has expired", async () => {
    const w = await createLimited({ session: { notes: 2 } });
    const { handle } = await w.done("infospace__create-note", { value: 1 });
    await w.done("infospace__create-note", { value: 2 });
    expect(await w.call("infospace__create-note", { value: 3 })).toMatchObject({ error: { code: "quota_exceeded" } });

    await w.done("infospace__remove", { target: handle });
    await w.done("infospace__create-note", { value: 3 });
    w.later(25 * 60 * 60 * 1000);

    await w.done("infospace__create-note", { value: 4 });
    expect(await readUsage(w)).toMatchObject({ notes: 1 });
  });

  test("counts properties, earlier versions and repeated items of a collection", async () => {
    const w = await createLimited({ session: { bytes: 20_000, rows: 50 } });
    const code = async (name: string, args: object) => {
      const outcome = await w.call(name, args);
      return outcome.status === "done" ? outcome.status : String(failure(outcome).code);
    };

    expect(await code("infospace__create-note", { value: 1, properties: { x: "x".repeat(30_000) } })).toBe(
      "quota_exceeded",
    );
    const codes: string[] = [];
    for (let at = 0; at < 4; at++) {
      codes.push(await code("infospace__create-note", { value: "y".repeat(6_000), name: "n" }));
    }
    expect(codes).toEqual(["done", "done", "done", "quota_exceeded"]);
    const [first] = (await w.qm.notes.list({}, me)).items;
    expect(await code("infospace__create-collection", { notes: Array(60).fill(first?.handle) })).toBe("quota_exceeded");
    expect((await readUsage(w)).rows).toBe(0);
  });

  test("counts sessions, users and tenants separately", async () => {
    const w = await createLimited({ session: { notes: 2 }, user: { notes: 3 }, tenant: { notes: 4 } });
    const write = async (session: string, user: string, tenant: string) => {
      const caller = { session, user: { id: user }, tenant };
      const outcome = await w.call("infospace__create-note", { value: 1 }, caller);
      return outcome.status === "done" ? "done" : failure(outcome).scope;
    };

    expect([await write("a", "ann", "t"), await write("a", "ann", "t"), await write("a", "ann", "t")]).toEqual([
      "done",
      "done",
      "session",
    ]);
    expect([await write("b", "ann", "t"), await write("b", "ann", "t")]).toEqual(["done", "user"]);
    expect([await write("a", "bob", "t"), await write("a", "bob", "t")]).toEqual(["done", "tenant"]);
    expect(await write("a", "ann", "other")).toBe("done");
  });
});

test("concurrent processes do not exceed the limit together", { timeout: 60_000 }, async () => {
  const path = join(temporaryFolder(), "store.db");
  await (await openDatabase(path)).close();
  const script = findCompiled(new URL("../fixtures/filling-process.ts", import.meta.url));
  const children = Array.from({ length: 3 }, () =>
    spawn(process.execPath, [script, path], { stdio: ["ignore", "pipe", "inherit"] }),
  );
  onTestFinished(() => {
    for (const child of children) child.kill("SIGKILL");
  });

  const written = (await Promise.all(children.map((child) => json(child.stdout)))) as number[];

  const db = await openDatabase(path);
  const [row] = await db.all(sql`select count(*) as notes, sum(bytes + 256) as bytes from notes`);
  expect(written.reduce((sum, count) => sum + count, 0)).toBe(1_000);
  expect(row?.notes).toBe(1_000);
  expect(await createSqlInfospaceStore(db, () => new Date()).usage()).toMatchObject([
    { notes: 1_000, bytes: Number(row?.bytes) },
  ]);
  await db.close();
});

test("migrating an older store counts its usage", async () => {
  const before = migrations.findIndex(({ name }) => name === "usage and sources of notes");
  const db = await openDatabase(":memory:", migrations.slice(0, before));
  // The old tables, with the columns and the table that the current code writes.
  for (const table of ["origins", "notes", "collections"]) {
    await db.all({ parts: [`alter table ${table} add column sources text`], values: [] });
  }
  await db.all(sql`
    create table infospace_use (scope text, tenant text, user_id text, session text, notes bigint, bytes bigint,
      row_count bigint, primary key (scope, tenant, user_id, session))`);
  const store = createSqlInfospaceStore(db, () => new Date(origin().at));
  const first = await store.addNotes(
    origin(),
    [note("a", { properties: { ä: "🦑" } }), ...createNumberedNotes(3)],
    transient,
  );
  await store.replaceNote(first, 1, note("longer than before"), origin().at);
  await createFilledCollection(store, [1, 2, 3]);
  const mixed = await createFilledCollection(store, [4], { from: origin({ user: "bob", session: "t" }) });
  await store.append(mixed.id, [{ id: first + 2 }, { id: first }], origin());
  const counted = [
    await store.usage(),
    await store.usage({ ...origin() }),
    await store.usage({ ...origin(), user: "bob", session: "t" }),
  ];
  await db.all(sql`drop table infospace_use`);
  for (const table of ["origins", "notes", "collections"]) {
    await db.all({ parts: [`alter table ${table} drop column sources`], values: [] });
  }

  await migrate(db);

  const again = createSqlInfospaceStore(db, () => new Date(origin().at));
  expect([
    await again.usage(),
    await again.usage({ ...origin() }),
    await again.usage({ ...origin(), user: "bob", session: "t" }),
  ]).toEqual(counted);
  await db.close();
});

test("a full disk is a retryable error, and the process continues", async () => {
  const path = join(temporaryFolder(), "store.db");
  const w = await world({ store: path });
  const { handle } = await w.done("infospace__create-note", { value: "first" });
  const filling = await openDatabase(path);
  const [{ page_count: pages } = { page_count: 0 }] = await filling.all(sql`pragma page_count`);
  await filling.all({ parts: [`pragma max_page_count = ${Number(pages) + 20}`], values: [] });
  const store = createSqlInfospaceStore(filling, () => new Date(origin().at));

  const id = await store.addCollection(origin(), {}, transient);
  await expect(store.append(id, [note("x".repeat(500_000))], origin())).rejects.toMatchObject({
    code: "store_failed",
    retryable: true,
    details: { full: true },
    hint: expect.stringContaining("Free some space"),
  });

  expect(await store.append(id, [note("short")], origin())).toMatchObject({ count: 1 });
  await filling.close();
  expect(await w.done("infospace__load", { target: handle })).toMatchObject({ text: "first" });
});

describe("at the command line", () => {
  test("a rejected write names the command that frees space, and the list shows the usage", {
    timeout: 60_000,
  }, async () => {
    const cwd = await createTestFolder({ "quartermaster.yaml": "infospace:\n  quota:\n    session: { notes: 1 }\n" });
    const create = () => qm(cwd, ["invoke", "infospace__create-note", '{"value":1}']);
    expect(await create()).toMatchObject({ code: 0 });

    expect(await create()).toMatchObject({ code: 1, err: expect.stringContaining("`qm notes rm` removes some") });

    const { out } = await qm(cwd, ["notes", "list"]);
    expect(out).toContain("Callers without a tenant use 1 of 4000000 notes and collections");
    const { usage } = JSON.parse((await qm(cwd, ["notes", "list", "--json"])).out) as { readonly usage: unknown };
    expect(usage).toMatchObject([{ scope: "tenant", notes: 1, limit: { notes: 4_000_000 } }]);
  });
});

async function openDatabase(path: string, steps?: readonly Migration[]): Promise<SqlDriver> {
  const db = await openSqlite(path);
  await migrate(db, steps);
  return db;
}

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "qm-quota-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
