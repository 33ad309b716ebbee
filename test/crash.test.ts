import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { createQuartermaster, type StoredEvent } from "../src/index.ts";
import { openLedger } from "../src/ledger/ledger.ts";
import { createEventRedactor } from "../src/ledger/redact.ts";
import { openSqliteStore } from "../src/store/open-store.ts";
import { findCompiled } from "./support/compiled.ts";

const PROCESSES = ["a", "b", "c", "d"];
const CALLS_EACH = 1_000_000; // more than they can make before they are killed
const KILL_AFTER = 10_000;

test("four processes on one store, killed during 10,000 calls, lose no answered call", async () => {
  const path = join(temporaryFolder(), "store.db");
  const answered: string[] = [];

  const processes = PROCESSES.map((name) => callingProcess(path, name, CALLS_EACH));
  await new Promise<void>((resolve) => {
    // Kill after a random number of calls around the limit.
    const enough = KILL_AFTER + Math.floor(Math.random() * 2_000);
    for (const { onLine } of processes) {
      onLine((callId) => {
        answered.push(callId);
        if (answered.length === enough) resolve();
      });
    }
  });
  for (const { child } of processes) child.kill("SIGKILL");
  await Promise.all(processes.map(({ ended }) => ended));

  const { ledger, heads } = await reopened(path);
  const written = await stepsByCall(ledger);
  const whole = ["call.received", "call.decided", "call.ended"].join();
  expect(answered.filter((callId) => written.get(callId)?.join() !== whole)).toEqual([]);
  expect((await ledger.verify()).broken).toEqual([]);

  const late = callingProcess(path, "late", 50);
  const after: string[] = [];
  late.onLine((callId) => after.push(callId));
  expect(await late.ended).toBe(0);
  expect(after.length).toBeGreaterThanOrEqual(50);
  expect((await ledger.verify({ against: heads })).broken).toEqual([]);
}, 120_000);

test("reports a call whose process was killed, once, and does not run it again", async () => {
  const folder = temporaryFolder();
  const [path, paid] = [join(folder, "store.db"), join(folder, "paid.txt")];
  const script = findCompiled(new URL("fixtures/hanging-process.ts", import.meta.url));
  const child = spawn(process.execPath, [script, path, paid, "write"], { stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  await once(child.stdout, "data");

  const other = await createQuartermaster({ store: path });
  await other.close();
  const { ledger: before } = await reopened(path);
  expect((await before.read({ type: "call.ended" })).length).toBe(0);

  child.kill("SIGKILL");
  await once(child, "close");
  const problems: string[] = [];
  const onProblem = (problem: string) => problems.push(problem);
  const both = await Promise.all([
    createQuartermaster({ store: path, onProblem }),
    createQuartermaster({ store: path, onProblem }),
  ]);
  for (const each of both) await each.close();

  const { ledger } = await reopened(path);
  expect(await ledger.read({ type: "call.ended" })).toMatchObject([
    { session: "kitchen", user: "ann", action: "tool__pay", data: { status: "failed", code: "interrupted" } },
  ]);
  expect(problems).toEqual([expect.stringContaining("tool__pay was interrupted")]);
  expect((await ledger.verify()).broken).toEqual([]);
  expect(readFileSync(paid, "utf8")).toBe("paid\n");
});

function callingProcess(path: string, name: string, limit: number) {
  const script = findCompiled(new URL("fixtures/calling-process.ts", import.meta.url));
  const child: ChildProcess = spawn(process.execPath, [script, path, name, String(limit)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  // Not "exit", because the last output may come after it.
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
  return {
    ledger: openLedger({ store: store.events, redact: createEventRedactor() }),
    heads: await store.events.heads(),
  };
}

type Reading = Pick<Awaited<ReturnType<typeof reopened>>["ledger"], "read">;

async function stepsByCall(ledger: Reading): Promise<ReadonlyMap<string, readonly string[]>> {
  const steps = new Map<string, string[]>();
  let page: readonly StoredEvent[];
  for (let after = 0; ; after = page.at(-1)?.id ?? 0) {
    page = await ledger.read({ after, type: "call.", limit: 1_000 });
    if (page.length === 0) return steps;
    for (const { callId, type } of page) steps.set(callId ?? "", [...(steps.get(callId ?? "") ?? []), type]);
  }
}

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "qm-crash-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
