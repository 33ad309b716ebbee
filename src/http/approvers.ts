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

interface TokenOptions {
  readonly fill: (text: string, key: string) => string;
  readonly onProblem: (problem: string) => void;
}

/** The approvers by their tokens. One that cannot be filled is reported and left out. Throws `invalid_config`. */
export function readApproverTokens(
  config: Pick<Config, "approvals" | "gateway" | "a2a">,
  options: TokenOptions,
): ReadonlyMap<string, ApproverIdentity> {
  const found = new Map<string, ApproverIdentity>();
  for (const [id, { token: text, roles }] of Object.entries(config.approvals.approvers)) {
    if (text === undefined) continue;
    const token = tryFill(options, text, `approvals.approvers.${id}.token`);
    if (token instanceof Error) options.onProblem(`${id} cannot answer over HTTP: ${token.message}`);
    else {
      requireOwnToken(token, `the approver ${id}`, found.get(token) && `the approver ${found.get(token)?.id}`);
      found.set(token, { id, roles });
    }
  }
  // A client with an approver's token could approve its own calls.
  const others = [
    ...Object.entries(config.gateway.profiles).map(([name, { token }]) => ["gateway.profiles", name, token] as const),
    ...Object.entries(config.a2a.clients).map(([name, { token }]) => ["a2a.clients", name, token] as const),
  ];
  for (const [key, name, text] of others) {
    const token = text === undefined ? undefined : tryFill(options, text, `${key}.${name}.token`);
    const same = typeof token === "string" ? found.get(token) : undefined;
    const who = key === "a2a.clients" ? `client ${name}` : `profile ${name}`;
    if (same !== undefined) throw createSameTokenError(`the approver ${same.id} and the ${who}`);
  }
  return found;
}

function tryFill({ fill }: TokenOptions, text: string, key: string): string | Error {
  try {
    return fill(text, key);
  } catch (thrown) {
    return new Error(getErrorMessage(thrown));
  }
}

/** Throws `invalid_config` for a token that can be guessed, or that another one has. */
export function requireOwnToken(token: string, who: string, other: string | undefined): void {
  if (other !== undefined) throw createSameTokenError(`${other} and ${who}`);
  if (token.length >= MIN_TOKEN_LENGTH) return;
  const hint = "Use a longer random token, for example from `openssl rand -base64 32`.";
  throw new QmError("invalid_config", `the token of ${who} has fewer than ${MIN_TOKEN_LENGTH} characters`, { hint });
}

function createSameTokenError(who: string): QmError {
  const hint = "Give each its own: the token tells them apart.";
  return new QmError("invalid_config", `${who} have the same token`, { hint });
}
