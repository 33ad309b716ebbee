import type { Config } from "../config/schema.ts";
import { getErrorMessage, QmError } from "../core/errors.ts";
import { getOwn } from "../core/json.ts";
import type { ApproverIdentity } from "./approvals-api.ts";

/** The roles of the person at the machine, if no approvers are configured. */
const ALL_ROLES = ["user", "approver", "operator", "admin"];

/** If approvers are configured, other people have no roles. */
export function getApproverRoles({ approvals }: Pick<Config, "approvals">, name: string): readonly string[] {
  if (Object.keys(approvals.approvers).length === 0) return ALL_ROLES;
  return getOwn(approvals.approvers, name)?.roles ?? [];
}

/** A shorter token can be guessed. */
export const MIN_TOKEN_LENGTH = 16;

/** The approvers by their tokens. One that cannot be filled is reported and left out. Throws `invalid_config`. */
export function readApproverTokens(
  config: Pick<Config, "approvals" | "gateway">,
  options: { readonly fill: (text: string, key: string) => string; readonly onProblem: (problem: string) => void },
): ReadonlyMap<string, ApproverIdentity> {
  const tryFill = (text: string, key: string): string | Error => {
    try {
      return options.fill(text, key);
    } catch (thrown) {
      return new Error(getErrorMessage(thrown));
    }
  };
  const found = new Map<string, ApproverIdentity>();
  for (const [id, { token: text, roles }] of Object.entries(config.approvals.approvers)) {
    if (text === undefined) continue;
    const token = tryFill(text, `approvals.approvers.${id}.token`);
    if (token instanceof Error) options.onProblem(`${id} cannot answer over HTTP: ${token.message}`);
    else if (token.length < MIN_TOKEN_LENGTH) {
      const message = `the token of the approver ${id} has fewer than ${MIN_TOKEN_LENGTH} characters`;
      const hint = "Use a longer random token, for example from `openssl rand -base64 32`.";
      throw new QmError("invalid_config", message, { hint });
    } else if (found.has(token)) throw createSameTokenError(`the approvers ${found.get(token)?.id} and ${id}`);
    else found.set(token, { id, roles });
  }
  // A client with an approver's token could approve its own calls.
  for (const [name, { token: text }] of Object.entries(config.gateway.profiles)) {
    const token = text === undefined ? undefined : tryFill(text, `gateway.profiles.${name}.token`);
    const same = typeof token === "string" ? found.get(token) : undefined;
    if (same !== undefined) throw createSameTokenError(`the approver ${same.id} and the profile ${name}`);
  }
  return found;
}

function createSameTokenError(who: string): QmError {
  const hint = "Give each its own: the token tells them apart.";
  return new QmError("invalid_config", `${who} have the same token`, { hint });
}
