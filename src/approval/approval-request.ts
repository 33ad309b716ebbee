import { type Action, fingerprint, getDefinitionHash, type Preview } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { digestFiles } from "../core/file-digest.ts";
import { type JsonObject, omitUndefined } from "../core/json.ts";
import type { Objection } from "../policy/objection.ts";
import type { NewApproval } from "./approval-store.ts";

export interface ApprovalBinding {
  readonly action: Action;
  /** The operation that a resource runs. A change of it voids the approval. */
  readonly target?: Action | undefined;
  readonly args: JsonObject;
  readonly caller: Caller;
  readonly policyVersion: string;
}

/**
 * The same for the same call and for no other. Ignores the turn, because a model repeats a call in its next turn, and the
 * session of a client, which repeats a call after it has reconnected (see `isSameCaller`).
 */
export function hashBinding({ action, target, args, caller, policyVersion }: ApprovalBinding): string {
  const { turn: _, session, ...known } = caller;
  const identity = known.client === undefined ? { ...known, session } : known;
  const targetHash = target === undefined ? null : getDefinitionHash(target);
  return fingerprint([action.name, getDefinitionHash(action), targetHash, args, identity, policyVersion]);
}

export interface ApprovalRequest extends ApprovalBinding {
  readonly callId: string;
  readonly parent?: string | undefined;
  readonly method?: string | undefined;
  readonly via: string;
  readonly objection: Objection;
  readonly preview: Preview | undefined;
}

export function createNewApproval(
  request: ApprovalRequest,
  when: Pick<NewApproval, "id" | "requestedAt" | "expiresAt">,
): NewApproval {
  const { action, args, caller, callId, parent, method, via, policyVersion, objection, preview } = request;
  const { level = "user", rule, reason } = objection;
  return {
    ...when,
    callId,
    ...omitUndefined({ parent, method }),
    action: action.name,
    definition: getDefinitionHash(action),
    args,
    caller,
    via,
    policyVersion,
    binding: hashBinding(request),
    level,
    rule,
    reason,
    ...(preview === undefined ? {} : { preview: preview.text }),
    ...(preview?.files === undefined ? {} : { files: digestFiles(preview.files) }),
  };
}
