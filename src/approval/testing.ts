import { QmError } from "../core/errors.ts";
import type { ActionName } from "../core/names.ts";
import { createFailedOutcome, createWaitingOutcome, type Outcome, VALUE_LIMIT } from "../core/outcome.ts";
import type { Approvals, ApprovalView } from "./approval.ts";

const action = "file__write" as ActionName;

/** The outcome of a call whose approval is not answered yet. */
export function createWaitingResult(approvalId: string): Outcome {
  const approval = { id: approvalId, level: "user", expiresAt: "2027-01-01T00:00:00.000Z" };
  return createWaitingOutcome(createTestEnding(approvalId), action, { reason: "it writes", approval });
}

export function createDoneResult(approvalId: string, data: unknown): Outcome {
  return { status: "done", callId: toTestCallId(approvalId), durationMs: 3, action, data, value: "…" };
}

export function createFailedResult(
  approvalId: string,
  code: "tool_denied" | "approval_expired" | "interrupted",
): Outcome {
  return createFailedOutcome(createTestEnding(approvalId), new QmError(code, "not this time"));
}

/** Approvals for turns: `outcomes` has the ended ones, `known` tells the waiting ones. */
export function createFakeApprovals(
  outcomes: ReadonlyMap<string, Outcome>,
  known: (id: string) => boolean = () => true,
) {
  const asked: Parameters<Approvals["outcome"]>[] = [];
  const approvals: Pick<Approvals, "outcome" | "look" | "get"> = {
    look: (id, options) => approvals.outcome(id, options),
    get: async (id) => ({ args: { approval: id }, masked: [] }) as unknown as ApprovalView,
    async outcome(id, options) {
      asked.push([id, options]);
      const outcome = outcomes.get(id) ?? (known(id) ? createWaitingResult(id) : undefined);
      if (outcome === undefined) throw new QmError("not_found", `there is no approval ${id}`);
      return outcome;
    },
  };
  return { approvals, asked };
}

export function toTestCallId(approvalId: string): string {
  return `call of ${approvalId}`;
}

function createTestEnding(approvalId: string) {
  return { callId: toTestCallId(approvalId), durationMs: 0, valueLimit: VALUE_LIMIT, action };
}
