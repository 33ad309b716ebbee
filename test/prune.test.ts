import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, onTestFinished, test } from "vitest";
import { cleanUp, createTestFolder, qm, testWorkspace } from "../src/cli/testing.ts";
import type { NewEvent } from "../src/core/events.ts";
import { createQuartermaster } from "../src/index.ts";
import { readArchives } from "../src/ledger/archive.ts";
import { verifyChains } from "../src/ledger/verify-chains.ts";
import { openSqliteStore } from "../src/store/open-store.ts";
import { findCompiled } from "./support/compiled.ts";
import { runSql } from "./support/run-sql.ts";

afterEach(cleanUp);
const now = () => new Date();
const read = (cwd: string, ...more: readonly string[]) =>
  qm(cwd, ["invoke", "file__read", '{"path":"a.txt"}', ...more]);
const LATER = "2099-01-01";

test("qm events prune removes to an archive that qm events verify checks", async () => {
  const cwd = await testWorkspace();
  for (let count = 0; count < 3; count++) await read(cwd);

  expect(await qm(cwd, ["events", "prune", "--before", now().toISOString(), "--archive", "old.jsonl"])).toMatchObject({
    code: 3,
  });
  expect(await qm(cwd, ["events", "prune", "--before", LATER, "--yes"])).toMatchObject({ code: 2 });
  const pruned = await qm(cwd, [
    "events",
    "prune",
    "--before",
    now().toISOString(),
    "--archive",
    "old.jsonl",
    "--yes",
    "--json",
  ]);
  expect(pruned.code).toBe(0);
  expect(JSON.parse(pruned.out)).toMatchObject({ sessions: 2 });

  expect((await qm(cwd, ["events", "verify"])).code).toBe(0);
  expect(pruned.err).toContain("old.jsonl is in the folder of the file actions, so models can read it");
  const whole = await qm(cwd, ["events", "verify", "--archive", "old.jsonl", "--json"]);
  expect(JSON.parse(whole.out)).toMatchObject({ ok: true, archived: JSON.parse(pruned.out).events });
  expect((await qm(cwd, ["events", "verify", "--archive", "none.jsonl"])).code).toBe(2);

  const lines = readFileSync(join(cwd, "old.jsonl"), "utf8");
  writeFileSync(join(cwd, "old.jsonl"), lines.replace("file__read", "file__list"));
  expect((await qm(cwd, ["events", "verify", "--archive", "old.jsonl"])).code).toBe(1);

  runSql(join(cwd, ".quartermaster/quartermaster.db"), "delete from events where type = 'ledger.pruned'");
  expect((await qm(cwd, ["events", "verify"])).code).toBe(1);
}, 60_000);

test("qm replay says that the events of a session or turn were removed", async () => {
  const cwd = await testWorkspace();
  await read(cwd, "--session", "s1");
  await qm(cwd, ["events", "prune", "--before", now().toISOString(), "--yes"]);

  for (const argv of [
    ["replay", "s1"],
    ["replay", "--turn", "t1"],
  ])
    expect(await qm(cwd, argv)).toMatchObject({ code: 4, err: expect.stringMatching(/events before .* were removed/) });
  const other = await testWorkspace();
  await read(other);
  expect((await qm(other, ["replay", "s1"])).err).not.toContain("removed");
}, 60_000);

test("a process killed while it removes events leaves a ledger and an archive that can be verified", async () => {
  const folder = await createTestFolder();
  const [path, archive] = [join(folder, "store.db"), join(folder, "old.jsonl")];
  const store = await openSqliteStore(path, { now });
  for (let batch = 0; batch < 40; batch++) await store.events.append(createOldEvents(500, batch));
  const all = 40 * 500;
  await store.close();

  // Killed when the archive has grown by another step, several times.
  for (let round = 0; round < 4; round++) {
    const size = getSize(archive);
    const child = spawn(
      process.execPath,
      [findCompiled(new URL("fixtures/pruning-process.ts", import.meta.url)), path, archive],
      {
        stdio: ["ignore", "ignore", "inherit"],
      },
    );
    onTestFinished(() => void child.kill("SIGKILL"));
    const ended = once(child, "close");
    await expect
      .poll(() => child.exitCode !== null || getSize(archive) > size, { interval: 1, timeout: 30_000 })
      .toBe(true);
    child.kill("SIGKILL");
    await ended;

    const after = await openSqliteStore(path, { now });
    expect((await verifyChains(after.events)).broken).toEqual([]);
    expect((await verifyChains(after.events, { archived: readArchives([archive]) })).broken).toEqual([]);
    const archived = new Set<string>();
    for await (const { hash } of readArchives([archive])) archived.add(hash);
    for (const { hash } of await after.events.read({ type: "call.suspended", limit: all })) archived.add(hash);
    expect(archived.size).toBeGreaterThanOrEqual(all);
    await after.close();
  }
}, 120_000);

test("a process with a retention time removes older events to a monthly archive", async () => {
  const folder = await createTestFolder();
  const path = join(folder, "store.db");
  const store = await openSqliteStore(path, { now });
  await store.events.append(createOldEvents(20, 0));
  await store.close();

  const quartermaster = await createQuartermaster({
    store: path,
    ledger: { keep: "30d", archive: join(folder, "archive") },
  });
  onTestFinished(() => quartermaster.close());

  await expect
    .poll(async () => (await quartermaster.ledger.read({ type: "ledger.pruned" })).length, { timeout: 30_000 })
    .toBe(1);
  expect(await quartermaster.ledger.read({ type: "call.suspended" })).toEqual([]);
  const [file = ""] = readdirSync(join(folder, "archive"));
  expect(file).toBe(`ledger-${new Date().toISOString().slice(0, 7)}.jsonl`);
  const archived = readArchives([join(folder, "archive", file)]);
  expect(await quartermaster.ledger.verify({ archived })).toMatchObject({ archived: 20, broken: [] });
}, 60_000);

function createOldEvents(count: number, batch: number): readonly NewEvent[] {
  return Array.from({ length: count }, (_, index) => ({
    type: "call.suspended",
    at: new Date("2026-01-01T00:00:00Z"),
    session: index % 2 === 0 ? "long" : `short-${batch}-${index % 20}`,
    data: { callId: `c${index}`, approvalId: "p", action: "file__read" },
  }));
}

const getSize = (path: string): number => (existsSync(path) ? statSync(path).size : 0);
