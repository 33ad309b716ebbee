import type { Approvals } from "../approval/approval.ts";
import { getErrorMessage, QmError } from "../core/errors.ts";
import type { Store } from "../store/open-store.ts";

/** Withdraws a question for its caller: a call may wait for one of another actor. Reports errors; a settled one is none. */
export async function withdrawApproval(
  parts: {
    readonly store: Pick<Store, "approvals">;
    readonly approvals: Pick<Approvals, "withdraw">;
    readonly onProblem: (problem: string) => void;
  },
  id: string,
  reason: string,
): Promise<void> {
  try {
    const approval = await parts.store.approvals.get(id);
    if (approval !== undefined) await parts.approvals.withdraw(id, approval.caller, reason);
  } catch (thrown) {
    if (!(thrown instanceof QmError)) parts.onProblem(`approval ${id}: ${getErrorMessage(thrown)}`);
  }
}
