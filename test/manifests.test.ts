import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect, onTestFinished, test } from "vitest";
import { findCompiled } from "./support/compiled.ts";

interface Reply {
  readonly tools: readonly (readonly [description: string, state: string])[];
  readonly withheld: number;
  readonly events: number;
}

test("the first of two concurrent processes pins a server's tools, and each sees the other's decisions", async () => {
  const path = join(temporaryFolder(), "store.db");
  const [a, b] = await Promise.all([startLearningProcess(path), startLearningProcess(path)]);

  const learned = await Promise.all([a("learn As one sees it."), b("learn As the other sees it.")]);

  const [first, second] = learned[0].withheld === 0 ? ([a, b] as const) : ([b, a] as const);
  const [held] = learned.filter(({ withheld }) => withheld > 0);
  expect(learned.map(({ withheld }) => withheld).toSorted()).toEqual([0, 50].toSorted());
  const accepted = (await first("tools")).tools;
  expect(new Set(accepted.map(([, state]) => state))).toEqual(new Set(["usable"]));
  expect(held?.tools).toEqual(accepted.map(([description]) => [description, "withheld"]));

  expect((await second("accept")).tools.every(([, state]) => state === "usable")).toBe(true);
  expect((await first("tools")).tools).toEqual(accepted);
  const seen = await first("refresh");
  expect(seen.tools.every(([description, state]) => description !== accepted[0]?.[0] || state === "withheld")).toBe(
    true,
  );
  expect(seen.withheld).toBe(50);
});

test("only one of several processes records definitions that they learn concurrently", async () => {
  const path = join(temporaryFolder(), "store.db");
  const all = await Promise.all(Array.from({ length: 4 }, () => startLearningProcess(path)));

  const learned = await Promise.all(all.map((send) => send("learn The same.")));

  for (const { tools } of learned) expect(tools).toEqual(Array.from({ length: 50 }, () => ["The same.", "usable"]));
  expect(learned.map(({ events }) => events).toSorted()).toEqual([0, 0, 0, 1]);
});

/** Starts a process and waits until it is ready. Returns a function that sends a command and reads the reply. */
async function startLearningProcess(path: string): Promise<(line: string) => Promise<Reply>> {
  const script = findCompiled(new URL("fixtures/learning-process.ts", import.meta.url));
  const child = spawn(process.execPath, [script, path], { stdio: ["pipe", "pipe", "inherit"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async (): Promise<string> => String((await lines.next()).value);
  expect(await next()).toBe("ready");
  return async (line) => {
    child.stdin.write(`${line}\n`);
    return JSON.parse(await next()) as Reply;
  };
}

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "qm-manifests-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return folder;
}
