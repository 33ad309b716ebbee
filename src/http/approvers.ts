import type { Config } from "../config/schema.ts";
import { getErrorMessage, QmError } from "../core/errors.ts";
import { getOwn } from "../core/json.ts";
import type { ApproverIdentity } from "./approvals-api.ts";

/** Of whoever is at the machine, where the configuration names nobody. */
const ALL_ROLES = ["user", "approver", "operator", "admin"];

/** What a person of that name may agree to. Where approvers are configured, nobody else may agree to anything. */
export function getApproverRoles({ approvals }: Pick<Config, "approvals">, name: string): readonly string[] {
  if (Object.keys(approvals.approvers).length === 0) return ALL_ROLES;
  return getOwn(approvals.approvers, name)?.roles ?? [];
}

/** A shorter one can be guessed. */
export const MIN_TOKEN_LENGTH = 16;

interface ApproverTokenOptions {
  /** Fills a reference, or throws when what it refers to is not there. */
  readonly fill: (text: string, key: string) => string;
  readonly onProblem: (problem: string) => void;
}

/** Approvers by the tokens they say. One whose token is not there is let in by nobody, and that is told. */
export function readApproverTokens(
  config: Pick<Config, "approvals" | "gateway">,
  { fill, onProblem }: ApproverTokenOptions,
): ReadonlyMap<string, ApproverIdentity> {
  const found = new Map<string, ApproverIdentity>();
  for (const [id, { token: text, roles }] of Object.entries(config.approvals.approvers)) {
    if (text === undefined) continue;
    const token = tryFill(() => fill(text, `approvals.approvers.${id}.token`));
    if (token instanceof Error) onProblem(`${id} cannot answer over HTTP: ${token.message}`);
    else if (token.length < MIN_TOKEN_LENGTH) throw createShortTokenError(id);
    else if (found.has(token)) throw createSameTokenError(`the approvers ${found.get(token)?.id} and ${id}`);
    else found.set(token, { id, roles });
  }
  // A client with it could agree to its own calls.
  for (const [name, { token: text }] of Object.entries(config.gateway.profiles)) {
    const token = text === undefined ? undefined : tryFill(() => fill(text, `gateway.profiles.${name}.token`));
    const same = typeof token === "string" ? found.get(token) : undefined;
    if (same !== undefined) throw createSameTokenError(`the approver ${same.id} and the profile ${name}`);
  }
  return found;
}

function tryFill(fill: () => string): string | Error {
  try {
    return fill();
  } catch (thrown) {
    return new Error(getErrorMessage(thrown));
  }
}

function createShortTokenError(id: string): QmError {
  return new QmError(
    "invalid_config",
    `the token of the approver ${id} has fewer than ${MIN_TOKEN_LENGTH} characters`,
    {
      hint: "Give a longer one that nobody can guess, as `openssl rand -base64 32` makes it.",
    },
  );
}

function createSameTokenError(who: string): QmError {
  return new QmError("invalid_config", `${who} have the same token`, {
    hint: "Give each its own: the token is what tells them apart.",
  });
}
