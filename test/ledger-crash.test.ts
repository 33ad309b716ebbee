import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { openLedger } from "../src/ledger/ledger.ts";
import { redactor } from "../src/ledger/redact.ts";
import { openSqliteStore } from "../src/store/open.ts";

const WRITERS = ["a", "b", "c", "d"];
const EVENTS_EACH = 1_000_000; // more than they live to write
const KILL_AFTER = 10_000;

test("loses nothing it has confirmed when every process is killed in the middle of writing", async () => {
  const path = join(temporaryFolder(), "store.db");
  const confirmed: string[] = [];

  const writers = WRITERS.map((name) => writer(path, name, EVENTS_EACH));
  await new Promise<void>((resolve) => {
    // A different one each time decides, somewhere around the limit.
    const enough = KILL_AFTER + Math.floor(Math.random() * 2_000);
    for (const { onLine } of writers) {
      onLine((id) => {
        confirmed.push(id);
        if (confirmed.length === enough) resolve();
      });
    }
  });
  for (const { child } of writers) child.kill("SIGKILL");
  await Promise.all(writers.map(({ ended }) => ended));

  const { ledger, heads } = await reopened(path);
  const written = await allReasons(ledger);
  expect(confirmed.filter((id) => !written.has(id))).toEqual([]);
  const report = await ledger.verify();
  expect(report.broken).toEqual([]);
  expect(report.events).toBe(written.size);
  expect(new Set(heads.map(({ session }) => session))).toEqual(
    new Set(["shared", ...WRITERS.map((name) => `own-${name}`)]),
  );

  const late = writer(path, "late", 50);
  const after: string[] = [];
  late.onLine((id) => after.push(id));
  expect(await late.ended).toBe(0);
  expect(after.length).toBeGreaterThanOrEqual(50);
  expect((await ledger.verify({ against: heads })).broken).toEqual([]);
  expect((await ledger.read({ actor: "late", limit: 1_000 })).length).toBe(after.length);
});

function writer(path: string, name: string, limit: number) {
  const script = fileURLToPath(new URL("fixtures/ledger-writer.ts", import.meta.url));
  const child: ChildProcess = spawn(process.execPath, ["--import", "tsx", script, path, name, String(limit)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  // Not "exit": what the process printed last may come after it.
  const ended = once(child, "close").then(([status]) => status as number | null);
  const onLine = (take: (line: string) => void) => {
    let rest = "";
    child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      const lines = (rest + text).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) take(line);
    });
  };
  return { child, ended, onLine };
}

async function reopened(path: string) {
  const store = await openSqliteStore(path, { now: () => new Date() });
  onTestFinished(() => store.close());
  return { ledger: openLedger({ store: store.events, redact: redactor() }), heads: await store.events.heads() };
}

async function allReasons(ledger: Awaited<ReturnType<typeof reopened>>["ledger"]): Promise<Set<string>> {
  const reasons = new Set<string>();
  for (let after = 0; ; ) {
    const page = await ledger.read({ after });
    for (const { data } of page) reasons.add((data as { reason: string }).reason);
    const last = page.at(-1);
    if (last === undefined) return reasons;
    after = last.id;
  }
}

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "qm-crash-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return folder;
}
