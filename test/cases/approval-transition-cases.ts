import assert from "node:assert/strict";
import type { Approval, ApprovalState } from "../../src/approval/approval.ts";
import type { ApprovalStore } from "../../src/approval/approval-store.ts";
import { type SqlDriver, sql } from "../../src/store/sql.ts";
import {
  AFTER,
  ANSWERED,
  approved,
  denied,
  executor,
  expired,
  LATER,
  openApprovals,
  outcome,
  type Place,
  places,
  put,
  requireApproval,
} from "./approval-fixtures.ts";
import type { StoreCase } from "./store-cases.ts";

interface Operation {
  readonly run: (store: ApprovalStore, id: string) => Promise<boolean>;
  /** The stages it may start from, and the result. From other stages it changes nothing. */
  readonly from: { readonly [P in Place]?: Partial<Approval> & { readonly state: ApprovalState } };
}

const ended = { endedAt: LATER.toISOString() };

const operations: Readonly<Record<string, Operation>> = {
  approve: {
    run: (store, id) => store.answer(id, approved, []),
    from: { pending: { state: "approved", answer: approved } },
  },
  deny: {
    run: (store, id) => store.answer(id, denied, []),
    from: { pending: { state: "denied", answer: denied, endedAt: ANSWERED } },
  },
  expire: {
    run: (store, id) => store.expire(id, expired),
    from: {
      pending: { state: "expired", answer: expired, endedAt: AFTER },
      approved: { state: "expired", answer: expired, endedAt: AFTER },
    },
  },
  claim: {
    run: (store, id) => store.claim(id, executor("me")),
    from: { approved: { state: "executing", executor: "me" } },
  },
  begin: {
    run: (store, id) => store.begin(id, "me", LATER),
    from: { claimed: { state: "executing", begunAt: LATER.toISOString() } },
  },
  release: {
    run: (store, id) => store.release(id, "me"),
    from: { claimed: { state: "approved" } },
  },
  void: {
    run: (store, id) => store.void(id, "me", expired),
    from: { claimed: { state: "expired", answer: expired, endedAt: AFTER } },
  },
  finish: {
    run: (store, id) => store.finish(id, "me", { at: LATER, outcome: outcome() }),
    from: {
      claimed: { state: "done", status: "done", outcome: outcome(), ...ended },
      begun: { state: "done", status: "done", outcome: outcome(), ...ended },
      interrupted: { state: "done", status: "done", outcome: outcome(), ...ended },
    },
  },
  interrupt: {
    run: (store, id) => store.interrupt(id, "me", LATER),
    from: { begun: { state: "interrupted", ...ended } },
  },
  deliver: {
    run: (store, id) => store.deliver(id),
    from: {
      denied: { state: "denied", delivered: true },
      expired: { state: "expired", delivered: true },
      done: { state: "done", delivered: true },
      interrupted: { state: "interrupted", delivered: true },
    },
  },
  "begin for another": { run: (store, id) => store.begin(id, "other", LATER), from: {} },
  "release for another": { run: (store, id) => store.release(id, "other"), from: {} },
  "void for another": { run: (store, id) => store.void(id, "other", expired), from: {} },
  "finish for another": {
    run: (store, id) => store.finish(id, "other", { at: LATER, outcome: outcome() }),
    from: {},
  },
  "interrupt for another": { run: (store, id) => store.interrupt(id, "other", LATER), from: {} },
};

export const approvalTransitionCases: readonly StoreCase[] = places.map((place) => ({
  name: `changes an approval that is ${place} in the ways there are, and in no other`,
  async run(db) {
    const store = await openApprovals(db);
    for (const [name, { run, from }] of Object.entries(operations)) {
      const id = `${place} ${name}`;
      await put(store, { id, binding: id }, place);
      const [row] = await rows(db, id);
      const before = await requireApproval(store, id);
      const expected = from[place];

      assert.equal(await run(store, id), expected !== undefined, `${name} from ${place}`);

      if (expected === undefined) {
        assert.deepEqual(await rows(db, id), [row], `${name} from ${place} left something behind`);
        continue;
      }
      const { executor: _, ...unclaimed } = before;
      const rest = ["release", "void"].includes(name) ? unclaimed : before;
      assert.deepEqual(await requireApproval(store, id), { ...rest, ...expected }, `${name} from ${place}`);
    }
    for (const { run } of Object.values(operations)) assert.equal(await run(store, "nobody's"), false);
  },
}));

async function rows(db: SqlDriver, id: string) {
  return (await db.all(sql`select * from approvals where id = ${id}`)).map((row) => ({ ...row }));
}
