import { rm, stat } from "node:fs/promises";
import type { Approval } from "../approval/approval.ts";
import { QmError } from "../core/errors.ts";
import { type NewEvent, SYSTEM_SESSION } from "../core/events.ts";
import { omitUndefined } from "../core/json.ts";
import { type ChainReport, verifyChains } from "../ledger/verify-chains.ts";
import { openSqlite } from "./drivers/sqlite.ts";
import { type CopyProgress, copySqliteFile, hasTables } from "./drivers/sqlite-copy.ts";
import { openStore, type Store } from "./open-store.ts";

export interface CopyOptions {
  readonly now: () => Date;
  readonly onProgress: (progress: CopyProgress) => void;
  /** Changes an intact copy before it is closed. */
  readonly change?: (copy: Store) => Promise<void>;
}

export type StoreCopy = ChainReport & { readonly bytes: number };

/**
 * Copies the store at `from` to the new file `to` while other processes write, and checks the copy: every page, its
 * version, and the chains of the ledger. Throws `store_failed`, and leaves no file, if it is not a usable store.
 */
export async function copyStore(from: string, to: string, options: CopyOptions): Promise<StoreCopy> {
  const { now, onProgress, change } = options;
  try {
    await copySqliteFile(from, to, onProgress);
    if (!(await hasTables(to, ["schema_version", "events", "chains"])))
      throw new QmError("store_failed", `${from} is not a store of Quartermaster`, {
        hint: "Give a file that {qm backup} has written.",
      });
    const copy = await openStore(await openSqlite(to, { wal: false }), now);
    try {
      const report = await verifyChains(copy.events);
      if (report.broken.length === 0) await change?.(copy);
      return { ...report, bytes: (await stat(to)).size };
    } finally {
      await copy.close();
    }
  } catch (thrown) {
    for (const file of [to, `${to}-journal`]) await rm(file, { force: true });
    throw thrown;
  }
}

const EXPIRY_REASON = "the store was restored from a backup, so it may have run already";

/**
 * Ends the approvals, the turns and the runs of methods of a restored store. Their calls may have run after the backup was
 * made, so a person must not be asked about them again as if they were new. Records it. Returns the number of expired
 * approvals.
 */
export async function recordRestore(
  { approvals, events, methodRuns, turns }: Store,
  now: Date,
  file: string,
): Promise<number> {
  const expired: Approval[] = [];
  const answer = { by: "quartermaster", via: "restore", at: now.toISOString(), reason: EXPIRY_REASON };
  const open = await approvals.list({ state: ["pending", "approved", "executing"], limit: Number.MAX_SAFE_INTEGER });
  for (const approval of open) {
    if (approval.executor !== undefined) await approvals.release(approval.id, approval.executor);
    if (await approvals.expire(approval.id, { decision: "expired", ...answer })) expired.push(approval);
  }
  // Their later steps may have run after the backup, too.
  const runs = await methodRuns.list({ isOpen: true, limit: Number.MAX_SAFE_INTEGER });
  for (const { id } of runs) await methodRuns.cancel(id, now);
  await turns.cancelAll(now);
  const restored: NewEvent = {
    type: "store.restored",
    at: now,
    session: SYSTEM_SESSION,
    data: { file, expired: expired.length },
  };
  await events.append([...expired.map((approval) => createExpiredEvent(approval, now)), restored]);
  return expired.length;
}

function createExpiredEvent({ id, callId, action, caller }: Approval, at: Date): NewEvent {
  const { session, actor, tenant, turn, user, person } = caller;
  const fields = omitUndefined({ actor, tenant, turn, user: user?.id, person });
  const data = { callId, approvalId: id, action, reason: EXPIRY_REASON };
  return { type: "approval.expired", at, session, ...fields, data };
}
