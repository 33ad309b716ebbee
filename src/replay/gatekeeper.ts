import type { Approval } from "../approval/approval.ts";
import type { Gatekeeper } from "../approval/gatekeeper.ts";
import { type ApprovalRequest, newApproval } from "../approval/new-approval.ts";
import type { Permit } from "../approval/permits.ts";
import type { Action } from "../core/action.ts";
import { askedThen, outcomeThen, ranThen } from "./fate.ts";
import type { RecordedCall } from "./recorded.ts";

/** Repeats what people said then. Whoever was not asked then cannot have agreed, so a call that asks only now waits. */
export function recordedGatekeeper(
  recordedOf: (action: Action) => RecordedCall | undefined,
  valueLimit: number,
): Gatekeeper {
  return {
    async obtain(request) {
      const { action, callId } = request;
      const recorded = recordedOf(action);
      const approval = approvalThen(request, recorded);
      if (recorded === undefined || !askedThen(recorded)) return { kind: "waiting", approval };
      if (ranThen(recorded)) return { kind: "permit", permit: permitFor(approval) };
      const outcome = outcomeThen(recorded, { callId, action: action.name, valueLimit });
      return outcome === undefined ? { kind: "waiting", approval } : { kind: "ended", approval, outcome };
    },
    settled: async (outcome) => outcome,
  };
}

function permitFor(approval: Approval): Permit {
  return {
    approval,
    executor: "replay",
    begin: async () => {},
    ended: async () => "kept",
    recorded: async () => {},
    leave() {},
  };
}

/** The question as it would be put now, with the answer of then. */
function approvalThen(request: ApprovalRequest, recorded: RecordedCall | undefined): Approval {
  const { id = `replay-${request.callId}`, answer } = recorded?.approval ?? {};
  const at = recorded?.at ?? "";
  return {
    ...newApproval(request, { id, requestedAt: at, expiresAt: at }),
    state: answer?.decision ?? "pending",
    ...(answer === undefined ? {} : { answer: { ...answer, via: "replay", at } }),
    delivered: false,
  };
}
