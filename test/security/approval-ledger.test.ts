import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { z } from "zod";
import { hashBinding } from "../../src/approval/approval-request.ts";
import { createQuartermaster, defineAction, type Quartermaster, type QuartermasterOptions } from "../../src/index.ts";
import { openSqlite } from "../../src/store/drivers/sqlite.ts";
import { type SqlQuery, sql } from "../../src/store/sql.ts";

// An attacker who can write the store edits a row of the approvals table. The row alone must not be enough to run a call.

const ann = { id: "ann", roles: ["approver"], via: "test" };
const APPROVED = JSON.stringify({ decision: "approved", by: "ann", via: "test", at: new Date().toISOString() });

const ran: unknown[] = [];
const pay = defineAction("bank", {
  entry: "pay",
  description: "Pay a sum.",
  effect: "external",
  input: z.object({ sum: z.number() }),
  requiresApproval: true,
  run: ({ sum }) => {
    ran.push(sum);
    return { paid: sum };
  },
});

const open: Quartermaster[] = [];
const folders: string[] = [];
afterEach(async () => {
  ran.splice(0);
  await Promise.all(open.splice(0).map((each) => each.close()));
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

async function bank(options: QuartermasterOptions = {}) {
  const folder = mkdtempSync(join(tmpdir(), "qm-ledger-"));
  folders.push(folder);
  const store = join(folder, "store.db");
  const reopen = async () => {
    const qm = await createQuartermaster({
      store,
      providers: [{ category: "bank", capability: "pay", list: () => [pay] }],
      approvals: { worker: false },
      ...options,
    });
    open.push(qm);
    return qm;
  };
  const qm = await reopen();
  const outcome = await qm.invoke("bank__pay", { sum: 5 });
  if (outcome.status !== "waiting") expect.fail(outcome.value);
  return { qm, id: outcome.approval.id, edit: (query: SqlQuery) => edit(store, query), reopen };
}

async function edit(store: string, query: SqlQuery): Promise<void> {
  const db = await openSqlite(store);
  await db.all(query).finally(() => db.close());
}

async function runAndLook(qm: Quartermaster, id: string) {
  await qm.approvals.run(id);
  await qm.approvals.run();
  const { state, answer } = await qm.approvals.get(id);
  return { state, reason: answer?.reason };
}

test("does not run a row that was edited to approved", async () => {
  const { qm, id, edit } = await bank();

  await edit(sql`update approvals set state = 'approved', answer = ${APPROVED}`);

  expect(await runAndLook(qm, id)).toEqual({ state: "expired", reason: "the ledger has no approval of it" });
  expect(ran).toEqual([]);
  expect(await qm.ledger.read({ type: "approval.expired" })).toHaveLength(1);
  expect(await qm.invoke("bank__pay", { sum: 5 })).toMatchObject({ status: "refused" });
});

test("does not run a denied call that was edited to approved", async () => {
  const { qm, id, edit } = await bank();
  await qm.approvals.answer(id, { decision: "denied" }, ann);

  await edit(sql`update approvals set state = 'approved', answer = ${APPROVED}, ended_at = null`);

  expect((await runAndLook(qm, id)).state).toBe("expired");
  expect(ran).toEqual([]);
});

test("does not run a denied call whose event was edited to approved as well", async () => {
  const { qm, id, edit } = await bank();
  await qm.approvals.answer(id, { decision: "denied" }, ann);

  await edit(sql`update approvals set state = 'approved', answer = ${APPROVED}, ended_at = null`);
  await edit(sql`update events set data = replace(data, '"denied"', '"approved"') where type = 'approval.decided'`);

  expect((await runAndLook(qm, id)).state).toBe("expired");
  expect(ran).toEqual([]);
});

test.each<[string, boolean]>([
  ["does not run other arguments than those approved", false],
  ["does not run other arguments even if their hash was edited to match", true],
])("%s", async (_title, hashMatches) => {
  const { qm, id, edit } = await bank();
  await qm.approvals.answer(id, { decision: "approved" }, ann);
  const { policyVersion, actor, session } = await qm.approvals.get(id);
  const caller = { actor, session };
  const binding = hashBinding({ action: pay, target: undefined, args: { sum: 900 }, caller, policyVersion });

  await edit(sql`update approvals set args = '{"sum":900}'`);
  if (hashMatches) await edit(sql`update approvals set binding = ${binding}`);

  expect((await runAndLook(qm, id)).state).toBe("expired");
  expect(ran).toEqual([]);
});

test("does not repeat a call whose row was edited back to approved", async () => {
  const { qm, id, edit, reopen } = await bank();
  await qm.approvals.answer(id, { decision: "approved" }, ann);
  await qm.approvals.run(id);
  expect(ran).toEqual([5]);

  await edit(sql`update approvals set state = 'approved', executor = null, begun_at = null, ended_at = null`);

  expect(await runAndLook(await reopen(), id)).toEqual({
    state: "expired",
    reason: "the ledger says that it has ended",
  });
  expect(ran).toEqual([5]);
});

test("runs an approved call in the next process, based on the recorded event", async () => {
  const { qm, id, reopen } = await bank();
  await qm.approvals.answer(id, { decision: "approved" }, ann);
  await qm.close();
  open.splice(0);

  const next = await reopen();
  await next.approvals.run(id);

  expect(ran).toEqual([5]);
  expect(await next.ledger.verify()).toMatchObject({ broken: [] });
});

test("runs a call whose approver's name is redacted in the ledger", async () => {
  const { qm, id } = await bank({ redact: { secrets: () => ["annabelle"] } });
  await qm.approvals.answer(id, { decision: "approved" }, { ...ann, id: "annabelle" });

  await qm.approvals.run(id);

  expect(ran).toEqual([5]);
});

test("rejects an answer that the ledger cannot record", async () => {
  const { qm, id, edit } = await bank();
  await edit(sql`
    create trigger refuse before insert on events when new.type = 'approval.decided'
    begin select raise(abort, 'the disk is full'); end`);

  await expect(qm.approvals.answer(id, { decision: "approved" }, ann)).rejects.toThrow();

  expect((await qm.approvals.get(id)).state).toBe("pending");
  await edit(sql`drop trigger refuse`);
  await qm.approvals.answer(id, { decision: "approved" }, ann);
  expect(await qm.ledger.read({ type: "approval.decided" })).toHaveLength(1);
});
