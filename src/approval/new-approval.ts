import { definitionOf } from "../core/definition.ts";
import type { Objection } from "../policy/verdict.ts";
import type { NewApproval } from "./approval-store.ts";
import { type Bound, bindingOf } from "./binding.ts";

/** A call that a person must agree to. */
export interface ApprovalRequest extends Bound {
  readonly callId: string;
  readonly via: string;
  readonly objection: Objection;
  readonly preview: string | undefined;
}

/** The question as it is kept. */
export function newApproval(
  request: ApprovalRequest,
  when: Pick<NewApproval, "id" | "requestedAt" | "expiresAt">,
): NewApproval {
  const { action, args, caller, callId, via, policyVersion, objection, preview } = request;
  return {
    ...when,
    callId,
    action: action.name,
    definition: definitionOf(action),
    args,
    caller,
    via,
    policyVersion,
    binding: bindingOf(request),
    level: objection.level ?? "user",
    rule: objection.rule,
    reason: objection.reason,
    ...(preview === undefined ? {} : { preview }),
  };
}
