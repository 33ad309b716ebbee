import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, onTestFinished, test } from "vitest";
import { findCompiled } from "./support/compiled.ts";

const DATA = 100 * 1000 * 1000;
/** Smaller than the data, so a process that holds all of it runs out of memory. */
const HEAP_MB = 96;
/** The allowed peak growth of the process, as a fraction of the data. */
const MAX_GROWTH = 0.5;

test("streams 100 MB of JSON lines into a collection and narrows it without holding it in memory", async () => {
  const folder = mkdtempSync(join(tmpdir(), "qm-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const script = findCompiled(new URL("fixtures/streaming-process.ts", import.meta.url));
  const child = spawn(
    process.execPath,
    [`--max-old-space-size=${HEAP_MB}`, script, join(folder, "store.db"), String(DATA)],
    {
      stdio: ["ignore", "pipe", "inherit"],
    },
  );
  onTestFinished(() => void child.kill("SIGKILL"));

  const [printed, [status]] = await Promise.all([text(child.stdout), once(child, "close")]);

  expect(status).toBe(0);
  const { before, afterKeeping, after, ...counts } = JSON.parse(printed) as Record<string, number>;
  expect(counts.bytes).toBeGreaterThan(DATA * 0.99);
  expect(counts).toMatchObject({ count: 203_790, projected: 203_790, filtered: 2_101, head: 100 });
  expect(ratio(before, afterKeeping), "while it was kept").toBeLessThan(MAX_GROWTH);
  expect(ratio(before, after), "while it was narrowed").toBeLessThan(MAX_GROWTH);
}, 300_000);

function ratio(before = 0, after = 0): number {
  return (after - before) / DATA;
}
