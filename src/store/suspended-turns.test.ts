import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { describe, expect, onTestFinished, test } from "vitest";
import { turnStoreCases } from "../../test/cases/turn-cases.ts";
import { findCompiled } from "../../test/support/compiled.ts";
import { openSqlite } from "./drivers/sqlite.ts";
import type { SqlDriver } from "./sql.ts";

const drivers: Record<string, () => Promise<SqlDriver>> = {
  "SQLite in a file": () => openSqlite(temporaryFile()),
  "SQLite in memory": () => openSqlite(":memory:"),
};

describe.each(Object.entries(drivers))("%s", (_driver, open) => {
  test.each(turnStoreCases)("$name", async ({ run }) => {
    const db = await open();
    await run(db).finally(() => db.close());
  });
});

test("other processes continue the turns of killed processes, each turn once", async () => {
  const path = temporaryFile();
  const first = await resumingProcess(path);
  const tokens = Object.values(await first.ask("suspend 30"));
  await first.kill();

  const [one, other] = [await resumingProcess(path), await resumingProcess(path)];
  const resume = ({ ask }: typeof one) => Promise.all(tokens.map((token) => ask(`resume ${token}`)));
  const [ones, others] = await Promise.all([resume(one), resume(other)]);

  const went = tokens.map((_, at) => ({
    state: "running",
    memo: { turn: at },
    results: [
      ["ref late", "approval_expired"],
      ["ref yes", "done"],
      ["ref no", "tool_denied"],
    ],
  }));
  const isOnes = ones.map((answer) => "state" in answer);
  expect(ones).toEqual(went.map((each, at) => (isOnes[at] ? each : { code: "conflict" })));
  expect(others).toEqual(went.map((each, at) => (isOnes[at] ? { code: "conflict" } : each)));

  await one.kill();
  expect(await resume(other)).toEqual(went.map((each, at) => (isOnes[at] ? each : { code: "conflict" })));
}, 60_000);

async function resumingProcess(path: string) {
  const script = findCompiled(new URL("../../test/fixtures/resuming-process.ts", import.meta.url));
  const child: ChildProcessByStdio<Writable, Readable, null> = spawn(process.execPath, [script, path], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const lines = createInterface({ input: child.stdout });
  const asked: ((answer: object) => void)[] = [];
  await once(lines, "line");
  lines.on("line", (line) => asked.shift()?.(JSON.parse(line)));
  return {
    ask: (line: string): Promise<object> => {
      child.stdin.write(`${line}\n`);
      return new Promise((resolve) => asked.push(resolve));
    },
    async kill() {
      const ended = once(child, "close");
      child.kill("SIGKILL");
      await ended;
    },
  };
}

function temporaryFile(): string {
  const folder = mkdtempSync(join(tmpdir(), "qm-turns-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, "store.db");
}
