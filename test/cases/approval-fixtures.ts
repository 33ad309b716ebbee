import assert from "node:assert/strict";
import type { Approval, RecordedAnswer } from "../../src/approval/approval.ts";
import type { ApprovalStore, NewApproval } from "../../src/approval/approval-store.ts";
import type { LeaseHolder } from "../../src/core/lease.ts";
import type { ActionName } from "../../src/core/names.ts";
import type { Outcome } from "../../src/core/outcome.ts";
import { createSqlApprovalStore } from "../../src/store/approvals.ts";
import { migrate } from "../../src/store/migrations.ts";
import type { SqlDriver } from "../../src/store/sql.ts";

export const ASKED = "2026-01-02T03:04:05.678Z";
export const EXPIRES = "2026-01-02T04:00:00.000Z";
export const AFTER = "2026-01-02T04:00:00.001Z";
export const ANSWERED = "2026-01-02T03:30:00.000Z";
export const LATER = new Date("2026-01-02T05:00:00.000Z");

export const approved = { decision: "approved", by: "ann", via: "cli", at: ANSWERED } as const satisfies RecordedAnswer;
export const denied = { decision: "denied", by: "ann", via: "http", at: ANSWERED, reason: "no" } as const;
export const expired = { decision: "expired", by: "system", via: "clock", at: AFTER } as const satisfies RecordedAnswer;

/** The stages of an approval. Claimed and begun are both `executing`. */
export const places = ["pending", "approved", "denied", "expired", "claimed", "begun", "done", "interrupted"] as const;
export type Place = (typeof places)[number];

export const steps: Readonly<Record<Place, (store: ApprovalStore, id: string) => Promise<unknown>>> = {
  pending: async () => {},
  approved: (store, id) => store.answer(id, approved, []),
  denied: (store, id) => store.answer(id, denied, []),
  expired: (store, id) => store.expire(id, expired),
  claimed: async (store, id) => {
    await steps.approved(store, id);
    await store.claim(id, executor("me"));
  },
  begun: async (store, id) => {
    await steps.claimed(store, id);
    await store.begin(id, "me", LATER);
  },
  done: async (store, id) => {
    await steps.begun(store, id);
    await store.finish(id, "me", { at: LATER, outcome: outcome() });
  },
  interrupted: async (store, id) => {
    await steps.begun(store, id);
    await store.interrupt(id, "me", LATER);
  },
};

export function question(rest: Partial<NewApproval> & { readonly id: string }): NewApproval {
  return {
    callId: `call of ${rest.id}`,
    action: "file__write",
    definition: "d",
    args: { path: "x" },
    caller: { actor: "main", session: "s" },
    via: "native",
    policyVersion: "p",
    binding: rest.id,
    level: "user",
    rule: "requiresApproval",
    reason: "it writes",
    requestedAt: ASKED,
    expiresAt: EXPIRES,
    ...rest,
  };
}

export async function put(
  store: ApprovalStore,
  asked: Partial<NewApproval> & { readonly id: string },
  place: Place = "pending",
): Promise<Approval> {
  const { approval, isNew } = await store.request(question(asked), 1_000);
  assert(isNew);
  await steps[place](store, asked.id);
  return approval;
}

export function executor(id: string): LeaseHolder {
  return { id, pid: 7, host: "here", leaseUntil: new Date(AFTER) };
}

export function outcome(data: unknown = { "nul\0": ["half \ud800"] }): Outcome {
  return { status: "done", callId: "c", action: "file__write" as ActionName, data, value: "…", durationMs: 1 };
}

export async function requireApproval(store: ApprovalStore, id: string): Promise<Approval> {
  return (await store.get(id)) ?? assert.fail(`${id} is not there`);
}

export async function openApprovals(db: SqlDriver) {
  await migrate(db);
  return createSqlApprovalStore(db);
}
