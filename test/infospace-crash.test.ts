import { spawn } from "node:child_process";
import { hash } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect, onTestFinished, test } from "vitest";
import type { InfospaceStore } from "../src/infospace/infospace-store.ts";
import type { Collection, CollectionItem, NoteFacts } from "../src/infospace/note.ts";
import { openSqlite } from "../src/store/drivers/sqlite.ts";
import { openStore } from "../src/store/open-store.ts";
import { sql } from "../src/store/sql.ts";
import { type Acknowledged, GROUP, PORTION, PORTIONS } from "./infospace-crash/writing-process.ts";
import { findCompiled } from "./support/compiled.ts";

const ROUNDS = 8;
const PROCESSES = ["a", "b"];

test("processes killed while writing keep every acknowledged write and leave no partial ones", async () => {
  const path = join(temporaryFolder(), "store.db");
  const acknowledged: Acknowledged[] = [];

  for (let round = 0; round < ROUNDS; round++) {
    const before = acknowledged.length;
    const enough = before + 1 + Math.floor(Math.random() * 80);
    await killAfter(enough, path, round, acknowledged);
    expect(acknowledged.length).toBeGreaterThan(before);
    await check(path, acknowledged);
  }

  const kinds = new Set(acknowledged.map(({ what }) => what));
  expect([...kinds].sort()).toEqual(["complete", "group", "portion", "replaced", "replacing", "saved"]);
}, 180_000);

/** Starts the processes and kills them all once `lines` has `enough` entries. */
async function killAfter(enough: number, path: string, round: number, lines: Acknowledged[]): Promise<void> {
  const script = findCompiled(new URL("infospace-crash/writing-process.ts", import.meta.url));
  const children = PROCESSES.map((name) =>
    spawn(process.execPath, [script, path, `${name}${round}`], {
      stdio: ["ignore", "pipe", "inherit"],
    }),
  );
  onTestFinished(() => {
    for (const child of children) child.kill("SIGKILL");
  });
  for (const child of children) {
    createInterface({ input: child.stdout }).on("line", (line) => {
      lines.push(JSON.parse(line));
      if (lines.length >= enough) for (const each of children) each.kill("SIGKILL");
    });
  }
  // Wait for "close", not "exit": the last output may arrive after "exit".
  const ends = await Promise.all(children.map((child) => once(child, "close")));
  expect(ends.map(([, signal]) => signal)).toEqual(PROCESSES.map(() => "SIGKILL"));
}

async function check(path: string, acknowledged: readonly Acknowledged[]): Promise<void> {
  const db = await openSqlite(path);
  expect(await db.all(sql`pragma integrity_check`)).toEqual([{ integrity_check: "ok" }]);
  const all = await openStore(db, () => new Date("2026-01-02T04:00:00.000Z"));
  try {
    const store = all.infospace;
    await checkAcknowledged(store, acknowledged);
    await checkNotes(store, await everyNote(store));
    for (const collection of await store.list({ kind: "collection", limit: 10_000 })) {
      await checkCollection(store, collection);
    }
  } finally {
    await all.close();
  }
}

async function checkAcknowledged(store: InfospaceStore, acknowledged: readonly Acknowledged[]): Promise<void> {
  const replaced = new Set(acknowledged.flatMap((line) => (line.what === "replacing" ? [line.id] : [])));
  for (const line of acknowledged) {
    switch (line.what) {
      case "group": {
        const notes = await store.notes(Array.from({ length: GROUP }, (_, n) => line.first + n));
        expect(notes.map(({ origin }) => origin.callId)).toEqual(Array.from({ length: GROUP }, () => line.callId));
        break;
      }
      case "replaced":
        expect((await store.noteFacts(line.id))?.version).toBeGreaterThanOrEqual(line.version);
        break;
      case "portion":
      case "complete": {
        const collection = await store.collection(line.id);
        // A collection may be missing only if its items became the next version of another one.
        if (collection === undefined) expect((await store.collection(line.into ?? 0))?.version).toBe(2);
        if (collection === undefined || collection.version > 1) break;
        if (line.what === "complete") expect(collection.complete).toBe(true);
        if (line.what === "portion") expect(collection.count).toBeGreaterThanOrEqual(line.count);
        break;
      }
      case "saved": {
        const collection = await store.collection(line.id);
        expect([collection?.reach, collection?.expiresAt]).toEqual(["tenant", undefined]);
        expect(await allItems(store, line.id, 1)).toHaveLength(PORTIONS * PORTION);
        if (replaced.has(line.id)) expect(collection).toMatchObject({ version: 2, count: 2 * PORTION, complete: true });
        break;
      }
    }
  }
}

/** Every version of every note is intact, and each group is stored completely or not at all. */
async function checkNotes(store: InfospaceStore, notes: readonly NoteFacts[]): Promise<void> {
  const groups = new Map<string, number>();
  for (const { id, version, partOf, origin } of notes) {
    if (partOf === undefined) groups.set(origin.callId, (groups.get(origin.callId) ?? 0) + 1);
    if (partOf !== undefined) continue;
    expect((await store.history(id)).map((past) => past.version)).toEqual(
      Array.from({ length: version - 1 }, (_, at) => at + 1),
    );
    for (let each = 1; each <= version; each++) {
      const said = await store.noteVersion(id, each);
      expect(computeHash(said?.content)).toBe(said?.hash);
    }
  }
  expect([...groups].filter(([, count]) => count !== GROUP)).toEqual([]);
}

/** A collection holds whole portions, and all of them if it is complete. Saving covers all of its items or none. */
async function checkCollection(store: InfospaceStore, collection: Collection): Promise<void> {
  const { id, version, count, bytes, complete, expiresAt, reach } = collection;
  const items = await allItems(store, id);
  expect(items.map(({ content }) => content)).toEqual(Array.from({ length: count }, (_, n) => ({ n })));
  expect(items.reduce((sum, item) => sum + item.bytes, 0)).toBe(bytes);
  expect(count % PORTION).toBe(0);
  for (const { content, hash: stored } of items) expect(computeHash(content)).toBe(stored);
  if (complete) expect([2 * PORTION, PORTIONS * PORTION]).toContain(count);
  if (version === 2) expect(await allItems(store, id, 1)).toHaveLength(PORTIONS * PORTION);
  const facts = await store.notes(items.map((item) => item.id));
  expect(new Set(facts.map((note) => `${note.expiresAt} ${note.reach} ${note.partOf}`))).toEqual(
    new Set(count === 0 ? [] : [`${expiresAt} ${reach} ${id}`]),
  );
}

async function allItems(store: InfospaceStore, id: number, version?: number): Promise<readonly CollectionItem[]> {
  return store.items(id, { from: 0, limit: 10_000, version });
}

async function everyNote(store: InfospaceStore): Promise<readonly NoteFacts[]> {
  const all: NoteFacts[] = [];
  for (let before: number | undefined; ; before = all.at(-1)?.id) {
    const page = await store.list({ kind: "note", parts: true, before, limit: 1_000 });
    if (page.length === 0) return all;
    all.push(...page);
  }
}

function computeHash(content: unknown): string {
  const isFile = typeof content === "object" && content !== null && "base64" in content;
  return hash("sha256", isFile ? Buffer.from(String(content.base64), "base64") : JSON.stringify(content));
}

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "qm-infospace-crash-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
