import { spawn } from "node:child_process";
import { copyFileSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { afterEach, describe, expect, onTestFinished, test } from "vitest";
import { cleanUp, createTestFolder, start, testWorkspace } from "../src/cli/testing.ts";
import { verifyChains } from "../src/ledger/verify-chains.ts";
import { openSqliteStore, type Store } from "../src/store/open-store.ts";
import { copyStore, recordRestore } from "../src/store/store-copy.ts";
import { restoreStore } from "../src/workspace/backup.ts";
import { question, steps } from "./cases/approval-fixtures.ts";
import { findCompiled } from "./support/compiled.ts";
import { runSql } from "./support/run-sql.ts";

afterEach(cleanUp);
const STORE = ".quartermaster/quartermaster.db";
const qm = (cwd: string, ...argv: readonly string[]) => start(cwd, argv).ended;
const read = (cwd: string, path: string) => qm(cwd, "invoke", "file__read", JSON.stringify({ path }));

describe("qm backup", () => {
  test("writes a complete, private copy while another process writes", async () => {
    const cwd = await testWorkspace();
    await read(cwd, "a.txt");
    const writer = startWriter(join(cwd, STORE));
    await writer.hasCalled();

    const { code, out, err } = await qm(cwd, "backup", "copy.db", "--json");

    expect({ code, err }).toEqual({ code: 0, err: "" });
    expect(JSON.parse(out)).toMatchObject({ ok: true, broken: [] });
    expect(statSync(join(cwd, "copy.db")).mode & 0o777).toBe(0o600);
    expect(readdirSync(cwd).filter((name) => name.startsWith("copy.db"))).toEqual(["copy.db"]);
    const store = await openFile(join(cwd, "copy.db"));
    expect((await verifyChains(store.events)).broken).toEqual([]);
    expect((await store.events.read({ type: "call.ended" })).length).toBeGreaterThan(1);
  }, 60_000);

  test("replaces an existing file only with --force", async () => {
    const cwd = await testWorkspace();
    await read(cwd, "a.txt");
    writeFileSync(join(cwd, "copy.db"), "mine");

    const refused = await qm(cwd, "backup", "copy.db");
    expect(refused).toMatchObject({ code: 2, err: expect.stringContaining("--force") });
    expect(readFileSync(join(cwd, "copy.db"), "utf8")).toBe("mine");

    expect(await qm(cwd, "backup", "copy.db", "--force")).toMatchObject({
      code: 0,
      out: expect.stringContaining("Secrets, tokens and quartermaster.yaml are not in it"),
    });
    expect(statSync(join(cwd, "copy.db")).size).toBeGreaterThan(10_000);
  }, 60_000);
});

describe("qm restore", () => {
  test("brings the store back and keeps the former one", async () => {
    const cwd = await testWorkspace();
    await read(cwd, "a.txt");
    await qm(cwd, "backup", "copy.db");
    await read(cwd, "missing.txt");

    const { code, out, err } = await qm(cwd, "restore", "copy.db", "--yes", "--json");

    expect({ code, err }).toEqual({ code: 0, err: "" });
    const { kept } = JSON.parse(out);
    expect(await listReads(join(cwd, STORE))).toEqual(["a.txt"]);
    expect(await listReads(kept)).toEqual(["a.txt", "missing.txt"]);
    expect((await qm(cwd, "events", "verify")).code).toBe(0);
    expect((await qm(cwd, "events", "--type", "store.")).out).toContain("store.restored");
    expect(statSync(join(cwd, STORE)).mode & 0o777).toBe(0o600);
  }, 60_000);

  test("changes nothing while another process uses the store", async () => {
    const cwd = await testWorkspace();
    await read(cwd, "a.txt");
    await qm(cwd, "backup", "copy.db");
    const user = startWriter(join(cwd, STORE));
    await user.hasCalled();

    const refused = await qm(cwd, "restore", "copy.db", "--yes", "--json");

    expect(refused.code).toBe(1);
    expect(JSON.parse(refused.out)).toMatchObject({
      error: { code: "conflict", hint: expect.stringContaining("qm serve") },
    });
    expect(readdirSync(join(cwd, ".quartermaster")).filter((name) => name.includes(".db."))).toEqual([]);
    await user.kill();
    expect((await qm(cwd, "restore", "copy.db", "--yes")).code).toBe(0);
  }, 60_000);

  test("needs --yes without a terminal", async () => {
    const cwd = await testWorkspace();
    await read(cwd, "a.txt");
    await qm(cwd, "backup", "copy.db");

    expect(await qm(cwd, "restore", "copy.db")).toMatchObject({ code: 3, err: expect.stringContaining("--yes") });
    expect(await listReads(join(cwd, STORE))).toEqual(["a.txt"]);
  }, 60_000);

  test("checks the file before it asks", async () => {
    const cwd = await testWorkspace();

    const [missing, text] = [await qm(cwd, "restore", "gone.db"), await qm(cwd, "restore", "a.txt")];

    expect(missing).toMatchObject({ code: 1, err: expect.stringContaining("qm: there is no backup gone.db") });
    expect(text).toMatchObject({ code: 1, err: expect.stringContaining("qm: a.txt is not a backup") });
    for (const { err } of [missing, text]) expect(err).toContain("Give a file that `qm backup` has written.");
  });

  test.each([
    ["a text file", "not a SQLite database", (path: string) => writeFileSync(path, "text ".repeat(1_000))],
    ["the database of another program", "not a store", (path: string) => runSql(path, "create table t (v text)")],
    ["a newer store", "Upgrade", (path: string) => runSql(path, "update schema_version set version = 1000")],
    ["a changed ledger", "is broken", (path: string) => runSql(path, "update events set actor = 'x' where id = 2")],
    ["a missing event", "is broken", (path: string) => runSql(path, "delete from events where id = 2")],
  ])(
    "refuses %s and changes nothing",
    async (what, message, spoil) => {
      const cwd = await testWorkspace();
      await read(cwd, "a.txt");
      const file = join(cwd, "copy.db");
      if (!/text|another/.test(what)) await qm(cwd, "backup", "copy.db");
      spoil(file);
      const before = readdirSync(join(cwd, ".quartermaster"));

      const refused = await qm(cwd, "restore", "copy.db", "--yes");

      expect(refused).toMatchObject({ code: 1, err: expect.stringContaining(message) });
      expect(readdirSync(join(cwd, ".quartermaster"))).toEqual(before);
      expect(await listReads(join(cwd, STORE))).toEqual(["a.txt"]);
    },
    60_000,
  );

  test.each([
    ["the copy", /\.db\.(?!bak)/],
    ["the former store", /\.db\.bak/],
  ])(
    "leaves the old or the new store when it is killed as soon as %s exists",
    async (_what, pattern) => {
      const cwd = await testWorkspace();
      await read(cwd, "a.txt");
      await qm(cwd, "backup", "copy.db");
      await read(cwd, "missing.txt");

      const restoring = start(cwd, ["restore", "copy.db", "--yes"]);
      const folder = join(cwd, ".quartermaster");
      await expect
        .poll(() => readdirSync(folder).some((name) => pattern.test(name)), { interval: 1, timeout: 30_000 })
        .toBe(true);
      restoring.child.kill("SIGKILL");
      await restoring.ended;

      expect(["a.txt", "a.txt,missing.txt"]).toContain((await listReads(join(cwd, STORE))).join());
      expect((await qm(cwd, "events", "verify")).code).toBe(0);
      expect((await qm(cwd, "restore", "copy.db", "--yes")).code).toBe(0);
      expect(await listReads(join(cwd, STORE))).toEqual(["a.txt"]);
    },
    60_000,
  );

  test("keeps the former store of each of two restores in one second", async () => {
    const cwd = await testWorkspace();
    await read(cwd, "a.txt");
    const file = join(cwd, "copy.db");
    await qm(cwd, "backup", "copy.db");
    const restore = () => restoreStore({ storePath: join(cwd, STORE), file, onProgress: () => {} });

    const kept = [await restore(), await restore()].map((restored) => restored.kept);

    expect(new Set(kept).size).toBe(2);
    expect(kept.map((name) => existsSync(name ?? ""))).toEqual([true, true]);
  }, 60_000);

  test("replaces a damaged store", async () => {
    const cwd = await testWorkspace();
    await read(cwd, "a.txt");
    await qm(cwd, "backup", "copy.db");
    writeFileSync(join(cwd, STORE), "damaged ".repeat(1_000));

    expect(await qm(cwd, "restore", "copy.db", "--yes")).toMatchObject({ code: 0 });
    expect(await listReads(join(cwd, STORE))).toEqual(["a.txt"]);
  }, 60_000);

  test("expires calls that were approved or waited, because they may have run since the backup", async () => {
    const cwd = await testWorkspace();
    const store = await openFile(join(cwd, "store.db"));
    const { approval } = await store.approvals.request(question({ id: "a1" }), 10);
    await steps.claimed(store.approvals, approval.id);
    const { approval: pending } = await store.approvals.request(question({ id: "a2", binding: "another" }), 10);

    const copy = join(cwd, "copy.db");
    await copyStore(join(cwd, "store.db"), copy, {
      now: () => new Date(),
      onProgress: () => {},
      change: async (restored) => void (await recordRestore(restored, new Date(), "copy.db")),
    });

    const restored = await openFile(copy);
    expect(await restored.approvals.get(approval.id)).toMatchObject({ state: "expired" });
    expect(await restored.approvals.get(pending.id)).toMatchObject({ state: "expired" });
    const types = (await restored.events.read({})).map(({ type }) => type);
    expect(types.sort()).toEqual(["approval.expired", "approval.expired", "store.restored"]);
  });
});

/** A process that makes calls until it is killed. */
function startWriter(path: string) {
  const script = findCompiled(new URL("fixtures/calling-process.ts", import.meta.url));
  const child = spawn(process.execPath, [script, path, "writer", "1000000"], { stdio: ["ignore", "pipe", "inherit"] });
  const ended = new Promise<void>((resolve) => child.on("close", () => resolve()));
  const hasCalled = new Promise<void>((resolve) => child.stdout.once("data", () => resolve()));
  child.stdout.resume();
  const kill = () => {
    child.kill("SIGKILL");
    return ended;
  };
  onTestFinished(kill);
  return { hasCalled: () => hasCalled, kill };
}

async function openFile(path: string): Promise<Store> {
  const store = await openSqliteStore(path, { now: () => new Date() });
  onTestFinished(() => store.close());
  return store;
}

/** The paths that calls have asked to read. Reads a copy: a connection of this process would keep the store in use. */
async function listReads(path: string): Promise<readonly string[]> {
  const copy = join(await createTestFolder(), "copy.db");
  for (const end of ["", "-wal"]) if (existsSync(path + end)) copyFileSync(path + end, copy + end);
  const db = new DatabaseSync(copy);
  const rows = db.prepare("select data from events where type = 'call.received' order by id").all();
  db.close();
  return rows.flatMap(({ data }) => JSON.parse(String(data)).args.path ?? []);
}
