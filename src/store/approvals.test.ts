import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { describe, expect, onTestFinished, test } from "vitest";
import { approvalStoreCases } from "../../test/cases/approval-cases.ts";
import { approvalTransitionCases } from "../../test/cases/approval-transition-cases.ts";
import { findCompiled } from "../../test/support/compiled.ts";
import type { ApprovalStore, NewApproval } from "../approval/approval-store.ts";
import { createSqlApprovalStore } from "./approvals.ts";
import { openSqlite } from "./drivers/sqlite.ts";
import { migrate } from "./migrations.ts";
import type { SqlDriver } from "./sql.ts";

const drivers: Record<string, () => Promise<SqlDriver>> = {
  "SQLite in a file": () => openSqlite(temporaryFile()),
  "SQLite in memory": () => openSqlite(":memory:"),
};

describe.each(Object.entries(drivers))("%s", (_driver, open) => {
  test.each([...approvalTransitionCases, ...approvalStoreCases])("$name", async ({ run }) => {
    const db = await open();
    await run(db).finally(() => db.close());
  });
});

test("two racing connections create one request and one claim each", async () => {
  const path = temporaryFile();
  const stores = [await storeIn(path), await storeIn(path)];
  const names = Array.from({ length: 20 }, (_, at) => `b${at}`);

  const asked = await Promise.all(
    names.flatMap((binding) => stores.map((store, at) => store.request(question(`${binding} ${at}`, binding), 100))),
  );
  const ids = [...new Set(asked.map(({ approval }) => approval.id))];
  expect(ids).toHaveLength(names.length);
  expect(asked.filter(({ isNew }) => isNew)).toHaveLength(names.length);

  await Promise.all(ids.map((id) => approve(stores[0], id)));
  const won = await Promise.all(
    ids.flatMap((id) =>
      Array.from({ length: 10 }, (_, at) => stores[at % 2]?.claim(id, { ...executor, id: `e${at}` }).then(Number)),
    ),
  );
  expect(won.reduce((sum: number, one) => sum + (one ?? 0), 0)).toBe(ids.length);
});

test("two connections together cannot exceed the limit of open requests", async () => {
  const path = temporaryFile();
  const stores = [await storeIn(path), await storeIn(path)];

  const asked = await Promise.allSettled(
    Array.from({ length: 20 }, (_, at) => stores[at % 2]?.request(question(`a${at}`, `b${at}`), 5)),
  );

  expect(asked.filter(({ status }) => status === "fulfilled")).toHaveLength(5);
  expect(await stores[0]?.list({})).toHaveLength(5);
});

test("four processes that race for fifty approvals claim each exactly once", async () => {
  const path = temporaryFile();
  const store = await storeIn(path);
  const ids = Array.from({ length: 50 }, (_, at) => `a${at}`);
  for (const id of ids) {
    await store.request(question(id, id), 100);
    await approve(store, id);
  }

  const processes = ["w", "x", "y", "z"].map((name) => claimingProcess(path, name, ids));
  await Promise.all(processes.map(({ ready }) => ready));
  for (const { go } of processes) go();
  const claims = await Promise.all(processes.map(({ claimed }) => claimed));

  expect(claims.flat().sort()).toEqual(ids.toSorted());
  const kept = new Map((await store.listClaimed()).map(({ approval, executor }) => [approval.id, executor.id]));
  for (const [at, name] of ["w", "x", "y", "z"].entries()) {
    for (const id of claims[at] ?? []) expect(kept.get(id)).toBe(name);
  }
}, 60_000);

const executor = { pid: 1, host: "here", leaseUntil: new Date("2027-01-01T00:00:00.000Z") };

function question(id: string, binding: string): NewApproval {
  return {
    id,
    callId: `call of ${id}`,
    action: "file__write",
    definition: "d",
    args: {},
    caller: { actor: "main", session: "s" },
    via: "native",
    policyVersion: "p",
    binding,
    level: "user",
    rule: "r",
    reason: "it writes",
    requestedAt: "2026-01-02T03:04:05.678Z",
    expiresAt: "2026-01-02T04:00:00.000Z",
  };
}

async function approve(store: ApprovalStore | undefined, id: string): Promise<void> {
  await store?.answer(id, { decision: "approved", by: "ann", via: "cli", at: "2026-01-02T03:30:00.000Z" }, []);
}

function claimingProcess(path: string, name: string, ids: readonly string[]) {
  const script = findCompiled(new URL("../../test/fixtures/claiming-process.ts", import.meta.url));
  const child: ChildProcessByStdio<Writable, Readable, null> = spawn(
    process.execPath,
    [script, path, name, ids.join()],
    { stdio: ["pipe", "pipe", "inherit"] },
  );
  onTestFinished(() => void child.kill("SIGKILL"));
  const lines = createInterface({ input: child.stdout });
  const claimed: string[] = [];
  const ready = once(lines, "line").then(() => void lines.on("line", (id) => claimed.push(id)));
  const ended = once(child, "close").then(([status]) => {
    expect(status).toBe(0);
    return claimed;
  });
  return { ready, claimed: ended, go: () => child.stdin.write("go\n") };
}

async function storeIn(path: string): Promise<ApprovalStore> {
  const db = await openSqlite(path);
  onTestFinished(() => db.close());
  await migrate(db);
  return createSqlApprovalStore(db);
}

function temporaryFile(): string {
  const folder = mkdtempSync(join(tmpdir(), "qm-approvals-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, "store.db");
}
