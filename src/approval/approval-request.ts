import type { Action } from "../core/action.ts";
import { fingerprint, getDefinitionHash } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import type { JsonObject } from "../core/json.ts";
import type { Objection } from "../policy/objection.ts";
import type { NewApproval } from "./approval-store.ts";

/** What an agreement is about, and nothing else. */
export interface ApprovalBinding {
  readonly action: Action;
  /** What the action runs, where that is another one: a change of it is a change of what was agreed to. */
  readonly target?: Action | undefined;
  readonly args: JsonObject;
  readonly caller: Caller;
  readonly policyVersion: string;
}

/** The same for the same call and for no other. */
export function hashBinding({
  action,
  target,
  args,
  caller: { turn: _, ...caller },
  policyVersion,
}: ApprovalBinding): string {
  // Whoever repeats a call does so in the next turn.
  return fingerprint([
    action.name,
    getDefinitionHash(action),
    target === undefined ? null : getDefinitionHash(target),
    args,
    caller,
    policyVersion,
  ]);
}

/** A call that a person must agree to. */
export interface ApprovalRequest extends ApprovalBinding {
  readonly callId: string;
  readonly via: string;
  readonly objection: Objection;
  readonly preview: string | undefined;
}

/** The question as it is kept. */
export function createNewApproval(
  request: ApprovalRequest,
  when: Pick<NewApproval, "id" | "requestedAt" | "expiresAt">,
): NewApproval {
  const { action, args, caller, callId, via, policyVersion, objection, preview } = request;
  return {
    ...when,
    callId,
    action: action.name,
    definition: getDefinitionHash(action),
    args,
    caller,
    via,
    policyVersion,
    binding: hashBinding(request),
    level: objection.level ?? "user",
    rule: objection.rule,
    reason: objection.reason,
    ...(preview === undefined ? {} : { preview }),
  };
}
