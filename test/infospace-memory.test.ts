import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, onTestFinished, test } from "vitest";
import { findCompiled } from "./support/compiled.ts";

const DATA = 100 * 1000 * 1000;
/** Less than the data, with the program in it: whoever held all of it would not get to the end. */
const HEAP_MB = 96;
/** Of the data, how much the process may grow by at its peak. */
const MOST = 0.5;

test("100 MB of JSON lines become a collection and are narrowed without being held in memory", async () => {
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
  expect(ratio(before, afterKeeping), "while it was kept").toBeLessThan(MOST);
  expect(ratio(before, after), "while it was narrowed").toBeLessThan(MOST);
}, 300_000);

function ratio(before = 0, after = 0): number {
  return (after - before) / DATA;
}
