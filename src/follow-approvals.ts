import type { Approval, ShownApproval } from "./approval/approval.ts";
import type { ApprovalStore } from "./approval/approval-store.ts";
import { messageOf } from "./core/errors.ts";
import { isRecord } from "./core/json.ts";
import { LruMap } from "./core/lru-map.ts";
import type { StoredEvent } from "./ledger/event-store.ts";
import type { Ledger } from "./ledger/ledger.ts";

export interface FollowParts {
  readonly ledger: Pick<Ledger, "read">;
  readonly store: Pick<ApprovalStore, "get">;
  readonly shown: (approval: Approval) => ShownApproval;
  readonly onProblem: (problem: string) => void;
}

const LOOK_MS = 500;
const AT_ONCE = 500;

/** Calls back with every approval that changes, whatever process changes it: the ledger has it. */
export function followApprovals(parts: FollowParts, listener: (approval: ShownApproval) => void): () => void {
  const { ledger, store, shown, onProblem } = parts;
  const running = new LruMap<string, string>(AT_ONCE);
  let timer: NodeJS.Timeout | undefined;
  let after: number | undefined;
  let stopped = false;

  /** The approval that an event is about, if it is about one. */
  function approvalOf({ type, data, callId }: StoredEvent): string | undefined {
    const id = isRecord(data) && typeof data.approvalId === "string" ? data.approvalId : undefined;
    if (type === "call.resumed" && callId !== null && id !== undefined) {
      running.set(callId, id);
    }
    if (type === "call.resumed" || type.startsWith("approval.")) return id;
    if (type !== "call.ended" || callId === null) return undefined;
    const ended = running.get(callId);
    running.delete(callId);
    return ended;
  }

  /** Whatever the listener does, the others are told. */
  function told(approval: ShownApproval): void {
    try {
      listener(approval);
    } catch (thrown) {
      onProblem(`a listener for approvals failed: ${messageOf(thrown)}`);
    }
  }

  async function look(): Promise<void> {
    try {
      after ??= (await ledger.read({ limit: 1 })).at(-1)?.id ?? 0;
      const events = await ledger.read({ after, limit: AT_ONCE });
      after = events.at(-1)?.id ?? after;
      const ids = events.map(approvalOf).filter((id) => id !== undefined);
      for (const id of new Set(ids)) {
        const approval = await store.get(id);
        if (approval !== undefined && !stopped) told(shown(approval));
      }
    } catch (thrown) {
      onProblem(`changes of approvals could not be followed: ${messageOf(thrown)}`);
    }
    if (!stopped) timer = setTimeout(look, LOOK_MS).unref();
  }

  void look();
  return () => {
    stopped = true;
    clearTimeout(timer);
  };
}
